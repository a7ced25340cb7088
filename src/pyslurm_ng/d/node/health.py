"""HealthCheckProgram: run at start, then at its interval in the states of the node it is for.

The program itself drains the node by scontrol when something is wrong; what it returns decides
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.daemon.hooks import run_hook
from pyslurm_ng.daemon.log import DaemonLog

_ONLY_AT_START = frozenset(("START_ONLY", "REBOOT_ONLY"))


def is_due_in(words: tuple[str, ...], state: str) -> bool:
    """Return whether the program runs on a node in a state: IDLE, MIXED or ALLOC.

    CYCLE alone means any state. Whether a node is drained only the controller knows, so
    NONDRAINED_IDLE is IDLE.
    """
    states = {word.upper() for word in words} - {"CYCLE"}
    if states & _ONLY_AT_START:
        return False
    if not states or "ANY" in states:
        return True
    if state == "IDLE" and "NONDRAINED_IDLE" in states:
        return True
    return state in states


def first_pause_s(conf: SlurmConf, node_name: str) -> float:
    """Return when the first run after the one at start is due.

    With CYCLE the nodes follow one another over the interval, in the order of slurm.conf.
    """
    interval = float(conf.health_check_interval)
    if "CYCLE" not in {word.upper() for word in conf.health_check_node_state}:
        return interval
    names = [node.name for node in conf.nodes]
    index = names.index(node_name) if node_name in names else 0
    return interval * (index + 1) / max(1, len(names))


class HealthCheck:
    """Runs the program on the loop of a node daemon.

    Args:
        conf: returns the configuration in force, so that a new one is followed.
        state: returns how the node is used now: IDLE, MIXED or ALLOC.
    """

    def __init__(
        self,
        log: DaemonLog,
        node_name: str,
        conf: Callable[[], SlurmConf],
        state: Callable[[], str],
        variables: Mapping[str, str],
    ) -> None:
        self._log = log
        self._node_name = node_name
        self._conf = conf
        self._state = state
        self._variables = variables
        self._task: asyncio.Task[None] | None = None

    async def at_start(self) -> None:
        """Run once before the node registers, then go on at the interval."""
        await self._run()
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Stop running the program."""
        if self._task is not None:
            self._task.cancel()

    async def _go_on(self) -> None:
        pause_s = first_pause_s(self._conf(), self._node_name)
        while True:
            # Without a program or an interval, look now and then whether there is one.
            await asyncio.sleep(pause_s or 60.0)
            conf = self._conf()
            if pause_s and is_due_in(conf.health_check_node_state, self._state()):
                await self._run()
            pause_s = float(conf.health_check_interval)

    async def _run(self) -> None:
        conf = self._conf()
        if not conf.health_check_program:
            return
        result = await run_hook(
            (conf.health_check_program,), self._variables, conf.health_check_timeout
        )
        if result.status:
            self._log.error(f"health_check failed: {result.text}")
