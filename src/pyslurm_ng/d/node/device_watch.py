"""Device files that go while slurmd runs: a GPU that has fallen off the bus is given to no job.

A node whose file is missing at slurmd's start is refused (`setup`). Later slurmd registers anew
with the devices that are left, and the controller drains the node with Slurm's reason. Jobs go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyslurm_ng.d.host.gres import missing_files

if TYPE_CHECKING:
    from pyslurm_ng.daemon.log import DaemonLog
    from pyslurm_ng.model.node import NodeGres

_PAUSE_S = 10.0


class DeviceWatch:
    """Looks for the files of a node's devices from time to time.

    Args:
        devices: returns the devices of the configuration in force.
        register: tells the controller what there is now.
    """

    def __init__(
        self,
        log: DaemonLog,
        devices: Callable[[], Sequence[NodeGres]],
        register: Callable[[], None],
    ) -> None:
        self._log = log
        self._devices = devices
        self._register = register
        self._missing: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Look no longer."""
        if self._task is not None:
            self._task.cancel()

    def look(self) -> None:
        """Register if a file has gone, or has come back."""
        missing = set(missing_files(self._devices()))
        if missing == self._missing:
            return
        for path in sorted(missing - self._missing):
            self._log.error(f"can't stat gres.conf file {path}: the device has gone")
        for path in sorted(self._missing - missing):
            self._log.info(f"gres.conf file {path} is back")
        self._missing = missing
        self._register()

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            self.look()
