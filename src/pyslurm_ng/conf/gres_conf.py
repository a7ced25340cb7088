"""gres.conf: which devices a node's generic resources are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pyslurm_ng.base.hostlist import HostlistError, expand, fold
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, Entry, parse_text, read_conf
from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.keys import GRES

_TABLE = Table(GRES, "gres.conf", {"CPUs": "Cores", "Link": "Links"})
# Resources that are parts of a device. Their count need not equal the number of files.
_SHARING = ("mps", "shard")


class GresLine(NamedTuple):
    """One line: `amount` devices of a name and type on some nodes.

    Empty `node_names` means every node. NO_VAL as the amount means the amount of slurm.conf.
    `links` has one count for each device of the node, with -1 for the device itself.
    """

    node_names: tuple[str, ...]
    name: str
    type_name: str
    amount: int
    files: tuple[str, ...]
    multiple_files: tuple[str, ...]
    cores: tuple[int, ...]
    links: tuple[int, ...]
    flags: tuple[str, ...]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class GresConf:
    """A whole gres.conf; `auto_detect` and `node_auto_detect` say how devices are found."""

    path: str
    lines: tuple[GresLine, ...]
    auto_detect: str
    node_auto_detect: tuple[tuple[str, str], ...]
    text_hash: str
    warnings: tuple[str, ...] = ()

    def for_node(self, node_name: str) -> tuple[GresLine, ...]:
        """Return the lines for one node, in their order."""
        return tuple(
            line for line in self.lines if not line.node_names or node_name in line.node_names
        )

    def lines_of(self, node: NodeConf) -> tuple[GresLine, ...]:
        """Return the lines for one node; lines with flags alone get the counts of slurm.conf."""
        lines: list[GresLine] = []
        for line in self.for_node(node.name):
            if line.amount != NO_VAL:
                lines.append(line)
                continue
            lines += [
                line._replace(type_name=gres.type_name, amount=gres.amount)
                for gres in node.gres
                if gres.name == line.name and line.type_name in ("", gres.type_name)
            ]
        return tuple(lines)

    def auto_detect_on(self, node_name: str) -> str:
        """Return how devices of a node are found; "" or "off" means from the lines alone."""
        for name, method in self.node_auto_detect:
            if name == node_name:
                return method
        return self.auto_detect


def load_gres_conf(
    path: str, gres_types: tuple[str, ...], nodes: tuple[NodeConf, ...] = ()
) -> GresConf:
    """Read and check a gres.conf against the cluster's GresTypes and, if given, its nodes.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(read_conf(path), gres_types, nodes)


