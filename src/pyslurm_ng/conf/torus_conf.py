"""The toruses of a topology.yaml: boxes of nodes, and the shapes that jobs may have in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyslurm_ng.base.hostlist import HostlistError, expand, fold
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.yaml_text import Origin

_MOST_CELLS = 1 << 16  # of a torus: a pass looks at each for each job that it places there
_MOST_PLACEMENTS = 64
_KEYS = ("name", "dims", "nodes", "regions", "placements")
_AXES = ("x", "y", "z")
_NO_ANCHOR = (0, 0, 0)
Xyz = tuple[int, int, int]


class RegionConf(NamedTuple):
    """A box of cells of a torus, with a node for each: x counts fastest, then y, then z."""

    anchor: Xyz
    dims: Xyz
    node_names: tuple[str, ...]


class PlacementConf(NamedTuple):
    """A shape that jobs may have, and the grid of points at which its lowest corner may be."""

    dims: Xyz
    anchor_seed: Xyz
    anchor_spacing: Xyz


class TorusConf(NamedTuple):
    """One torus."""

    name: str
    dims: Xyz
    regions: tuple[RegionConf, ...]
    placements: tuple[PlacementConf, ...]


def read_toruses(
    body: Any, content: dict[str, Any], where: Origin, node_names: Iterable[str] | None
) -> tuple[TorusConf, ...]:
    """Check what stands below `torus3d:`.

    Args:
        content: the whole topology, whose line an error has if `body` is no map.

    Raises:
        ConfErrors: with the first problem.
    """
    if not isinstance(body, dict) or set(body) != {"toruses"}:
        raise where.failure(body if isinstance(body, dict) else content, "torus3d: needs toruses")
    toruses: list[TorusConf] = []
    known = None if node_names is None else set(node_names)
    owners: dict[str, str] = {}
    for unit in _maps(body, "toruses", _KEYS, where):
        torus = _torus(unit, where)
        if any(other.name == torus.name for other in toruses):
            raise where.failure(unit, f"torus {torus.name} is there twice")
        names = [name for region in torus.regions for name in region.node_names]
        missing = [] if known is None else [name for name in names if name not in known]
        if missing:
            raise where.failure(unit, f"no NodeName line of slurm.conf has {fold(missing)}")
        for name in names:
            if name in owners:
                raise where.failure(unit, f"node {name} is already in torus {owners[name]}")
            owners[name] = torus.name
        toruses.append(torus)
    return tuple(toruses)


def _torus(unit: dict[str, Any], where: Origin) -> TorusConf:
    name = where.word("name", unit.get("name"), unit, "a name")
    where = where.below(f"torus {name}: ")
    dims = _xyz(unit, "dims", where, least=1)
    if dims[0] * dims[1] * dims[2] > _MOST_CELLS:
        raise where.failure(unit, f"dims: at most {plural(_MOST_CELLS, 'cell')} are allowed")
    if ("nodes" in unit) == ("regions" in unit):
        raise where.failure(unit, "expected either nodes or regions")
    if "nodes" in unit:
        regions = [RegionConf(_NO_ANCHOR, dims, _nodes(unit, dims, where))]
    else:
        regions = [
            _region(region, dims, where.below(f"region {number}: "))
            for number, region in enumerate(
                _maps(unit, "regions", ("anchor", "dims", "nodes"), where), 1
            )
        ]
        _check_apart(unit, regions, dims, where)
    placements = [
        _placement(placement, dims, where.below(f"placement {number}: "))
        for number, placement in enumerate(
            _maps(unit, "placements", ("dims", "anchor_seed", "anchor_spacing"), where), 1
        )
    ]
    if not placements:
        raise where.failure(unit, "placements: expected at least one, or no job could run")
    if len(placements) > _MOST_PLACEMENTS:
        raise where.failure(unit, f"placements: at most {_MOST_PLACEMENTS} are allowed")
    return TorusConf(name, dims, tuple(regions), tuple(placements))


def _region(unit: dict[str, Any], torus: Xyz, where: Origin) -> RegionConf:
    dims = _xyz(unit, "dims", where, least=1, most=torus)
    anchor = _xyz(unit, "anchor", where, least=0, most=_last(torus))
    return RegionConf(anchor, dims, _nodes(unit, dims, where))


def _placement(unit: dict[str, Any], torus: Xyz, where: Origin) -> PlacementConf:
    """Read a shape; without a grid of its own it is laid side by side from the first cell on."""
    dims = _xyz(unit, "dims", where, least=1, most=torus)
    seed, spacing = _NO_ANCHOR, dims
    if "anchor_seed" in unit:
        seed = _xyz(unit, "anchor_seed", where, least=0, most=_last(torus))
    if "anchor_spacing" in unit:
        spacing = _xyz(unit, "anchor_spacing", where, least=1, most=torus)
    return PlacementConf(dims, seed, spacing)


def _last(torus: Xyz) -> Xyz:
    return torus[0] - 1, torus[1] - 1, torus[2] - 1


def _xyz(
    unit: Mapping[str, Any], key: str, where: Origin, least: int, most: Xyz | None = None
) -> Xyz:
    """Return three numbers of a map with x, y and z."""
    value = unit.get(key)
    if not isinstance(value, dict) or set(value) != set(_AXES):
        raise where.failure(unit, f"{key}: expected x, y and z")
    upper = most if most is not None else (_MOST_CELLS,) * 3
    for axis, limit in zip(_AXES, upper, strict=True):
        number = value[axis]
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= limit:
            raise where.failure(value, f"{key}: {axis}: expected a number from {least} to {limit}")
    return value["x"], value["y"], value["z"]


def _nodes(unit: dict[str, Any], dims: Xyz, where: Origin) -> tuple[str, ...]:
    """Return a node for each cell of a box."""
    try:
        names = expand(where.word("nodes", unit.get("nodes"), unit))
    except HostlistError as problem:
        raise where.failure(unit, f"nodes: {problem}") from None
    cells = dims[0] * dims[1] * dims[2]
    if len(names) != cells:
        raise where.failure(
            unit, f"nodes: {plural(cells, 'cell')} need as many nodes, not {len(names)}"
        )
    if len(set(names)) < len(names):
        raise where.failure(unit, "nodes: a node is named twice")
    return tuple(names)


def _check_apart(
    unit: dict[str, Any], regions: Iterable[RegionConf], torus: Xyz, where: Origin
) -> None:
    """Raise if a node, or a cell, is in two regions."""
    names: set[str] = set()
    cells: set[Xyz] = set()
    for region in regions:
        twice = names.intersection(region.node_names)
        if twice:
            raise where.failure(unit, f"node {min(twice)} is in two regions")
        names.update(region.node_names)
        own = _cells(region, torus)
        both = cells & own
        if both:
            x, y, z = min(both)
            raise where.failure(unit, f"cell x={x} y={y} z={z} is in two regions")
        cells |= own


def _cells(region: RegionConf, torus: Xyz) -> set[Xyz]:
    axes = [
        [(first + step) % length for step in range(count)]
        for first, count, length in zip(region.anchor, region.dims, torus, strict=True)
    ]
    return {(x, y, z) for x in axes[0] for y in axes[1] for z in axes[2]}


def _maps(
    unit: dict[str, Any], key: str, keys: tuple[str, ...], where: Origin
) -> list[dict[str, Any]]:
    """Return a list of maps that have no other keys than some."""
    entries = unit.get(key)
    if not isinstance(entries, list):
        raise where.failure(unit, f"{key}: expected a list")
    for entry in entries:
        if not isinstance(entry, dict):
            raise where.failure(unit, f"{key}: each entry has {', '.join(keys)}")
        for word in entry:
            if word not in keys:
                raise where.below(f"{key}: ").unknown(entry, word, keys)
    return entries
