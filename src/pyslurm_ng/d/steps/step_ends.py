"""What supervisors report about their steps, and how a step without a supervisor ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyslurm_ng.base.numbers import END_LOST
from pyslurm_ng.d.core.actions import Action
from pyslurm_ng.d.core.node_core import StepEnd
from pyslurm_ng.d.core.steps import step_ended, step_started, step_unkillable
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps.orphaned_steps import OrphanedStep
from pyslurm_ng.d.steps.step_runner import StepKey, step_name
from pyslurm_ng.d.steps.usage import usage_of

_LOST_STATUS = 9
_MOST_ERROR = 4096
_MOST_REASON = 256


class StepEnds:
    """Takes what a `StepRunner` calls back with.

    Args:
        act: carries out what the core wants then.
    """

    def __init__(self, node: LocalNode, act: Callable[[list[Action]], None]) -> None:
        self._node = node
        self._act = act

    def started(self, key: StepKey, pids: Mapping[int, int]) -> None:
        """Take it that a step's tasks run."""
        job_id, step_id, attempt = key
        step_started(self._node.core, job_id, attempt, step_id)
        self._act([])

    def reported(self, key: StepKey, words: Mapping[str, Any]) -> None:
        """Take what a supervisor says without being asked."""
        job_id, step_id, attempt = key
        if words["did"] == "unkillable":
            self._act(step_unkillable(self._node.core, job_id, attempt, step_id))
            return
        text = f"{step_name(key)}: {words['text']}"
        if words["did"] == "slow":
            self._node.log.error(text)
            return
        if words["did"] == "plugin":
            self._node.log.info(text)
            return
        self._node.faults.note("supervisor", text)
        for line in words["trace"].splitlines():
            self._node.log.error(f"  {line}")

    def ended(self, key: StepKey, records: Mapping[str, Any]) -> None:
        """Take it that a supervisor is gone; `records` are those of the step's file."""
        job_id, step_id, attempt = key
        end = records.get("end")
        if end is None:
            self._begin_lost(key, records)
            return
        try:
            known = self.end_of(end)
        except Exception as error:  # noqa: BLE001 - its job ends all the same
            text = f"the end of {step_name(key)} cannot be read"
            self._node.faults.note("end", text, error)
            self._begin_lost(key, records)
            return
        self._act(step_ended(self._node.core, job_id, attempt, step_id, known))

    def end_of(self, end: Mapping[str, Any]) -> StepEnd:
        """Return what the record of an end says; what went wrong is logged."""
        if end["error"]:
            self._node.log.error(end["error"])
        return StepEnd(
            status=end["status"],
            flags=end["flags"] & 0xFFFF,
            start_us=end["start_us"],
            end_us=end["end_us"],
            usage=usage_of(end, self._node.name),
            error=end["error"][:_MOST_ERROR],
            drain=str(end.get("drain", ""))[:_MOST_REASON],
        )

    def _begin_lost(self, key: StepKey, records: Mapping[str, Any]) -> None:
        asyncio.get_running_loop().create_task(self._end_lost(key, records))

    async def _end_lost(self, key: StepKey, records: Mapping[str, Any]) -> None:
        """End what a supervisor that died has left; the step is over when nothing is left."""
        node = self._node
        job_id, step_id, attempt = key
        node.log.error(f"{step_name(key)}: its supervisor was lost")
        path = node.spool.step_path(job_id, step_id, attempt)
        for line in node.spool.take_trace(path):
            node.log.error(f"  {line}")
        limit_s = float(node.conf.unkillable_step_timeout)
        orphaned = OrphanedStep(job_id, step_id, path, _with_spec(path, records))
        try:
            await orphaned.end(
                limit_s, lambda: self._act(step_unkillable(node.core, job_id, attempt, step_id))
            )
        except Exception as error:  # noqa: BLE001 - the job's end is reported all the same
            node.faults.note("leftovers", f"{step_name(key)} may have left processes", error)
        end = {"status": _LOST_STATUS, "flags": END_LOST, "error": "slurmstepd was lost",
               "start_us": 0, "end_us": time.time_ns() // 1000, "usage": orphaned.usage(),
               "ntasks": orphaned.ntasks}  # fmt: skip
        self._act(step_ended(node.core, job_id, attempt, step_id, self.end_of(end)))


def _with_spec(path: str, records: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all records of a step's file: beside an end there is no spec, and ends may be odd."""
    if "spec" in records:
        return records
    try:
        return step_record.read(path)
    except (OSError, step_record.StepRecordError):
        return records