def parse_gres_conf(
    text: str,
    gres_types: tuple[str, ...],
    nodes: tuple[NodeConf, ...] = (),
    path: str = "gres.conf",
) -> GresConf:
    """Read a gres.conf given as a string.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(parse_text(text, path), gres_types, nodes)


def empty_gres_conf() -> GresConf:
    """Return the meaning of a missing file: only what slurm.conf counts, without devices."""
    return GresConf("", (), "", (), "")


def _build(text: ConfText, gres_types: tuple[str, ...], nodes: tuple[NodeConf, ...]) -> GresConf:
    lines: list[GresLine] = []
    auto_detect = ""
    by_node: dict[str, str] = {}
    for entries in text.lines:
        settings = read_line(text, entries, _TABLE, "gres.conf")
        values = {**_TABLE.defaults(), **{name: value for name, (value, _) in settings.items()}}
        names = _node_names(text, entries[0], values["node_name"], nodes)
        if "auto_detect" in settings:
            word, entry = settings["auto_detect"]
            if word.lower() not in DETECTED_HERE:
                text.warn(entry, f"{word} is not there yet: slurmd does not start on such nodes")
            if values["node_name"]:
                by_node.update(dict.fromkeys(names, values["auto_detect"]))
            elif "name" not in settings:
                auto_detect = values["auto_detect"]
            else:
                text.warn(entry, "is ignored beside Name: it needs NodeName, or a line of its own")
        if "name" not in settings:
            keys = {entry.key.lower() for entry in entries}
            extra = keys.difference(_WITHOUT_NAME)
            if extra or "autodetect" not in keys:
                text.fail(entries[0], "expected Name=, or AutoDetect= alone or with NodeName=")
            continue
        name, entry = settings["name"]
        if name not in gres_types:
            types = ",".join(gres_types)
            text.warn(entry, f"{name} is not in GresTypes={types} of slurm.conf and is left out")
            continue
        line = _line(text, entries[0], values, names)
        if line is not None:
            lines.append(line)
    conf = GresConf(
        text.path,
        tuple(lines),
        auto_detect,
        tuple(by_node.items()),
        text.text_hash,
        tuple(text.warnings),
    )
    if not text.errors:  # a line with an error is not compared with the others
        _check_devices(text, conf)
        _check_nodes(text, conf, nodes)
    if text.errors:
        raise ConfErrors(text.errors)
    return conf


DETECTED_HERE = ("nvml", "full", "nvidia", "off")
"""The words of AutoDetect with which slurmd starts."""
_WITHOUT_NAME = ("nodename", "autodetect")


def _node_names(
    text: ConfText, entry: Entry, value: str, nodes: tuple[NodeConf, ...]
) -> tuple[str, ...]:
    if not value:
        return ()
    try:
        names = tuple(expand(value))
    except HostlistError:
        return ()  # reported when the value was read
    if nodes:
        known = {node.name for node in nodes}
        missing = [name for name in names if name not in known]
        if missing:
            # As in Slurm: one file may serve the nodes of several clusters.
            text.warn(entry, f"slurm.conf has no node {fold(missing)}: left out")
    return names


def _line(
    text: ConfText,
    entry: Entry,
    values: dict[str, object],
    names: tuple[str, ...],
) -> GresLine | None:
    name = str(values["name"])
    errors = len(text.errors)
    files = _paths(text, entry, str(values["file"]), "File")
    multiple = _paths(text, entry, str(values["multiple_files"]), "MultipleFiles")
    if files and multiple:
        text.fail(entry, "allowed: only one of File and MultipleFiles")
    amount = values["count"]
    assert isinstance(amount, int)
    gives_flags_alone = not (files or multiple or values["cores"] or values["links"])
    if amount == NO_VAL and not (gives_flags_alone and values["flags"]):
        amount = 1 if multiple else max(1, len(files))
    elif files and amount != len(files) and name not in _SHARING:
        text.fail(entry, f"Count={amount} differs from the {plural(len(files), 'file')} of File")
    links = _links(text, entry, values["links"])
    flags = values["flags"]
    assert isinstance(flags, tuple)
    if "one_sharing" in flags and "all_sharing" in flags:
        text.fail(entry, "allowed: only one of one_sharing and all_sharing")
    env_flags = [flag for flag in flags if flag.endswith("_env")]
    if "no_gpu_env" in env_flags and len(env_flags) > 1:
        text.fail(entry, "Flags=no_gpu_env excludes other flags of variables")
    if "CountOnly" in flags and files:
        text.fail(entry, "Flags=CountOnly has no files")
    cores = values["cores"]
    assert isinstance(cores, tuple)
    if len(text.errors) > errors:
        return None
    type_name = str(values["type"])
    return GresLine(
        names, name, type_name, amount, files, multiple, cores, links, flags, entry.file, entry.line
    )


def _paths(text: ConfText, entry: Entry, value: str, key: str) -> tuple[str, ...]:
    if not value:
        return ()
    try:
        paths = tuple(expand(value))
    except HostlistError as error:
        text.fail(entry, f"{key}: {error}")
        return ()
    for path in paths:
        if not path.startswith("/"):
            text.fail(entry, f"{key}={path} is not an absolute path")
            break
    return paths


def _links(text: ConfText, entry: Entry, words: object) -> tuple[int, ...]:
    assert isinstance(words, tuple)
    numbers = []
    for word in words:
        if word != "-1" and not word.isdecimal():
            text.fail(entry, f"Links: '{word}' is not a number; -1 marks the device itself")
            return ()
        numbers.append(int(word))
    if numbers and numbers.count(-1) != 1:
        text.fail(entry, "Links: expected exactly one -1, in the position of the device itself")
    return tuple(numbers)


def _check_devices(text: ConfText, conf: GresConf) -> None:
    """Add an error if two lines have the same device file of a node; parts may share it."""
    owners: dict[tuple[str, str], GresLine] = {}
    for line in conf.lines:
        if line.name in _SHARING:
            continue
        for node_name in line.node_names or ("",):
            for path in line.files:
                first = owners.setdefault((node_name, path), line)
                if first is not line:
                    entry = Entry("File", path, line.file, line.line)
                    text.fail(entry, f"{path} was already given in line {first.line}")
                    return


def _check_nodes(text: ConfText, conf: GresConf, nodes: tuple[NodeConf, ...]) -> None:
    """Add an error if devices do not match the counts of slurm.conf or the cores of a node.

    Without NodeName a line may be for some of the nodes, in a file of theirs alone: its cores must
    be those of one of them, and slurmctld compares its devices when a node registers.
    """
    if not conf.lines:
        return
    _check_cores(text, conf, nodes)
    for node in nodes:
        is_told = conf.auto_detect_on(node.name) in ("", "off")
        if is_told and not _check_amounts(node, conf.lines_of(node), text.fail):
            return


def _check_cores(text: ConfText, conf: GresConf, nodes: tuple[NodeConf, ...]) -> None:
    for line in conf.lines:
        named = [node for node in nodes if not line.node_names or node.name in line.node_names]
        having = [node for node in named if any(gres.name == line.name for gres in node.gres)]
        short = [
            node
            for node in having
            if line.cores and line.cores[-1] >= node.sockets * node.cores_per_socket
        ]
        if short and (line.node_names or len(short) == len(having)):
            count = plural(short[0].sockets * short[0].cores_per_socket, "core")
            entry = Entry("Cores", "", line.file, line.line)
            text.fail(entry, f"core {line.cores[-1]}: node {short[0].name} has {count}")
            return


def _check_amounts(
    node: NodeConf, lines: tuple[GresLine, ...], fail: Callable[[Entry, str], None]
) -> bool:
    for gres in node.gres:
        name_lines = [line for line in lines if line.name == gres.name]
        total = sum(
            line.amount
            for line in name_lines
            if not gres.type_name or line.type_name == gres.type_name
        )
        is_of_all = all(line.node_names for line in name_lines)
        if name_lines and is_of_all and total < gres.amount and gres.name not in _SHARING:
            entry = Entry("Name", gres.name, name_lines[0].file, name_lines[0].line)
            fail(
                entry,
                f"node {node.name} has {total} of the {gres.amount} that Gres={gres} of "
                "slurm.conf promises",
            )
            return False
    return True


def file_errors(
    path: str, gres_types: tuple[str, ...], nodes: tuple[NodeConf, ...]
) -> list[ConfError]:
    """Return all that is wrong with a gres.conf."""
    try:
        load_gres_conf(path, gres_types, nodes)
    except ConfErrors as problems:
        return problems.errors
    return []
