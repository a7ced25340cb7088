"""topology.conf: the network as switches (tree), blocks or rings of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pyslurm_ng.base.hostlist import HostlistError, expand, fold
from pyslurm_ng.base.numbers import MOST_OF_RING
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, Entry, parse_text, read_conf
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.keys import TOPOLOGY
from pyslurm_ng.conf.torus_conf import TorusConf

_TABLE = Table(TOPOLOGY, "topology.conf")
ONLY_NAME = "default"  # the name of the one network of a topology.conf
_KINDS = {"switch_name": "tree", "block_name": "block", "ring_name": "ring"}


class SwitchConf(NamedTuple):
    """One switch: at `level` 0 with nodes of its own, at higher levels with those of its children.

    `node_names` are all nodes below, in the order of the file; `children` are switch names.
    """

    name: str
    level: int
    link_speed: int
    node_names: tuple[str, ...]
    children: tuple[str, ...]
    parent: str
    line: int


class BlockConf(NamedTuple):
    """One block of closely linked nodes, or one ring. The order of a ring's nodes matters."""

    name: str
    node_names: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class TopologyConf:
    """A whole topology.conf; `kind` is tree, block, ring or flat (nothing in the file), or torus3d.

    `line` is the first that names a switch, block or ring; 0 if none does.

    `block_sizes` are node counts in ascending order; each is the first one times a power of two.
    """

    path: str
    kind: str
    switches: tuple[SwitchConf, ...]
    blocks: tuple[BlockConf, ...]
    block_sizes: tuple[int, ...]
    text_hash: str
    name: str = ONLY_NAME
    is_default: bool = True
    warnings: tuple[str, ...] = ()
    line: int = 0
    toruses: tuple[TorusConf, ...] = ()


def load_topology_conf(path: str, node_names: tuple[str, ...] | None = None) -> TopologyConf:
    """Read and check a topology.conf; nodes must be among `node_names` if those are given.

    Raises:
        ConfErrors: loops, unknown switches, blocks that share nodes, switches in two places.
    """
    return _build(read_conf(path), node_names)


