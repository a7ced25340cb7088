"""What a plugin sees besides the request, without a slurmctld."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.policy.description import Description, Said
from pyslurm_ng.policy.job_lists import Listing
from pyslurm_ng.policy.messages import Row


class Surroundings:
    """Two partitions, one of them hidden from the user, and one job."""

    def __init__(self) -> None:
        self.partitions: dict[str, Row] = {
            "main": {"name": "main", "max_time": 60},
            "secret": {"name": "secret", "max_time": 10},
        }
        self.hidden = frozenset(("secret",))
        self.uid = 1000
        self.jobs = Listing("jobs", "job_id", self._ask)
        self.reservations = Listing("reservations", "name", lambda kind, name, first: ([], 0))
        qos_rows: list[Row] = [{"name": "high", "priority": 5}]
        self.qos = Listing(
            "qos", "name", lambda kind, name, first: (qos_rows if name in ("", "high") else [], 0)
        )

    def _ask(self, kind: str, name: str, first: int) -> tuple[list[Row], int]:
        assert kind == "jobs"
        rows: list[Row] = [{"job_id": 7, "name": "other"}, {"job_id": 8, "name": "next"}]
        if name:
            return [row for row in rows if str(row["job_id"]) == name], 0
        return rows[first : first + 1], first + 1 if first + 1 < len(rows) else 0


def description(said: Said, environment: bytes = b"", **request: Any) -> Description:
    """Return a request as one call sees it."""
    known = {"user_id": 1000, "user_name": "alice"}
    return Description(request, said, known=known, environment=environment, script=b"#!/bin/sh\n")
