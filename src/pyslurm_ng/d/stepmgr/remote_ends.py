"""Ends of steps for the step managers on other nodes."""

from __future__ import annotations

import asyncio

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.stepmgr.node_links import NodeLinks
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.stream_client import LinkError

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class RemoteEnds:
    """Brings each end to the node whose step manager gave the share, until the job is over.

    What has not arrived when the job ends here goes to the controller (`runs.end`).
    """

    def __init__(self, node: LocalNode, links: NodeLinks) -> None:
        self._node = node
        self._core = node.core
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._ends: dict[str, list[nm.StepEnded]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Give up; after a restart the files of the steps tell of their ends."""
        for task in self._tasks.values():
            task.cancel()

    def add(self, host: str, report: nm.StepEnded) -> None:
        """Bring an end to a node."""
        self._ends.setdefault(host, []).append(report)
        if host not in self._tasks:
            self._tasks[host] = self._loop.create_task(self._bring(host))

    async def _bring(self, host: str) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while self._ends.get(host):
                pause_s = await self._bring_some(host, pause_s)
        finally:
            self._ends.pop(host, None)
            del self._tasks[host]

    async def _bring_some(self, host: str, pause_s: float) -> float:
        """Send what fits into a message; return how long to wait when that fails the next time."""
        first = nm.first_reports(self._ends[host])
        self._ends[host] = self._ends[host][len(first) :]
        batch = [report for report in first if self._is_open(report)]
        if not batch:
            return pause_s
        job = self._core.jobs[batch[0].job_id]
        assert job.credential is not None
        try:
            address = job.credential.manager_address
            await self._links.request(host, address, nm.NodeReports(list(batch)))
        except LinkError as error:
            self._node.log.verbose(f"step manager on {host}: {error.text}")
            if error.code == Errno.ESLURM_INVALID_JOB_ID:
                return _FIRST_PAUSE_S  # the controller hears it when the job ends here
            self._ends[host] = batch + self._ends[host]
            await asyncio.sleep(pause_s)
            return min(_LONGEST_PAUSE_S, 2 * pause_s)
        self._mark_reported(batch)
        return _FIRST_PAUSE_S

    def _is_open(self, report: nm.StepEnded) -> bool:
        return self._core.attempt(report.job_id, report.attempt) is not None

    def _mark_reported(self, reports: list[nm.StepEnded]) -> None:
        spool = self._node.spool
        for report in reports:
            self._core.told(report)
            path = spool.step_path(report.job_id, report.step_id, report.attempt)
            try:
                spool.mark_reported(path)
            except OSError:
                continue