def parse_topology_conf(
    text: str,
    node_names: tuple[str, ...] | None = None,
    path: str = "topology.conf",
    *,
    may_be_empty: bool = False,
) -> TopologyConf:
    """Read a topology.conf given as a string.

    Args:
        may_be_empty: switches and blocks may have no nodes yet, as in a topology.yaml.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(parse_text(text, path), node_names, may_be_empty=may_be_empty)


def _build(
    text: ConfText, node_names: tuple[str, ...] | None, *, may_be_empty: bool = False
) -> TopologyConf:
    kind = ""
    known = None if node_names is None else set(node_names)
    lines: dict[str, tuple[dict[str, Any], Entry]] = {}
    block_sizes: tuple[int, ...] = ()
    sizes_entry: Entry | None = None
    for entries in text.lines:
        settings = read_line(text, entries, _TABLE, "topology.conf")
        values = {attribute: value for attribute, (value, _) in settings.items()}
        if "block_sizes" in values:
            if sizes_entry is not None:
                text.fail(entries[0], f"BlockSizes was already given in line {sizes_entry.line}")
            block_sizes, sizes_entry = values["block_sizes"], settings["block_sizes"][1]
        name_attributes = [attribute for attribute in _KINDS if attribute in values]
        if not name_attributes:
            if set(values) - {"block_sizes"}:
                text.fail(entries[0], "expected SwitchName=, BlockName=, RingName= or BlockSizes=")
            continue
        entry = settings[name_attributes[0]][1]
        if len(name_attributes) > 1 or kind not in ("", _KINDS[name_attributes[0]]):
            odd_entry = settings[name_attributes[-1]][1]
            text.fail(odd_entry, "switches, blocks and rings cannot be mixed in one file")
            continue
        kind = _KINDS[name_attributes[0]]
        name = values[name_attributes[0]]
        if not name or "[" in name or "," in name:
            text.fail(entry, f"'{name}' is not one name; ranges are not allowed here")
        elif name in lines:
            text.fail(entry, f"{name} was already given in line {lines[name][1].line}")
        else:
            lines[name] = (values, entry)
    switches: tuple[SwitchConf, ...] = ()
    blocks: tuple[BlockConf, ...] = ()
    if kind == "tree":
        switches = _tree(text, lines, known, may_be_empty=may_be_empty)
    elif kind:
        blocks = _blocks(text, lines, known, may_be_empty=may_be_empty)
    if sizes_entry is not None:
        if kind != "block":
            text.fail(sizes_entry, "needs BlockName lines")
        else:
            block_sizes = _check_sizes(text, sizes_entry, block_sizes, blocks)
    elif kind == "block" and blocks:
        counts = [len(block.node_names) for block in blocks if block.node_names]
        block_sizes = (min(counts, default=1),)
    if text.errors:
        raise ConfErrors(sorted(text.errors, key=lambda error: error.line))
    return TopologyConf(
        text.path,
        kind or "flat",
        switches,
        blocks,
        block_sizes,
        text.text_hash,
        warnings=tuple(text.warnings),
        line=min((entry.line for _, entry in lines.values()), default=0),
    )


def _members(
    text: ConfText,
    entry: Entry,
    value: str,
    known: set[str] | None,
    owners: dict[str, Entry],
    is_yaml: bool,
) -> tuple[str, ...]:
    """Return the nodes of one line that no line before has.

    Slurm warns of switches that share nodes, and of nodes that slurm.conf does not have: files of
    sites have both. So both are errors in a topology.yaml only, and blocks and rings share no node.
    """
    try:
        names = expand(value)
    except HostlistError:
        return ()  # reported when the value was read
    if not names:
        text.fail(entry, "Nodes= names no node")
    missing = [] if known is None else [name for name in names if name not in known]
    if missing and is_yaml:
        text.fail(entry, f"no NodeName line of slurm.conf has {fold(missing)}")
    elif missing:
        # As in Slurm: sites often have nodes there that are not in the cluster yet, or any more.
        text.warn(entry, f"no NodeName line of slurm.conf has {fold(missing)}: left out")
    if len(set(names)) < len(names):
        text.fail(entry, "a node is named twice")
        return ()
    elsewhere: dict[Entry, list[str]] = {}
    for name in names:
        first = owners.setdefault(name, entry)
        if first is not entry:
            elsewhere.setdefault(first, []).append(name)
    for first, doubled in elsewhere.items():
        said = "node {} is" if len(doubled) == 1 else "nodes {} are"
        said = f"{said.format(fold(doubled))} already in {first.value} of line {first.line}"
        if is_yaml or entry.key.lower() != "switchname":
            text.fail(entry, said)
        else:
            text.warn(entry, f"{said}, which counts")
    return tuple(
        name for name in names if owners[name] is entry and (known is None or name in known)
    )


def _tree(
    text: ConfText,
    lines: dict[str, tuple[dict[str, Any], Entry]],
    known: set[str] | None,
    *,
    may_be_empty: bool,
) -> tuple[SwitchConf, ...]:
    owners: dict[str, Entry] = {}
    children: dict[str, tuple[str, ...]] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    for name, (values, entry) in lines.items():
        if may_be_empty and not {"nodes", "switches"} & set(values):
            nodes[name] = ()
            continue
        if ("nodes" in values) == ("switches" in values):
            text.fail(entry, f"switch {name} needs either Nodes= or Switches=")
            continue
        if "nodes" in values:
            nodes[name] = _members(text, entry, values["nodes"], known, owners, may_be_empty)
            continue
        children[name] = _children(text, name, values["switches"], entry, lines)
    if text.errors or _has_loop(text, children, lines):
        return ()
    parents = _keep_one_parent(text, children, lines)
    lines = {name: line for name, line in lines.items() if name in nodes or name in children}
    levels: dict[str, int] = {}
    for name in lines:
        _climb(name, children, nodes, levels)
    return tuple(
        SwitchConf(
            name,
            levels[name],
            values.get("link_speed", 1),
            nodes[name],
            children.get(name, ()),
            parents.get(name, ""),
            name_entry.line,
        )
        for name, (values, name_entry) in lines.items()
    )


def _children(
    text: ConfText,
    name: str,
    value: str,
    entry: Entry,
    lines: dict[str, tuple[dict[str, Any], Entry]],
) -> tuple[str, ...]:
    try:
        names = tuple(expand(value))
    except HostlistError:
        return ()
    if not names or len(set(names)) < len(names):
        text.fail(entry, f"switch {name} names {'a switch twice' if names else 'no switch'}")
    missing = [child for child in names if child not in lines]
    if missing:
        text.fail(entry, f"switch {name} names the unknown switch {fold(missing)}")
    return names


def _keep_one_parent(
    text: ConfText,
    children: dict[str, tuple[str, ...]],
    lines: dict[str, tuple[dict[str, Any], Entry]],
) -> dict[str, str]:
    """Leave each switch below one other, and return that; warnings say so.

    Programs that write the file from a fat tree of InfiniBand name a leaf below each of its spines.
    The spine that joins most switches counts. One that has nothing left goes out of `children`.
    """
    parents: dict[str, str] = {}
    for name in sorted(children, key=lambda name: -len(children[name])):
        below = children[name]
        kept = tuple(child for child in below if parents.setdefault(child, name) == name)
        if kept != below:
            twice = [child for child in below if child not in kept]
            others = fold(sorted({parents[child] for child in twice}))
            text.warn(lines[name][1], f"{fold(twice)}: also below {others}, which counts")
            children[name] = kept
    empty = [name for name, below in children.items() if not below]
    while empty:
        name = empty.pop()
        del children[name]
        text.warn(lines[name][1], f"switch {name} is left out: nothing is below it alone")
        above = parents.pop(name, "")
        if above in children:
            children[above] = tuple(child for child in children[above] if child != name)
            if not children[above]:
                empty.append(above)
    return parents


def _has_loop(
    text: ConfText,
    children: dict[str, tuple[str, ...]],
    lines: dict[str, tuple[dict[str, Any], Entry]],
) -> bool:
    """Return whether a switch is below itself, and add an error."""
    for start in children:
        todo = list(children[start])
        seen: set[str] = set()
        while todo:
            name = todo.pop()
            if name == start:
                text.fail(lines[start][1], f"switch {start} is below itself")
                return True
            if name not in seen:
                seen.add(name)
                todo.extend(children.get(name, ()))
    return False


def _climb(
    name: str,
    children: dict[str, tuple[str, ...]],
    nodes: dict[str, tuple[str, ...]],
    levels: dict[str, int],
) -> int:
    """Return the level of a switch, and add it and the switch's nodes; leaves are level 0."""
    if name in levels:
        return levels[name]
    below_names = children.get(name)
    if below_names is None:
        levels[name] = 0
        return 0
    level = 1 + max((_climb(child, children, nodes, levels) for child in below_names), default=-1)
    nodes[name] = tuple(node for child in below_names for node in nodes[child])
    levels[name] = level
    return level


