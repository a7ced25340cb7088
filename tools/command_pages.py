"""The manual pages of commands, from their sources in man/ and the facts about their options."""

from __future__ import annotations

from typing import Any

from man_sources import names, paragraphs, source
from option_status import difference, recorded_options, refused_options, refused_words
from roff import Page
from slurm_facts import command, documented

from pyslurm_ng import __version__

FACTS = documented()
# `pyslurm-ng` is a page of daemon_pages: it has no table of facts.
COMMANDS = [name for name in names(1) if name != "pyslurm-ng"]
# `scontrol update` takes them as KEY=VALUE; those of partitions are in slurm.conf(5).
KEYS = {
    "KEYS OF JOBS": "job_update",
    "KEYS OF NODES": "node_update",
    "KEYS OF RESERVATIONS": "reservation_update",
    "FLAGS OF RESERVATIONS": "reservation_flag",
}
ARGUMENTS = {"none": "", "required": "=value", "optional": "[=value]"}


def option_tag(option: dict[str, Any]) -> str:
    short = f"-{option['short']}, " if option.get("short") else ""
    return f"{short}--{option['long']}{ARGUMENTS.get(option.get('arg', 'none'), '')}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def command_page(name: str) -> Page:
    text = source(f"{name}.1")
    facts = FACTS[name]
    page = Page(name, 1, __version__, text["summary"])
    page.heading("SYNOPSIS")
    page.synopsis(name, text["synopsis"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(text["description"]):
        page.paragraph(paragraph)
    refused = refused_options(name)
    page.heading("OPTIONS")
    recorded = recorded_options(name)
    for option in facts.get("option", []):
        if option["long"] in refused:
            continue
        environment = ", ".join(option.get("env", []))
        more = f" Environment: {environment}." if environment else ""
        other = difference(name, option["long"]) or recorded.get(option["long"], "")
        page.item(option_tag(option), sentence(option.get("help", "")) + more, *here(other))
    if refused:
        page.heading("NOT YET")
        words = [f"--{option}" for option in sorted(refused)] + sorted(refused_words(name))
        page.paragraph("These are refused by name: " + ", ".join(words))
    for heading, kind in (("COMMANDS", "subcommand"), ("SHOW", "show_entity")):
        words = [word for word in facts.get(kind, []) if word["name"] not in refused_words(name)]
        listing(page, heading, words, name if kind == "subcommand" else "")
    everything = command(name)
    for heading, kind in KEYS.items():
        keys = [key for key in everything.get(kind, []) if is_taken(kind, key["name"])]
        listing(page, heading, keys)
    listing(page, "FIELDS", facts.get("field", []))
    page.heading("EXAMPLE")
    page.example(text["example"])
    page.heading("SEE ALSO")
    page.paragraph(", ".join(f"{other}(1)" for other in COMMANDS if other != name))
    return page


def is_taken(kind: str, name: str) -> bool:
    """Return whether `scontrol update` takes a key; those of nodes and jobs are not all taken."""
    from pyslurm_ng.cli.control.keys import entity_of
    from pyslurm_ng.cli.control.update import JOB_ALIASES
    from pyslurm_ng.ctld.rules.update.update_job import SETTERS
    from pyslurm_ng.ctld.rules.update.update_nodes import KEYS as NODE_KEYS

    key = name.lower()
    if kind == "node_update":
        return key in NODE_KEYS or entity_of(key) == "nodename"
    if kind == "job_update":
        return JOB_ALIASES.get(key, key) in SETTERS or key in ("jobid", "jobname", "userid")
    return True


def here(text: str) -> list[str]:
    return [f"Here: {text}."] if text else []


def listing(page: Page, heading: str, entries: list[dict[str, Any]], of: str = "") -> None:
    """Write a list; `of` is the command whose words they are, some of which do less here."""
    if not entries:
        return
    page.heading(heading)
    plain = [entry["name"] for entry in entries if not entry.get("help")]
    if plain:  # names that speak for themselves
        page.paragraph(", ".join(plain))
    for entry in (entry for entry in entries if entry.get("help")):
        letter = f"%{entry['letter']}" if entry.get("letter") else ""
        name = entry.get("name", letter)
        behind = f" ({letter})" if letter and letter != name else ""
        arguments = f" {entry['args']}" if entry.get("args") else ""
        other = difference(of, name, is_word=True) if of else ""
        page.item(f"{name}{arguments}{behind}", sentence(entry["help"]), *here(other))


def pages() -> dict[str, Page]:
    """Return the pages by file name."""
    return {f"{name}.1": command_page(name) for name in COMMANDS}
