"""sinfo as JSON: one object for each group of nodes that agree in all of its fields."""

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.cli.command import user_name, write_bytes
from pyslurm_ng.cli.documents import tail
from pyslurm_ng.cli.listing.node_columns import Context, Group, cpu_counts, node_counts
from pyslurm_ng.data_parser.json_text import document, encode, number
from pyslurm_ng.data_parser.nodes import partition_object, state_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = dict[str, Any]

# Nodes that differ in one of these are different objects.
_APART = ("state", "flags", "features", "active_features", "gres", "gres_used", "comment",
          "extra", "reason", "reason_us", "reason_uid", "reservation", "cpu_spec_list",
          "mem_spec_limit_mib", "cpus", "sockets", "cores", "threads", "memory_mib",
          "tmp_disk_mib", "weight")  # fmt: skip


def print_groups(
    argv: "list[str]",
    cluster: str,
    partitions: "list[Row]",
    nodes: "dict[int, Row]",
    passes: "Callable[[Row], bool]",
    context: Context,
) -> int:
    """Print the groups of partitions' nodes that pass; `nodes` are all of them by id."""
    records = []
    for partition in partitions:
        groups: dict[Any, Group] = {}
        for node_id in partition["node_ids"]:
            node = nodes.get(node_id)
            if node is None or not passes(node):
                continue
            key = tuple(node[name] for name in _APART)
            group = groups.setdefault(key, Group(partition, context))
            group.add(node)
        ordered = sorted(groups.values(), key=lambda group: group.nodes[0]["state"], reverse=True)
        records += [encode(_object(group), 2) for group in ordered]
    write_bytes(document("sinfo", records, tail(["sinfo", *argv], cluster)))
    return 0


def _span(group: Group, name: str) -> "dict[str, int]":
    numbers = [node[name] for node in group.nodes]
    return {"minimum": min(numbers), "maximum": max(numbers)}


def _object(group: Group) -> "dict[str, Any]":
    first = group.nodes[0]
    allocated, idle, other, total = node_counts(group)
    cpus_allocated, cpus_idle, cpus_other, cpus_total = cpu_counts(group)
    free = [node["free_mem_mib"] for node in group.nodes]
    loads = [max(0, node["cpu_load_hundredths"]) for node in group.nodes]
    per_node = group.partition["max_cpus_per_node"]
    has_cap = per_node < NO_VAL
    return {
        "port": first["port"],
        "node": {"state": state_words(first)},
        "nodes": {
            "allocated": allocated,
            "idle": idle,
            "other": other,
            "total": total,
            "hostnames": [],
            "addresses": [],
            "nodes": [node["name"] for node in group.nodes],
        },
        "cpus": {
            "allocated": cpus_allocated,
            "idle": cpus_idle,
            "other": cpus_other,
            "total": cpus_total,
            **_span(group, "cpus"),
            "load": {"minimum": min(loads), "maximum": max(loads)},
            "per_node": {"max": number(per_node, is_set=has_cap, is_infinite=not has_cap)},
        },
        "sockets": _span(group, "sockets"),
        "cores": _span(group, "cores"),
        "threads": _span(group, "threads"),
        "disk": _span(group, "tmp_disk_mib"),
        "memory": {
            **_span(group, "memory_mib"),
            "free": {
                "minimum": number(min(free), is_set=min(free) >= 0),
                "maximum": number(max(free), is_set=max(free) >= 0),
            },
            "allocated": sum(node["memory_alloc_mib"] for node in group.nodes),
        },
        "weight": _span(group, "weight"),
        "features": {"total": first["features"], "active": first["active_features"]},
        "gres": {"total": first["gres"], "used": first["gres_used"]},
        "cluster": "",
        "comment": first["comment"],
        "extra": first["extra"],
        "reason": {"description": first["reason"], "time": first["reason_us"] // SECOND_US},
        "reservation": first["reservation"],
        "reason_set_by_user": user_name(first["reason_uid"]) if first["reason_us"] else "",
        "resource_spec": {"cpus": first["cpu_spec_list"], "memory": first["mem_spec_limit_mib"]},
        "partition": partition_object(group.partition),
    }
