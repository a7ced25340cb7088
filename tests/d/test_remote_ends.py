"""Ends of steps on their way to the step manager on another node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.d.core.node_core import NodeCore, StepEnd
from pyslurm_ng.d.core.steps import launch_step, step_ended
from pyslurm_ng.d.stepmgr.remote_ends import RemoteEnds
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.stream_client import LinkError
from tests.d.credentials import managed_credential


class Links:
    """A link to a node whose answers are given before."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.brought: list[nm.Report] = []

    async def request(self, name: str, address: tuple[str, int], message: Any) -> Done:
        self.brought += message.reports
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return Done()


def brought(links: Links) -> tuple[NodeCore, list[str]]:
    """Have a step end, and its end brought; return the node and what is marked as reported."""
    core = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    marked: list[str] = []
    spool = SimpleNamespace(
        step_path=lambda job_id, step_id, attempt: f"{job_id}.{step_id}",
        mark_reported=marked.append,
    )
    node: Any = SimpleNamespace(core=core, spool=spool, log=SimpleNamespace(verbose=lambda _: None))
    launch_step(core, managed_credential(0), 1)
    step_ended(core, 1, 0, 0, StepEnd(0, END_CLEAN, 1, 2))

    async def bring() -> None:
        ends = RemoteEnds(node, links)  # type: ignore[arg-type]
        ends.add(*core.managed_ends[0])
        (task,) = ends._tasks.values()
        await asyncio.wait_for(task, 10)

    asyncio.run(bring())
    return core, marked


def test_an_end_that_arrived_is_told_by_the_manager() -> None:
    """A link that fails is tried again."""
    links = Links(LinkError(Errno.SLURM_COMMUNICATIONS_SHUTDOWN_ERROR, "no link"), None)
    core, marked = brought(links)
    assert len(links.brought) == 2 and marked == ["1.0"]
    assert not core.jobs[1].untold


def test_an_end_that_came_too_late_stays_here() -> None:
    """The manager was gone with its job and said that all is well: the step was CANCELLED."""
    links = Links(LinkError(Errno.ESLURM_INVALID_JOB_ID, "Invalid job id specified"))
    core, marked = brought(links)
    assert len(links.brought) == 1 and marked == []
    assert list(core.jobs[1].untold) == [0]
