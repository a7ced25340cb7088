"""slurmd's watch over ends that were ordered: none depends on the supervisor alone.

A supervisor that was told to end its step has KillWait and UnkillableStepTimeout for it. Then the
node is in trouble, even if it answers. A supervisor that no longer answers is killed; its template
and slurmd end what it leaves (see `orphaned_steps`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pyslurm_ng.d.steps.step_runner import StepKey, StepRunner

_LONGEST_PAUSE_S = 5.0
_ANSWER_LIMIT_S = 2.0


@dataclass(slots=True)
class _Due:
    at_s: float
    heard_s: float
    is_told: bool = False
    killed_s: float = 0.0


class EndWatch:
    """The steps of a node that are to end.

    Args:
        limit_s: returns UnkillableStepTimeout.
        on_stuck: called once with a step that outlives it.
        on_silent: called with a step when its supervisor is killed for not answering.
    """

    def __init__(
        self,
        runner: StepRunner,
        limit_s: Callable[[], float],
        on_stuck: Callable[[StepKey], None],
        on_silent: Callable[[StepKey], None],
    ) -> None:
        self._runner = runner
        self._limit_s = limit_s
        self._on_stuck = on_stuck
        self._on_silent = on_silent
        self._loop = asyncio.get_running_loop()
        self._due: dict[StepKey, _Due] = {}
        self._task: asyncio.Task[None] | None = None

    def expect(self, key: StepKey, wait_s: float) -> None:
        """Watch a step that was told to end; its processes get SIGKILL after `wait_s` seconds."""
        at_s = self._loop.time() + wait_s
        due = self._due.get(key)
        if due is None:
            self._due[key] = _Due(at_s, at_s)
        elif at_s < due.at_s:
            due.at_s = due.heard_s = at_s
        if self._task is None:
            self._task = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        while self._due:
            await asyncio.sleep(max(0.2, min(_LONGEST_PAUSE_S, self._limit_s() / 4)))
            await asyncio.gather(*(self._look(key, due) for key, due in list(self._due.items())))
        self._task = None

    async def _look(self, key: StepKey, due: _Due) -> None:
        if not self._runner.has(key):
            self._due.pop(key, None)
            return
        if self._loop.time() < due.at_s:
            return
        if await self._runner.ask(key, "ping", _ANSWER_LIMIT_S):
            due.heard_s = self._loop.time()
        now_s, limit_s = self._loop.time(), self._limit_s()
        if not self._runner.has(key):
            return
        if now_s - due.at_s > limit_s and not due.is_told:
            due.is_told = True
            self._on_stuck(key)
        if due.killed_s and now_s - due.killed_s > limit_s:
            self._runner.abandon(key)
        elif not due.killed_s and now_s - due.heard_s > limit_s:
            due.killed_s = now_s
            self._on_silent(key)
            self._runner.kill(key)

    def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
