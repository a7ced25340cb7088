"""slurmd's hold on supervisors: what is ordered while a start is being prepared is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.spec.node_setup import SpecError
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps import spool_shares
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.model.ids import STEP_BATCH
from tests.d.stepd.supervised import LIMIT_S, Template

KEY = (1, STEP_BATCH, 0)
END = {"do": "terminate", "why": "", "wait_s": 10.0}


@pytest.fixture
def template(tmp_path: Path) -> Template:
    """Return what writes specifications of steps; its own process is not used."""
    new_template = Template(tmp_path)
    new_template.close()
    return new_template


def ended_with(template: Template, *orders: str) -> Mapping[str, Any]:
    """Return the records of a script of an hour for which something is done in an order."""

    async def live() -> Mapping[str, Any]:
        over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: over.set_result(records),
        )
        await runner.begin()
        spec = template.spec("#!/bin/sh\nsleep 3600\n")
        path = str(template.directory / step_record.file_name(1, STEP_BATCH, 0))
        for order in orders:
            if order == "expect":
                runner.expect(KEY)
            elif order == "start":
                runner.start(KEY, path, spec)
            else:
                assert runner.command(KEY, END)
        try:
            return await asyncio.wait_for(over, LIMIT_S)
        finally:
            runner.close()

    return asyncio.run(live())


def test_a_job_that_is_ended_before_it_has_begun_does_not_run(template: Template) -> None:
    """A user who is not in the node's cache is looked up first. scancel does not wait for that."""
    records = ended_with(template, "expect", "end", "start")
    assert records["end"]["status"] & 0x7F in (9, 15)


def test_a_step_that_is_ended_at_once_ends(template: Template) -> None:
    assert ended_with(template, "expect", "start", "end")["end"]["status"] & 0x7F in (9, 15)


def test_nothing_is_kept_for_a_step_that_does_not_start(template: Template) -> None:
    async def live() -> None:
        runner = StepRunner(
            str(template.directory), on_started=lambda *_: None, on_ended=lambda *_: None
        )
        runner.expect(KEY)
        assert runner.command(KEY, END)
        runner.release(KEY)
        assert not runner.command(KEY, END)
        runner.close()

    asyncio.run(live())


def test_the_steps_of_one_user_have_a_share_of_the_spool(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large environments of one user leave room for the steps of others.

    The number of steps does not matter.
    """
    monkeypatch.setattr(spool_shares, "SHARE_BYTES", 3 << 20)
    monkeypatch.setattr(spool_shares, "SHARES", 1 << 40)

    async def live() -> None:
        over: list[int] = []
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: over.append(key[0]),
        )

        def start(job_id: int, uid: int, script: str = "sleep 3600") -> None:
            spec = template.spec(f"#!/bin/sh\n{script}\n", env=[b"X=" + b"x" * (1 << 20)])
            path = str(template.directory / step_record.file_name(job_id, STEP_BATCH, 0))
            runner.start((job_id, STEP_BATCH, 0), path, spec | {"uid": uid, "gid": uid})

        await runner.begin()
        try:
            start(1, 0, "true")
            for job_id in (2, 3):
                start(job_id, 0)
            with pytest.raises(SpecError, match="steps of uid 0 that run hold 3 MiB"):
                start(4, 0)
            start(5, 65534)
            deadline = asyncio.get_running_loop().time() + LIMIT_S
            while 1 not in over and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.01)
            start(4, 0)
        finally:
            for job_id in (2, 3, 4, 5):
                runner.command((job_id, STEP_BATCH, 0), END | {"wait_s": 0.0})
            while {2, 3, 4, 5} - set(over):
                await asyncio.sleep(0.01)
            runner.close()

    asyncio.run(asyncio.wait_for(live(), 3 * LIMIT_S))


def test_a_question_without_an_answer_is_forgotten(template: Template) -> None:
    """Also one to a step that cannot be reached: questions do not add up over months."""

    async def live() -> dict[int, Any]:
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: None,
        )
        assert await runner.ask(KEY, "usage") == {}
        runner.expect(KEY)
        assert await runner.ask(KEY, "usage", limit_s=0) == {}
        return runner._asked

    assert asyncio.run(live()) == {}
