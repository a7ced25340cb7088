"""topology.yaml: several topologies side by side, from which partitions choose.

`yaml_text` reads the text; then each topology is checked as a topology.conf would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyslurm_ng.conf.lexer import ConfError, ConfErrors
from pyslurm_ng.conf.topology_conf import TopologyConf, parse_topology_conf
from pyslurm_ng.conf.torus_conf import read_toruses
from pyslurm_ng.conf.yaml_text import Origin, load_yaml

_KINDS = ("flat", "tree", "block", "ring", "torus3d")
_KEYS = ("topology", "cluster_default", *_KINDS)
_LISTS = {"tree": "switches", "block": "blocks", "ring": "rings"}  # what is below a kind
_NAME_OF = {"tree": "switch", "block": "block", "ring": "ring"}
# The same words in a topology.conf.
_WORDS = {
    "tree": {"switch": "SwitchName", "children": "Switches", "nodes": "Nodes"},
    "block": {"block": "BlockName", "nodes": "Nodes"},
    "ring": {"ring": "RingName", "nodes": "Nodes"},
}


def load_topology_yaml(
    path: str, node_names: tuple[str, ...] | None = None
) -> tuple[TopologyConf, ...]:
    """Read and check a topology.yaml; nodes must be among `node_names` if those are given.

    Raises:
        ConfErrors: the file cannot be read, or some topology is wrong.
    """
    content, lines = load_yaml(path)
    return topologies_of(content, path, node_names, lines)


def topologies_of(
    content: Any,
    path: str,
    node_names: tuple[str, ...] | None = None,
    lines: Mapping[int, int] | None = None,
) -> tuple[TopologyConf, ...]:
    """Check the content of a topology.yaml, read into lists and maps.

    Args:
        lines: where maps begin, by their `id`.

    Raises:
        ConfErrors: with the problems of every topology.
    """
    whole = Origin(path, "", lines or {})
    if not isinstance(content, list) or not content:
        raise whole.failure(content, "expected a list of topologies")
    topologies: list[TopologyConf] = []
    errors: list[ConfError] = []
    for number, unit in enumerate(content, 1):
        name = unit.get("topology") if isinstance(unit, dict) else None
        try:
            if not isinstance(name, str) or not name:
                raise whole.failure(unit, f"entry {number}: topology: expected its name")
            if any(other.name == name for other in topologies):
                raise whole.failure(unit, f"topology {name}: is there twice")
            where = whole._replace(lead=f"topology {name}: ")
            topologies.append(_topology(name, unit, where, node_names))
        except ConfErrors as problems:
            errors += problems.errors
    if errors:
        raise ConfErrors(errors)
    # As in Slurm the first one with cluster_default is the cluster's.
    first = next((topology.name for topology in topologies if topology.is_default), "")
    return tuple(replace(topology, is_default=topology.name == first) for topology in topologies)


def file_errors(path: str, node_names: tuple[str, ...] | None) -> list[ConfError]:
    """Return all that is wrong with a topology.yaml."""
    try:
        load_topology_yaml(path, node_names)
    except ConfErrors as problems:
        return problems.errors
    return []


def _topology(
    name: str, unit: dict[str, Any], where: Origin, node_names: tuple[str, ...] | None
) -> TopologyConf:
    for key in unit:
        if key not in _KEYS:
            raise where.unknown(unit, key, _KEYS)
    # The output of `scontrol show topoconf` has an empty map for each kind that is not used.
    kinds = [kind for kind in _KINDS if unit.get(kind)] or [key for key in _KINDS if key in unit]
    if not kinds or (len(kinds) > 1 and any(unit[kind] for kind in kinds)):
        raise where.failure(unit, f"expected one of {', '.join(_KINDS)}")
    kind, is_default = kinds[0], unit.get("cluster_default", False)
    if not isinstance(is_default, bool):
        raise where.failure(unit, "cluster_default: expected true or false")
    lines = _lines(kind, unit, where) if kind in _LISTS else []
    text = "".join(f"{line}\n" for line, _ in lines)
    try:
        conf = parse_topology_conf(text, node_names, where.path, may_be_empty=True)
    except ConfErrors as problems:
        raise ConfErrors(
            [where.error(lines[error.line - 1][1], error.text) for error in problems.errors]
        ) from None
    toruses = read_toruses(unit[kind], unit, where, node_names) if kind == "torus3d" else ()
    return replace(conf, kind=kind, name=name, is_default=is_default, toruses=toruses)


def _lines(kind: str, content: dict[str, Any], location: Origin) -> list[tuple[str, int]]:
    """Return the same as lines of a topology.conf, each with its line of the YAML file."""
    body = content[kind]
    plural, names = _LISTS[kind], _WORDS[kind]
    known = (plural, "block_sizes") if kind == "block" else (plural,)
    units = body.get(plural) if isinstance(body, dict) else None
    where = body if isinstance(body, dict) else content
    if not isinstance(units, list) or set(body) - set(known):
        raise location.failure(where, f"{kind}: expected {' and '.join(known)}")
    lines = []
    for unit in units:
        if not isinstance(unit, dict) or not unit:
            at = unit if isinstance(unit, dict) else where
            raise location.failure(at, f"{plural}: each entry has {', '.join(names)}")
        for key in unit:
            if key not in names:
                raise location.below(f"{plural}: ").unknown(unit, key, names)
        words = [
            f"{names[key]}={location.word(key, value, unit)}"
            for key, value in unit.items()
            if key == _NAME_OF[kind] or value not in (None, "")  # `nodes:` alone: none yet
        ]
        lines.append((" ".join(words), location.line(unit)))
    sizes = body.get("block_sizes")
    if sizes is not None:
        sizes = sizes if isinstance(sizes, list) else [sizes]
        if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
            raise location.failure(body, "block_sizes: expected node counts")
        lines.append(("BlockSizes=" + ",".join(map(str, sizes)), location.line(body)))
    return lines
