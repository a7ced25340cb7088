"""`scontrol show bbstat`: what the site's slurm_bb_get_status says.

Any user may ask, and each answer costs a process of the controller. So it has few places, few
questions of a user wait, and who has gone is not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.burst_buffer_conf import BurstBufferConf
from pyslurm_ng.ctld.burst_buffers.calls import Calls
from pyslurm_ng.wire.buffer_messages import AskBufferStatus, BufferStatus
from pyslurm_ng.wire.stream import Call

WAITING = 8
"""Questions of one user that wait for the function."""
_MOST_STATUS = 1 << 20


class StatusQuestions:
    """The questions that are open.

    Args:
        refuse: answers a call with an error.
    """

    def __init__(
        self,
        calls: Calls,
        conf: Callable[[], BurstBufferConf],
        refuse: Callable[[Call, Reject], None],
    ) -> None:
        self._calls = calls
        self._conf = conf
        self._refuse = refuse
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End all functions."""
        for task in self._tasks:
            task.cancel()

    def ask(self, call: Call, uid: int) -> None:
        """Answer a question later, or refuse it now."""
        if self._calls.waiting("status", uid) >= WAITING:
            text = f"{WAITING} questions of uid {uid} wait for burst_buffer.lua"
            self._refuse(call, Reject(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text))
            return
        task = asyncio.get_running_loop().create_task(self._answer(call, uid))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.on_gone(partial(_cancel, task))

    async def _answer(self, call: Call, uid: int) -> None:
        words = cast(AskBufferStatus, call.request).words
        limit_s = self._conf().other_timeout
        outcome = await self._calls.call("status", uid, "slurm_bb_get_status", words, limit_s)
        if outcome.code:
            text = f"burst_buffer/lua: {outcome.text[:4096]}"
            self._refuse(call, Reject(Errno.SLURM_ERROR, text))
        else:
            call.reply(BufferStatus(outcome.text[:_MOST_STATUS]))


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
