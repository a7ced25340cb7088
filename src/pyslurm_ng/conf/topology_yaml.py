"""topology.yaml: several topologies side by side, of which partitions choose.

The text is read by PyYAML; each topology is then checked as a topology.conf of its own would be.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyslurm_ng.conf.lexer import ConfError, ConfErrors
from pyslurm_ng.conf.topology_conf import TopologyConf, parse_topology_conf

_KINDS = ("flat", "tree", "block")
_NOT_YET = ("ring", "torus3d")


def load_topology_yaml(
    path: str, node_names: tuple[str, ...] | None = None
) -> tuple[TopologyConf, ...]:
    """Read and check a topology.yaml; nodes must be among `node_names` if those are given.

    Raises:
        ConfErrors: the file cannot be read, or some topology is wrong.
    """
    yaml: Any = importlib.import_module("yaml")  # only who has such a file pays for it
    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise _failure(path, " ".join(str(problem).split())) from None
    return topologies_of(content, path, node_names)


def topologies_of(
    content: Any, path: str, node_names: tuple[str, ...] | None = None
) -> tuple[TopologyConf, ...]:
    """Check the content of a topology.yaml, read into lists and maps.

    Raises:
        ConfErrors: with the problems of every topology.
    """
    if not isinstance(content, list) or not content:
        raise _failure(path, "expected a list of topologies")
    found: list[TopologyConf] = []
    errors: list[ConfError] = []
    for number, item in enumerate(content, 1):
        name = item.get("topology") if isinstance(item, dict) else None
        try:
            if not isinstance(name, str) or not name:
                raise _failure(path, f"entry {number}: topology: expected its name")
            if any(other.name == name for other in found):
                raise _failure(path, f"topology {name}: is there twice")
            found.append(_topology(name, item, path, node_names))
        except ConfErrors as problems:
            errors += problems.errors
    defaults = [item.name for item in found if item.is_default]
    if len(defaults) > 1:
        text = f"cluster_default is set for {' and '.join(defaults)}; one is allowed"
        errors.append(ConfError(path, 0, "", text))
    if errors:
        raise ConfErrors(errors)
    return tuple(found)


def file_errors(path: str, node_names: tuple[str, ...] | None) -> list[ConfError]:
    """Return all that is wrong with a topology.yaml."""
    try:
        load_topology_yaml(path, node_names)
    except ConfErrors as problems:
        return problems.errors
    return []


def _failure(path: str, text: str) -> ConfErrors:
    return ConfErrors([ConfError(path, 0, "", text)])


def _topology(
    name: str, item: dict[str, Any], path: str, node_names: tuple[str, ...] | None
) -> TopologyConf:
    lead = f"topology {name}: "
    unknown = [key for key in item if key not in ("topology", "cluster_default", *_KINDS)]
    if unknown:
        later = " is not supported yet" if unknown[0] in _NOT_YET else " is not known here"
        raise _failure(path, f"{lead}{unknown[0]}{later}")
    # What `scontrol show topoconf` prints has an empty map for each kind that is not meant.
    kinds = [kind for kind in _KINDS if item.get(kind)] or [key for key in _KINDS if key in item]
    if not kinds or (len(kinds) > 1 and any(item[kind] for kind in kinds)):
        raise _failure(path, f"{lead}expected one of {', '.join(_KINDS)}")
    kind, is_default = kinds[0], item.get("cluster_default", False)
    if not isinstance(is_default, bool):
        raise _failure(path, f"{lead}cluster_default: expected true or false")
    lines = [] if kind == "flat" else list(_lines(kind, item[kind], path, lead))
    try:
        conf = parse_topology_conf("\n".join(lines) + "\n", node_names, path)
    except ConfErrors as problems:
        raise ConfErrors(
            [ConfError(path, 0, "", f"{lead}{error.text}") for error in problems.errors]
        ) from None
    return replace(conf, name=name, is_default=is_default)


def _lines(kind: str, body: Any, path: str, lead: str) -> Iterable[str]:
    """Return the lines of a topology.conf that say the same."""
    plural = "switches" if kind == "tree" else "blocks"
    names = (
        {"switch": "SwitchName", "children": "Switches", "nodes": "Nodes"}
        if kind == "tree"
        else {"block": "BlockName", "nodes": "Nodes"}
    )
    known = (plural,) if kind == "tree" else (plural, "block_sizes")
    units = body.get(plural) if isinstance(body, dict) else None
    if not isinstance(units, list) or not units or set(body) - set(known):
        raise _failure(path, f"{lead}{kind}: expected {' and '.join(known)}")
    for unit in units:
        if not isinstance(unit, dict) or not unit or set(unit) - set(names):
            raise _failure(path, f"{lead}{plural}: each entry has {', '.join(names)}")
        yield " ".join(
            f"{names[key]}={_word(value, path, f'{lead}{key}: ')}" for key, value in unit.items()
        )
    sizes = body.get("block_sizes")
    if sizes is not None:
        sizes = sizes if isinstance(sizes, list) else [sizes]
        if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
            raise _failure(path, f"{lead}block_sizes: expected node counts")
        yield "BlockSizes=" + ",".join(map(str, sizes))


def _word(value: Any, path: str, lead: str) -> str:
    """Return a name or host list, which may come as a number."""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not text or any(letter in text for letter in " \t\n\r#=\"'\\"):
        raise _failure(path, f"{lead}expected a name or a list of hosts")
    return text
