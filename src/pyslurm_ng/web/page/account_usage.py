"""What accounts and users have used of late, by accounting."""

from __future__ import annotations

import time
from typing import Any

from pyslurm_ng.data_parser.records import rows_of
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.refusal import Refusal
from pyslurm_ng.wire.daemon_link import SlurmError

DAYS = 30
USAGE_S = 30.0
MOST_ROWS = 200
_HOUR_S, _DAY_S = 3600, 86400
Row = dict[str, Any]


def account_usage(call: Call) -> Row:
    """Return the CPU and GPU hours of the last days by account, its users behind each.

    Without accounting, or if slurmdbd refuses or is away, `usage` is empty and `why_not` says why.
    """
    end_s = int(time.time()) // _HOUR_S * _HOUR_S
    fields = {"what": "association", "start_s": end_s - DAYS * _DAY_S, "end_s": end_s,
              "clusters": [call.daemons.cluster]}  # fmt: skip
    try:
        reply = call.database.call("ListUsage", fields, USAGE_S)
    except SlurmError as error:
        return {"usage": [], "why_not": error.text, "days": DAYS}
    except Refusal as refusal:
        return {"usage": [], "why_not": refusal.description, "days": DAYS}
    return {"usage": _rows(reply), "why_not": "", "days": DAYS}


def _rows(reply: Row) -> list[Row]:
    places = {name: at for at, name in enumerate(reply["tres"])}
    rows = []
    for row in rows_of(reply):
        cpu, gpu = (_hours(row["amounts"], places, name) for name in ("cpu", "gres/gpu"))
        if cpu or gpu:
            rows.append({"account": row["account"], "user": row["user"], "cpu": cpu, "gpu": gpu})
    most = max((row["cpu"] for row in rows), default=0)
    for row in rows:
        row["part"] = 100 * row["cpu"] / most if most else 0
    return rows[:MOST_ROWS]


def _hours(amounts: Any, places: dict[str, int], name: str) -> float:
    at = places.get(name)
    return amounts[at] / _HOUR_S if at is not None and at < len(amounts) else 0.0
