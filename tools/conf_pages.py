"""The manual pages of the configuration files, from the tables that read them."""

from __future__ import annotations

from collections.abc import Iterable

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
OVERVIEW = {
    "slurm.conf": "configuration of the cluster",
    "gres.conf": "generic resources of the nodes",
    "topology.conf": "how the nodes are connected",
    "topology.yaml": "several topologies, of which partitions choose",
    "cgroup.conf": "control groups of jobs",
    "slurmdbd.conf": "configuration of the accounting daemon",
}
SYNTAX = (
    "One Key=Value, or one line of several, separated by blanks. Keys are found without regard to "
    "case. # begins a comment, a backslash at the end of a line continues it, a value with blanks "
    "stands in double quotes. Include FILE reads another file at that place. A key that is unknown "
    "or a value not allowed keeps the daemons from starting, and is named with file and line."
)


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
    page = begin("slurm.conf", "SLURM_CONF names another file.")
    page.heading("CLUSTER")
    list_keys(page, keys.PARAMETERS, "slurm.conf")
    for heading, section, what, table in (
        ("NODES", "NodeName", "A line that begins with NodeName describes nodes; DEFAULT as the "
         "name gives the values that later lines leave out.", keys.NODE),
        ("PARTITIONS", "PartitionName", "A line that begins with PartitionName describes one.",
         keys.PARTITION),
        ("NODE SETS", "NodeSet", "A line that begins with NodeSet names a group of nodes.",
         keys.NODESET),
        ("DOWN NODES", "DownNodes", "A line that begins with DownNodes gives a state to start "
         "with.", keys.DOWNNODES),
    ):  # fmt: skip
        page.heading(heading)
        page.paragraph(what)
        list_keys(page, table, section)
    return page


def begin(name: str, more: str) -> Page:
    page = Page(name, 5, __version__, OVERVIEW[name])
    page.heading("DESCRIPTION")
    page.paragraph(SYNTAX)
    if more:
        page.paragraph(more)
    return page


def plain(name: str, table: Iterable[Key], more: str = "") -> Page:
    page = begin(name, more)
    page.heading("KEYS")
    list_keys(page, table, name)
    return page


def topology_yaml() -> Page:
    """Return the page of topology.yaml; `conf.topology_yaml` reads these keys."""
    page = Page("topology.yaml", 5, __version__, OVERVIEW["topology.yaml"])
    page.heading("DESCRIPTION")
    page.paragraph(
        "A list of topologies in YAML, beside slurm.conf; where it is there, TopologyPlugin and "
        "topology.conf do not count. A partition has the topology that its Topology= names, else "
        "the one with cluster_default. What is unknown or not allowed keeps slurmctld from "
        "starting, and is named with file and line."
    )
    page.heading("KEYS")
    for tag, text in (
        ("topology", "Its name."),
        ("cluster_default", "true for at most one of them: that of partitions that name none."),
        ("flat", "true: nodes are all alike."),
        ("tree", "switches: a list of maps with switch (a name) and children (switches) or nodes."),
        ("block", "block_sizes: node counts, the smallest first; blocks: a list of maps with "
         "block (a name) and nodes."),
    ):  # fmt: skip
        page.item(tag, text)
    page.heading("EXAMPLE")
    page.example(
        "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n"
        '      - {switch: leaf1, nodes: "n[1-32]"}\n      - {switch: leaf2, nodes: "n[33-64]"}\n'
        '      - {switch: spine, children: "leaf[1-2]"}\n'
        "- topology: nvlink\n  block:\n    block_sizes: [16, 32]\n    blocks:\n"
        '      - {block: rack1, nodes: "n[1-16]"}\n      - {block: rack2, nodes: "n[17-32]"}'
    )
    page.heading("SEE ALSO")
    page.paragraph("topology.conf(5), slurm.conf(5), scontrol(1): scontrol show topoconf")
    return page


def pages() -> dict[str, Page]:
    """Return the pages by file name."""
    return {
        "slurm.conf.5": slurm_conf(),
        "gres.conf.5": plain("gres.conf", keys.GRES, "It lies beside slurm.conf."),
        "topology.conf.5": plain("topology.conf", keys.TOPOLOGY, "It lies beside slurm.conf."),
        "topology.yaml.5": topology_yaml(),
        "cgroup.conf.5": plain("cgroup.conf", keys.CGROUP, "It lies beside slurm.conf."),
        "slurmdbd.conf.5": plain(
            "slurmdbd.conf",
            keys.SLURMDBD,
            "It lies beside slurm.conf and is readable by SlurmUser only. Without it the daemon "
            "keeps its records in an SQLite file.",
        ),
    }
