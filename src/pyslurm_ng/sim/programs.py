"""Programs of a simulated controller: they take as long, and end as well, as they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyslurm_ng.ctld.programs.job_programs import Done
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.sim.world import World

Fate = Callable[[], "tuple[int, int]"]


def at_once() -> tuple[int, int]:
    """Succeed in no time."""
    return 0, 0


class SimPrograms:
    """Runs nothing; satisfies `ctld.programs.job_programs.Runner`.

    `fate()` is asked once for each run: microseconds until its end, and its wait status then.
    """

    def __init__(self, world: World, fate: Fate = at_once) -> None:
        self._world = world
        self._fate = fate
        self._is_stopped = False

    def run(
        self, patterns: Sequence[str], environment: Mapping[str, str], limit_s: int, done: Done, /
    ) -> Callable[[], object]:
        """End some time later, unless ended early or the controller is gone."""
        took_us, status = self._fate()
        ended_early: list[bool] = []

        def end() -> None:
            if not ended_early and not self._is_stopped:
                done(HookResult(status, "exit code" if status else ""))

        if took_us:
            self._world.after(took_us, end)
        else:
            self._world.call_soon(end)
        return lambda: ended_early.append(True)

    def stop(self) -> None:
        """Forget all that runs: its controller has crashed."""
        self._is_stopped = True


class Silence:
    """A log that is not read."""

    def info(self, text: str) -> None:
        """Say nothing."""

    def error(self, text: str) -> None:
        """Say nothing."""
