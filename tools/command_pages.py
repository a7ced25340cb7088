"""The manual pages of commands, from their sources in man/ and the facts about their options."""

from __future__ import annotations

from typing import Any

from man_sources import names, paragraphs, source
from option_status import refused_options, refused_words
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
    for option in facts.get("option", []):
        if option["long"] in refused:
            continue
        environment = ", ".join(option.get("env", []))
        more = f" Environment: {environment}." if environment else ""
        page.item(option_tag(option), sentence(option.get("help", "")) + more)
    if refused:
        page.heading("NOT YET")
        words = [f"--{option}" for option in sorted(refused)] + sorted(refused_words(name))
        page.paragraph("These are refused by name: " + ", ".join(words))
    for heading, kind in (("COMMANDS", "subcommand"), ("SHOW", "show_entity")):
        words = [word for word in facts.get(kind, []) if word["name"] not in refused_words(name)]
        listing(page, heading, words)
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


def listing(page: Page, heading: str, entries: list[dict[str, Any]]) -> None:
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
        page.item(f"{name}{arguments}{behind}", sentence(entry["help"]))


def pages() -> dict[str, Page]:
    """Return the pages by file name."""
    return {f"{name}.1": command_page(name) for name in COMMANDS}
