"""Reservations."""

from pyslurm_ng.data_parser.json_text import number, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]


def core_ids(row: "Row") -> "list[list[str]]":
    """Return name and cores of each node that is reserved in part."""
    return [pair.split(" ") for pair in row.get("core_ids", "").split(";") if pair]


def reservation_object(row: "Row") -> "dict[str, Any]":
    """Return one reservation with Slurm's keys."""
    return {
        "accounts": row["accounts"],
        "allowed_partitions": row["allowed_partitions"],
        "burst_buffer": row["burst_buffer"],
        "comment": row["comment"],
        "core_count": row["core_count"],
        "core_specializations": [{"node": name, "core": cores} for name, cores in core_ids(row)],
        "end_time": seconds(row["end_us"]),
        "features": row["features"],
        "flags": [flag for flag in row["flags"].split(",") if flag],
        "groups": row["groups"],
        "licenses": row["licenses"],
        "max_start_delay": row["max_start_delay_s"],
        "name": row["name"],
        "node_count": row["node_count"],
        "node_list": row["nodes"],
        "partition": row["partition"],
        "qos": row["qos"],
        "purge_completed": {"time": number(row["purge_s"], is_set=row["purge_s"] > 0)},
        "start_time": seconds(row["start_us"]),
        "tres": row["tres"],
        "users": row["users"],
    }
