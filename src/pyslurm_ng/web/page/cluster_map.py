"""The map of a cluster: nodes by switch or block, and what is reserved."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.endpoints.cluster import rows_of_reply
from pyslurm_ng.web.page.texts import moment
from pyslurm_ng.wire.daemon_link import SlurmError

MOST_DRAWN = 2_048
"""More nodes are shown as counts of each unit, else a page would have megabytes."""
MOST_UNITS = 500
MOST_RESERVATIONS = 50
Row = dict[str, Any]


def cluster_map(call: Call, nodes: list[Row]) -> Row:
    """Return the units of the map with their nodes, and the reservations.

    Args:
        nodes: those of `views.nodes`; `is_reserved` is set in each.
    """
    reserved = _reservations(call)
    names = {name for row in reserved if row["is_active"] for name in row["names"]}
    for node in nodes:
        node["is_reserved"] = node["name"] in names
    return {
        "units": _units(call, nodes),
        "is_drawn": len(nodes) <= MOST_DRAWN,
        "reservations": reserved[:MOST_RESERVATIONS],
        "reservation_count": len(reserved),
    }


def _units(call: Call, nodes: list[Row]) -> list[Row]:
    """Return leaf switches, blocks, rings and tori with their nodes; nodes of none are last."""
    by_name = {node["name"]: node for node in nodes}
    units: list[Row] = []
    for line in _asked(call, "ShowTopology").get("lines", ()):
        words = dict(word.partition("=")[::2] for word in line.split())
        kind = next(iter(words)).removesuffix("Name")
        if words.get("Level", "0") == "0" and len(units) < MOST_UNITS:
            own = [by_name.pop(name) for name in _expand(words["Nodes"]) if name in by_name]
            units.append(_unit(f"{kind} {words[kind + 'Name']}", own))
    if by_name:
        units.append(_unit("Others" if units else "", list(by_name.values())))
    return units


def _unit(name: str, nodes: list[Row]) -> Row:
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node["group"]] = counts.get(node["group"], 0) + 1
    return {"name": name, "nodes": nodes, "counts": counts}


def _reservations(call: Call) -> list[Row]:
    """Return the reservations that this visitor may see, the next first."""
    reply = _asked(call, "ShowReservations")
    if not reply:
        return []
    now_us = reply["now_us"]
    rows = [
        {
            **row,
            "is_active": row["start_us"] <= now_us < row["end_us"],
            "begins": moment(row["start_us"]),
            "ends": moment(row["end_us"]),
            "names": _expand(row["nodes"]),
        }
        for row in rows_of_reply(reply)
        if row["end_us"] + SECOND_US > now_us
    ]
    return sorted(rows, key=lambda row: (row["start_us"], row["name"]))


def _asked(call: Call, kind: str) -> Row:
    """Return an answer of the controller; {} if it has none now, since nodes are shown without."""
    try:
        return call.controller.call(kind, {})
    except SlurmError:
        return {}


def _expand(text: str) -> list[str]:
    try:
        return expand(text) if text and text != "(null)" else []
    except HostlistError:
        return []
