"""Questions about burst buffers, which any user may ask without end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.burst_buffer_conf import parse_burst_buffer_conf
from pyslurm_ng.ctld.burst_buffers.calls import Calls, Outcome
from pyslurm_ng.ctld.burst_buffers.questions import WAITING, StatusQuestions
from pyslurm_ng.policy.burst_buffer import BufferCall
from pyslurm_ng.wire.buffer_messages import AskBufferStatus, BufferStatus
from tests.world.logs import LineLog


class HeldCalls(Calls):
    """Functions that end when the test says so."""

    def __init__(self) -> None:
        super().__init__("/none", LineLog())  # type: ignore[arg-type]
        self.end = asyncio.Event()
        self.begun = 0

    async def _run(self, call: BufferCall, limit_s: float) -> Outcome:
        self.begun += 1
        await self.end.wait()
        return Outcome(0, "fine")


class Question:
    """A call of scontrol show bbstat."""

    def __init__(self) -> None:
        self.request = AskBufferStatus(["x"])
        self.answer: BufferStatus | Reject | None = None
        self.gone: Callable[[], None] = lambda: None

    def on_gone(self, callback: Callable[[], None]) -> None:
        self.gone = callback

    def reply(self, answer: BufferStatus) -> None:
        self.answer = answer


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_users_questions_are_few_and_end_with_who_asked() -> None:
    async def work() -> None:
        calls = HeldCalls()
        conf = parse_burst_buffer_conf("")

        def refuse(call: Question, why: Reject) -> None:
            call.answer = why

        questions = StatusQuestions(calls, lambda: conf, refuse)  # type: ignore[arg-type]
        asked = [Question() for _ in range(WAITING + 3)]
        for question in asked:
            questions.ask(question, 7)  # type: ignore[arg-type]
            await _settle()
        assert calls.begun == 1
        refused = [question.answer for question in asked if isinstance(question.answer, Reject)]
        assert [why.code for why in refused] == [Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF] * 2
        other = Question()
        questions.ask(other, 8)  # type: ignore[arg-type]
        await _settle()
        assert calls.begun == 2  # another user's turn comes all the same
        for question in asked[:-1]:
            question.gone()
        await _settle()
        calls.end.set()
        await _settle()
        assert other.answer == BufferStatus("fine")
        assert [
            question.answer for question in asked if isinstance(question.answer, BufferStatus)
        ] == []
        assert calls.begun == 2  # nothing is called for who has gone
        assert calls.waiting("status", 7) == 0
        questions.stop()

    asyncio.run(work())


def test_arguments_are_made_at_their_turn() -> None:
    async def work() -> None:
        calls = HeldCalls()
        made: list[int] = []

        def arguments(number: int) -> tuple[int]:
            made.append(number)
            return (number,)

        tasks = [
            asyncio.create_task(
                calls.call("validate", 7, "f", lambda number=number: arguments(number), 60)  # type: ignore[misc]
            )
            for number in range(20)
        ]
        await _settle()
        assert made == [*range(calls.begun)]
        assert len(made) < 20
        calls.end.set()
        await asyncio.gather(*tasks)
        assert made == [*range(20)]

    asyncio.run(work())
