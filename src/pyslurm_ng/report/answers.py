"""What a report needs of slurmdbd: the same requests as sreport, sacct and sacctmgr make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyslurm_ng.base.error_numbers import is_unreachable
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.kernels.records import project
from pyslurm_ng.report.sums import HOUR_S, Day, Report
from pyslurm_ng.wire.client import Client, SlurmError

TIMEOUT_S = 600
COLUMNS = (
    "user", "account", "state", "submit_us", "eligible_us", "start_us", "end_us", "cpus_allocated",
    "suspended_us", "total_user_cpu_us", "total_system_cpu_us",
)  # fmt: skip


class NotAnsweredError(Exception):
    """slurmdbd refuses or cannot be reached."""


class Answers:
    """Asks for what one report shows, and adds it up."""

    def __init__(self, client: Client, report: Report) -> None:
        self._client = client
        self._report = report

    def read(self) -> None:
        """Fill the report.

        Raises:
            NotAnsweredError: slurmdbd refuses or cannot be reached.
        """
        try:
            self._days()
            self._users()
            self._shares()
            self._jobs()
        except SlurmError as error:
            text = error.detail or error.text if is_unreachable(error.code) else error.text
            raise NotAnsweredError(f"slurmdbd: {text}") from error

    def _usage(self, what: str, start_s: int, end_s: int) -> dict[str, Any]:
        fields = {
            "what": what, "start_s": start_s, "end_s": end_s, "clusters": [self._report.cluster],
        }  # fmt: skip
        answer = self._client.call("ListUsage", fields, TIMEOUT_S)
        if not answer["clusters"]:
            raise NotAnsweredError(f"cluster {self._report.cluster} is not known to slurmdbd")
        return answer

    def _days(self) -> None:
        for span in self._report.span.pieces():
            answer = self._usage("cluster", span.start_s, span.end_s)
            rows = dict(zip(answer["tres"], answer["clusters"][0][1], strict=False))
            _, allocated, down, planned_down, idle, planned, _ = rows.get("cpu", [0] * 7)
            whole = allocated + down + planned_down + idle + planned
            gpu_s = rows.get("gres/gpu", [0, 0])[1]
            self._report.days.append(
                Day(
                    span,
                    allocated / whole if whole else 0.0,
                    (down + planned_down) / whole if whole else 0.0,
                    gpu_s / HOUR_S,
                )
            )

    def _users(self) -> None:
        """Add up by user and account; rows without a user are the sums of accounts."""
        span = self._report.span
        answer = self._usage("association", span.start_s, span.end_s)
        places = {name: at for at, name in enumerate(answer["tres"])}
        for row in _rows(answer["fields"], answer["records"]):
            amounts = row["amounts"]
            if not row["user"]:
                used = self._report.account(row["account"])
                used.cpu_s, used.gpu_s = (
                    _amount(amounts, places, "cpu"),
                    _amount(amounts, places, "gres/gpu"),
                )
                continue
            used = self._report.user(row["user"])
            used.cpu_s += _amount(amounts, places, "cpu")
            used.gpu_s += _amount(amounts, places, "gres/gpu")

    def _shares(self) -> None:
        """Note the part of the cluster that is due to each account, by its shares."""
        request = {"entity": "association", "where": [], "flags": []}
        answer = self._client.call("ListEntities", request, TIMEOUT_S)
        siblings: dict[str, list[tuple[str, int]]] = {}
        for row in _rows(answer["fields"], answer["records"]):
            if str(row["Cluster"]).lower() == self._report.cluster and isinstance(
                row["Share"], int
            ):
                parent = str(row["ParentName"] or "") if not row["User"] else str(row["Account"])
                name = "" if row["User"] else str(row["Account"])
                siblings.setdefault(parent, []).append((name, row["Share"]))
        waiting = [("", 1.0)]
        while waiting:
            parent, part = waiting.pop()
            total = sum(shares for _, shares in siblings.get(parent, ()))
            for name, shares in siblings.get(parent, ()):
                if name and name not in self._report.shares:
                    self._report.shares[name] = part * shares / total if total else 0.0
                    waiting.append((name, self._report.shares[name]))

    def _jobs(self) -> None:
        """Count jobs that ended in the time: how long they waited, and what they used."""
        span = self._report.span
        request = {
            "clusters": [self._report.cluster],
            "columns": list(COLUMNS),
            "step_columns": [],
            "with_steps": False,
            "start_us": span.start_s * SECOND_US,
            "end_us": span.end_s * SECOND_US - 1,
        }
        for part in self._client.stream("ListJobRecords", request, TIMEOUT_S):
            for row in _rows(part["fields"], part["records"]):
                self._job(row)

    def _job(self, row: dict[str, Any]) -> None:
        report, end_us = self._report, row["end_us"]
        if not end_us or end_us > report.span.end_s * SECOND_US:
            return
        report.job_count += 1
        report.states[row["state"]] = report.states.get(row["state"], 0) + 1
        start_us = row["start_us"]
        if not start_us:
            return
        came_us = row["eligible_us"] or row["submit_us"]
        report.waits_s.append(max(0, start_us - came_us) // SECOND_US)
        ran_us = max(0, end_us - start_us - row["suspended_us"])
        core_s = row["cpus_allocated"] * ran_us // SECOND_US
        busy_s = (row["total_user_cpu_us"] + row["total_system_cpu_us"]) // SECOND_US
        for used in (report.user(row["user"]), report.account(row["account"])):
            used.jobs += 1
            used.core_s += core_s
            used.busy_s += busy_s


def _rows(names: list[str], records: bytes) -> Iterator[dict[str, Any]]:
    for values in project(records, range(len(names))):
        yield dict(zip(names, values, strict=True))


def _amount(amounts: list[int], places: dict[str, int], name: str) -> int:
    return int(amounts[places[name]]) if name in places else 0
