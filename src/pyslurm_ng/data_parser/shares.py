"""Shares of associations, as sshare has them."""

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.data_parser.json_text import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_ROOT_SHARES = 1 / NO_VAL  # as Slurm says of the root, which has no shares


def shares(rows: "list[Row]", reply: "Row") -> "Row":
    """Return the associations with their shares and usage."""
    return {
        "shares": [_share(row, reply["tres"], reply["cluster_name"]) for row in rows],
        "total_shares": 0,
    }


def _share(row: "Row", tres: "list[str]", cluster: str) -> "Row":
    counted, is_root = row["counted"], not row["parent_id"]
    minutes = row["limits"].get("grp_tres_mins", {})
    run_min, used_s = counted["run_min"], counted["tres_s"]
    return {
        "id": row["assoc_id"],
        "cluster": cluster,
        "name": row["user"] or row["account"],
        "parent": row["account"] if row["user"] else row["parent"],
        "partition": row["partition"],
        "shares_normalized": _fraction(_ROOT_SHARES if is_root else row["norm_shares"]),
        "shares": number(row["shares"], is_set=not is_root and row["shares"] >= 0),
        "tres": {
            "run_seconds": [
                {"name": name, "value": number(60 * run_min.get(name, 0))} for name in tres
            ],
            "group_minutes": [
                {
                    "name": name,
                    "value": number(
                        minutes.get(name, 0),
                        is_set=name in minutes,
                        is_infinite=name not in minutes,
                    ),
                }
                for name in tres
            ],
            "usage": [{"name": name, "value": round(used_s.get(name, 0.0), 6)} for name in tres],
        },
        "effective_usage": _fraction(row["effective_usage"]),
        "usage_normalized": _fraction(row["norm_usage"], is_set=not is_root),
        "usage": int(counted["usage_s"]),
        "fairshare": {
            "factor": _fraction(max(0.0, row["factor"])),
            "level": _fraction(row["level"], is_set=row["level"] >= 0),
        },
        "type": ["USER" if row["user"] else "ASSOCIATION"],
    }


def _fraction(value: float, *, is_set: bool = True) -> "Row":
    """Return an optional number with a fraction."""
    is_infinite = value == float("inf")
    is_finite = is_set and not is_infinite
    return {
        "set": is_finite,
        "infinite": is_set and is_infinite,
        "number": float(value) if is_finite else 0.0,
    }