def _blocks(
    text: ConfText,
    lines: dict[str, tuple[dict[str, Any], Entry]],
    known: set[str] | None,
    *,
    may_be_empty: bool,
) -> tuple[BlockConf, ...]:
    owners: dict[str, Entry] = {}
    blocks = []
    for name, (values, entry) in lines.items():
        if may_be_empty and "nodes" not in values:
            blocks.append(BlockConf(name, (), entry.line))
        elif not values.get("nodes"):
            text.fail(entry, f"{name} needs Nodes=")
        elif "switches" in values:
            text.fail(entry, "Switches= belongs to a SwitchName line")
        else:
            members = _members(text, entry, values["nodes"], known, owners, may_be_empty)
            blocks.append(BlockConf(name, members, entry.line))
            if entry.key.lower() == "ringname" and len(members) > MOST_OF_RING:
                text.fail(entry, f"a ring has at most {MOST_OF_RING} nodes, not {len(members)}")
    return tuple(blocks)


def _check_sizes(
    text: ConfText, entry: Entry, sizes: tuple[int, ...], blocks: tuple[BlockConf, ...]
) -> tuple[int, ...]:
    ordered = tuple(sorted(set(sizes)))
    if not ordered or ordered[0] < 1:
        text.fail(entry, "expected at least one size, each at least 1")
        return ordered
    base = ordered[0]
    for size in ordered:
        ratio, rest = divmod(size, base)
        if rest or ratio & (ratio - 1):
            text.fail(entry, f"{size} is not {base} times a power of two")
    small = [block.name for block in blocks if 0 < len(block.node_names) < base]
    if small:
        text.fail(entry, f"block {small[0]} has fewer than {plural(base, 'node')}")
    return ordered


def gaps(conf: TopologyConf, node_names: tuple[str, ...]) -> list[str]:
    """Return a line for each key without effect, and for nodes that the network does not connect.

    No job can get nodes together that are not connected.
    """
    lead = f"{conf.path}: "
    if conf.name != "default":
        lead += f"topology {conf.name}: "
    warnings = list(conf.warnings)
    if conf.kind == "tree":
        known = {name for switch in conf.switches for name in switch.node_names}
        names_outside = [name for name in node_names if name not in known]
        if names_outside:
            warnings.append(f"{lead}no switch has {fold(names_outside)}")
        roots = [switch.name for switch in conf.switches if not switch.parent]
        if len(roots) > 1:
            warnings.append(f"{lead}no switch joins {', '.join(roots)}")
    return warnings


def file_errors(path: str, node_names: tuple[str, ...] | None) -> list[ConfError]:
    """Return all that is wrong with a topology.conf."""
    try:
        load_topology_conf(path, node_names)
    except ConfErrors as problems:
        return problems.errors
    return []
