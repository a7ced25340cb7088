"""What a node keeps of steps and jobs that are over, and room in its spool.

Old files of steps are removed, ended attempts are forgotten, and a full spool drains the node.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from pyslurm_ng.d.core.attempt_ends import KEPT_MINUTES
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import SPOOL_FULL
from pyslurm_ng.d.spool.spool import SpoolFull
from pyslurm_ng.d.steps.step_runner import StepRunner

_PAUSE_S = 60.0
_KEPT_S = 300.0
_KNOWN_S = KEPT_MINUTES * 60.0


class SpoolRoom:
    """Looks at the spool once a minute.

    Args:
        drained: is called when the core has something to report.
    """

    def __init__(self, node: LocalNode, runner: StepRunner, drained: Callable[[], None]) -> None:
        self._node = node
        self._runner = runner
        self._drained = drained
        self._was_full = False

    def begin(self) -> None:
        """Look for the first time in a minute."""
        asyncio.get_running_loop().call_later(_PAUSE_S, self._look)

    def _look(self) -> None:
        self.begin()
        self._node.core.ended.pass_minute()
        self._remove_reported()
        self._check()

    def _check(self) -> None:
        """Ask for no further jobs while the spool is full: they would fail one after the other."""
        node = self._node
        try:
            node.spool.check_room()
        except (SpoolFull, OSError) as error:
            if not self._was_full:
                node.log.error(f"{error}: node {node.name} takes no more jobs")
            self._was_full = True
            node.core.drain(SPOOL_FULL)
            self._drained()
            return
        if self._was_full:
            self._was_full = False
            node.log.info(
                f"SlurmdSpoolDir {node.spool.directory} has room again: the node is used again "
                f"after scontrol update NodeName={node.name} State=RESUME"
            )

    def _remove_reported(self) -> None:
        """Empty files of steps that were reported some minutes ago; remove empty ones later."""
        spool, now_s = self._node.spool, time.time()
        for path, key in list(spool.step_files()):
            if self._runner.has(key):
                continue
            try:
                status = os.stat(path)
                age_s = now_s - status.st_mtime
                if not status.st_size and age_s > _KNOWN_S:
                    spool.remove_step(path)
                elif status.st_size and age_s > _KEPT_S and "reported" in step_record.read(path):
                    spool.empty_step(path)
            except (OSError, step_record.StepRecordError):
                continue
