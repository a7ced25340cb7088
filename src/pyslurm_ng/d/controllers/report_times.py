"""When a node's reports go to the controller, and what becomes of a step's file after that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyslurm_ng.d.controllers.connections import Controllers
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire import node_messages as nm

_START_DELAY_S = 0.02


class ReportTimes:
    """Sends what the core has to report, several reports in a message where that costs no time."""

    def __init__(self, node: LocalNode, controllers: Controllers) -> None:
        self._node = node
        self._controllers = controllers
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self.on_managed: Callable[[nm.ManagedSteps], None] = lambda report: None

    def send_soon(self) -> None:
        """Send reports at the end of this turn; mere starts wait for what may follow them."""
        core = self._node.core
        if self._is_due or not core.reports:
            return
        self._is_due = True
        only_starts = all(isinstance(report, nm.DutyDone) for report in core.reports)
        if only_starts and not core.has_preparing():
            self._loop.call_later(_START_DELAY_S, self._send)
        else:
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        self._controllers.send_reports(self._acknowledged)

    def _acknowledged(self, reports: list[nm.Report]) -> None:
        """The controller has these for good: nothing else is to be read from their files."""
        spool = self._node.spool
        for report in reports:
            if isinstance(report, nm.ManagedSteps):
                self.on_managed(report)
            if isinstance(report, (nm.BatchEnded, nm.StepEnded)):
                step_id = STEP_BATCH if isinstance(report, nm.BatchEnded) else report.step_id
                path = spool.step_path(report.job_id, step_id, report.attempt)
                try:
                    spool.mark_reported(path)
                except OSError:
                    continue
