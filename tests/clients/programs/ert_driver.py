"""ERT's Slurm driver: realizations that end, fail and are killed, by its polls."""

import asyncio
import contextlib
from importlib.metadata import version
from pathlib import Path

from ert.scheduler.event import FinishedEvent, StartedEvent
from ert.scheduler.slurm_driver import SlurmDriver

HERE = Path.cwd()
MEMORY = 200 * 1024**2


async def main():
    driver = SlurmDriver(poll_period=1, queue_name="debug")
    polls = asyncio.create_task(driver.poll())
    for number, script in enumerate(("echo well", "exit 3", "exec sleep 600")):
        words = ("sh", "-c", script)
        await driver.submit(number, *words, name=f"r{number}", runpath=HERE, num_cpu=2,
                            realization_memory=MEMORY)  # fmt: skip
    codes = {}
    while len(codes) < 3:
        event = await asyncio.wait_for(driver.event_queue.get(), 120)
        if isinstance(event, FinishedEvent):
            codes[event.iens] = event.returncode
        elif isinstance(event, StartedEvent) and event.iens == 2:
            await driver.kill([2])
    polls.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await polls
    assert codes[0] == 0 and codes[1] == 3, codes
    assert Path("r0.stdout").read_text() == "well\n"


asyncio.run(main())
print("ert", version("ert"), "ok")
