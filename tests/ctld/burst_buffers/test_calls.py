"""Functions of burst_buffer.lua in processes of their own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pyslurm_ng.ctld.burst_buffers.calls import Calls, Outcome
from pyslurm_ng.policy.burst_buffer import REQUIRED, BufferCall


class Lines:
    """A log of which nothing is read but in a failure."""

    def write(self, level: int, text: str) -> None:
        print(level, text)


def test_functions_give_way_to_the_controller(tmp_path: Path) -> None:
    """Eight that computed kept another user's srun waiting for a second."""
    script = tmp_path / "burst_buffer.lua"
    script.write_text(
        "".join(f"function {name}() end\n" for name in REQUIRED)
        + "function slurm_bb_get_status()\n"
        "local pipe = io.popen('nice')\n"
        "return slurm.SUCCESS, pipe:read('*l')\n"
        "end\n"
    )
    calls = Calls(str(script), Lines())
    outcome = asyncio.run(calls.call("status", 1001, "slurm_bb_get_status", (), 60.0))
    assert outcome == Outcome(0, str(min(os.nice(0) + 10, 19)))


def test_two_requests_of_a_user_are_judged_at_once() -> None:
    """That stage computes; in others functions wait for storage, and more of them do no harm."""

    class Held(Calls):
        begun = 0

        async def _run(self, call: BufferCall, limit_s: float) -> Outcome:
            self.begun += 1
            await asyncio.sleep(3600)
            return Outcome(0)

    async def begun(stage: str) -> int:
        calls = Held("/none", Lines())
        tasks = [asyncio.create_task(calls.call(stage, 1001, "f", (), 60.0)) for _ in range(12)]
        for _ in range(20):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return calls.begun

    assert asyncio.run(begun("validate")) == 2
    assert asyncio.run(begun("stage-in")) == 8
