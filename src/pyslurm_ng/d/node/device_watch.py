"""Devices that go while slurmd runs: a GPU that has fallen off the bus is given to no job.

Its file goes, or stays while the driver says that the GPU is lost or has to be reset. A node whose
file is missing at slurmd's start is refused (`setup`). Later slurmd registers anew with the devices
that are left, and the controller drains the node with Slurm's reason. Jobs go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pyslurm_ng.d.host.gres import files_of_gpus, missing_files

if TYPE_CHECKING:
    from pyslurm_ng.d.node.local_node import LocalNode

_PAUSE_S = 10.0


class DeviceWatch:
    """Looks for a node's devices from time to time.

    Args:
        lost_gpus: returns the numbers of GPUs that the driver has lost; None if it tells nothing.
        register: tells the controller what there is now.
    """

    def __init__(
        self,
        node: LocalNode,
        lost_gpus: Callable[[], Collection[int] | None],
        register: Callable[[], None],
    ) -> None:
        self._node = node
        self._lost_gpus = lost_gpus
        self._register = register
        self._gone: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Look no longer."""
        if self._task is not None:
            self._task.cancel()

    def look(self) -> None:
        """Register if a device has gone, or has come back."""
        node, devices = self._node, self._node.configured.devices
        lost_gpus = self._lost_gpus()
        if lost_gpus is not None:  # a driver that hangs has found none again
            node.lost_gpus = frozenset(lost_gpus)
        missing = missing_files(devices)
        gone = missing | files_of_gpus(devices, node.lost_gpus)
        if gone == self._gone:
            return
        for path in sorted(gone - self._gone):
            if path in missing:
                node.log.error(f"can't stat gres.conf file {path}: the device has gone")
            else:
                node.log.error(f"gres.conf file {path}: NVML says that the GPU is lost")
        for path in sorted(self._gone - gone):
            node.log.info(f"gres.conf file {path} is back")
        self._gone = gone
        self._register()

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            self.look()
