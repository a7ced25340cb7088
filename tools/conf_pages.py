"""The manual pages of the configuration files, from man/ and the tables that read the files."""

from __future__ import annotations

from collections.abc import Iterable

from man_sources import paragraphs, source
from roff import Page

from pyslurm_ng import __version__
from pyslurm_ng.conf.effects.effect import ACCEPTED, DIFFERS, REFUSED, effect_of, word_effect
from pyslurm_ng.conf.tables import keys, options
from pyslurm_ng.conf.tables.key import Key

KIND_TEXTS = {
    "bool": "yes or no",
    "seconds": "seconds",
    "minutes": "minutes",
    "duration": "a time: minutes, hours:minutes:seconds or days-hours",
    "duration_s": "a time: minutes, hours:minutes:seconds or days-hours",
    "limit_min": "a time limit: minutes, hours:minutes:seconds or days-hours",
    "mem_mib": "memory in MiB, or with a suffix K, M, G, T",
    "percent": "percent",
    "int": "a number",
    "count": "a number, suffixes K, M, G allowed",
    "path": "a path",
    "paths": "paths, separated by commas",
    "list": "words, separated by commas",
    "words": "words, separated by commas",
    "lower_words": "words, separated by commas",
    "options": "options, separated by commas",
    "hostlist": "names, ranges as in n[1-4,7]",
    "user": "a user's name or number",
    "purge": "a time with a unit: 30days, 12months",
}
NUMBERS = {"bool": False, "int": True, "seconds": True, "minutes": True, "percent": True}


def value_text(key: Key) -> str:
    """Return one sentence on what may stand there."""
    parts = [KIND_TEXTS.get(key.kind, "text")]
    if key.choices:
        parts = [f"one of {', '.join(key.choices)}" if key.kind != "list" else
                 f"any of {', '.join(key.choices)}"]  # fmt: skip
    if NUMBERS.get(key.kind):
        parts.append(f"from {key.low}" + (f" to {key.high}" if key.high < 2**32 - 3 else ""))
    if key.infinite:
        parts.append("or UNLIMITED")
    text = " ".join(parts)
    default = f" Default: {key.default}." if key.default else ""
    return f"{text[:1].upper()}{text[1:]}.{default}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def effect_text(section: str, key: Key) -> str:
    """Return what a key does otherwise than in Slurm, and which of its words do nothing."""
    what = effect_of(section, key.name)
    why = f": {what.why}" if what.why else ""
    words = [name for name, *_ in options.OPTIONS.get(key.name, ())]
    idle = [word for word in words if word_effect(section, key, word).kind == ACCEPTED]
    if what.kind == REFUSED:
        return f"Refused{why}."
    if what.kind == ACCEPTED and len(idle) == len(words):
        return f"Accepted; without effect in this version{why}."
    parts = [f"Here{why}."] if what.kind == DIFFERS else []
    for word in words:
        here = word_effect(section, key, word)
        if here.kind == DIFFERS:
            parts.append(f"{word}: {here.why}.")
    return " ".join([*parts, f"No effect yet: {', '.join(idle)}."] if idle else parts)


def list_keys(page: Page, table: Iterable[Key], section: str) -> None:
    for key in table:
        about = [" ".join(filter(None, (sentence(key.help), value_text(key))))]
        words = options.OPTIONS.get(key.name) if section == "slurm.conf" else None
        if words:
            names = ", ".join(name for name, *_ in words)
            about.append(f"Words: {names}.")
        about += filter(None, [effect_text(section, key)])
        page.item(f"{key.name}=", *about)


def slurm_conf() -> Page:
    page = begin("slurm.conf")
    page.heading("CLUSTER")
    list_keys(page, keys.PARAMETERS, "slurm.conf")
    texts = source("slurm.conf.5")["sections"]
    for heading, section, table in (
        ("NODES", "NodeName", keys.NODE),
        ("PARTITIONS", "PartitionName", keys.PARTITION),
        ("NODE SETS", "NodeSet", keys.NODESET),
        ("DOWN NODES", "DownNodes", keys.DOWNNODES),
    ):
        page.heading(heading)
        for paragraph in paragraphs(texts[section]):
            page.paragraph(paragraph)
        list_keys(page, table, section)
    return page


def begin(name: str) -> Page:
    """Return the beginning of a page: every file has the syntax of slurm.conf."""
    text = source(f"{name}.5")
    page = Page(name, 5, __version__, text["summary"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(source("slurm.conf.5")["syntax"] + "\n" + text["description"]):
        page.paragraph(paragraph)
    return page


def plain(name: str, table: Iterable[Key]) -> Page:
    """Return the page of a file without repeated lines."""
    page = begin(name)
    page.heading("KEYS")
    list_keys(page, table, name)
    text = source(f"{name}.5")
    if "example" in text:
        page.heading("EXAMPLE")
        page.example(text["example"])
    if "see_also" in text:
        page.heading("SEE ALSO")
        page.paragraph(text["see_also"])
    return page


def namespace_yaml() -> Page:
    """Return the page of namespace.yaml; `conf.namespaces` reads its keys."""
    text = source("namespace.yaml.5")
    page = Page("namespace.yaml", 5, __version__, text["summary"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(text["description"]):
        page.paragraph(paragraph)
    page.heading("KEYS")
    for key in keys.NAMESPACE:
        about = [" ".join(filter(None, (sentence(key.help), value_text(key))))]
        page.item(key.name, *about, *filter(None, [effect_text("namespace.yaml", key)]))
    page.heading("EXAMPLE")
    page.example(text["example"])
    page.heading("SEE ALSO")
    page.paragraph(text["see_also"])
    return page


def topology_yaml() -> Page:
    """Return the page of topology.yaml; `conf.topology_yaml` reads its keys."""
    text = source("topology.yaml.5")
    page = Page("topology.yaml", 5, __version__, text["summary"])
    page.heading("DESCRIPTION")
    for paragraph in paragraphs(text["description"]):
        page.paragraph(paragraph)
    page.heading("KEYS")
    for tag, about in text["keys"].items():
        page.item(tag, about)
    page.heading("EXAMPLE")
    page.example(text["example"])
    page.heading("SEE ALSO")
    page.paragraph(text["see_also"])
    return page


def pages() -> dict[str, Page]:
    """Return the pages by file name."""
    return {
        "slurm.conf.5": slurm_conf(),
        "gres.conf.5": plain("gres.conf", keys.GRES),
        "topology.conf.5": plain("topology.conf", keys.TOPOLOGY),
        "topology.yaml.5": topology_yaml(),
        "cgroup.conf.5": plain("cgroup.conf", keys.CGROUP),
        "job_container.conf.5": plain("job_container.conf", keys.JOB_CONTAINER),
        "namespace.yaml.5": namespace_yaml(),
        "oci.conf.5": plain("oci.conf", keys.OCI),
        "acct_gather.conf.5": plain("acct_gather.conf", keys.ACCT_GATHER),
        "burst_buffer.conf.5": plain("burst_buffer.conf", keys.BURST_BUFFER),
        "slurmdbd.conf.5": plain("slurmdbd.conf", keys.SLURMDBD),
    }
