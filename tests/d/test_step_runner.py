"""slurmd's hold on supervisors: what is ordered while a start is being prepared is not lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.spec.node_setup import SpecError
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps import spool_shares, step_runner
from pyslurm_ng.d.steps.display_shares import MOST_DISPLAYS, DisplayShares
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.model.ids import STEP_BATCH
from tests.d.stepd.supervised import LIMIT_S, Template, until_started

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


@pytest.mark.parametrize("is_told", [False, True])
def test_a_step_that_a_template_died_with_is_begun_by_the_next(
    template: Template, *, is_told: bool
) -> None:
    """It had no supervisor yet. One that was told to end is not begun: nobody has read that."""

    async def live() -> Mapping[str, Any]:
        over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: over.set_result(records),
        )
        await runner.begin()
        first = runner._template._process
        assert first is not None
        first.send_signal(signal.SIGSTOP)
        path = str(template.directory / step_record.file_name(1, STEP_BATCH, 0))
        runner.start(KEY, path, template.spec("#!/bin/sh\nexit 7\n"))
        if is_told:
            runner.command(KEY, END)
        first.kill()
        try:
            records = await asyncio.wait_for(over, LIMIT_S)
            first.wait()
            while runner._template._process is first or not runner._template.is_there():
                await asyncio.sleep(0.01)
            return records
        finally:
            runner.close()

    records = asyncio.run(asyncio.wait_for(live(), 3 * LIMIT_S))
    if is_told:
        assert records.keys() == {"spec"}
    else:
        assert records["end"]["status"] == 7 << 8


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({}, True),
        ({"boot": "another"}, False),
        ({"route": {"host": "127.0.0.1", "port": 1, "key": bytes(16)}}, False),
    ],
)
def test_a_step_that_slurmd_died_with_is_begun_by_the_next(
    template: Template, changes: dict[str, Any], *, begins: bool
) -> None:
    """Its file is there and nobody was asked for it. Not after a boot: its job is over then.

    An srun has been told that its launch failed.
    """

    async def live() -> Mapping[str, Any] | None:
        over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: over.set_result(records),
        )
        path = str(template.directory / step_record.file_name(1, STEP_BATCH, 0))
        spec = template.spec("#!/bin/sh\nexit 7\n") | {"boot": step_record.boot_id()}
        step_record.create(path, spec | changes)
        await runner.begin()
        try:
            records = step_record.read(path)
            assert runner.take_up(KEY, path, records) is begins
            if not begins:
                return None
            return await asyncio.wait_for(over, LIMIT_S)
        finally:
            runner.close()

    records = asyncio.run(asyncio.wait_for(live(), 3 * LIMIT_S))
    assert records is None or records["end"]["status"] == 7 << 8


def test_a_supervisor_that_is_slow_to_make_its_socket_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY 21: a slurmd restarted under load takes no step that runs for a lost one."""
    monkeypatch.setattr(step_runner, "_ATTACH_PAUSE_S", 0.001)
    monkeypatch.setattr(step_runner, "_LONGEST_ATTACH_PAUSE_S", 0.01)
    looks: list[int] = []

    def is_alive(record: dict[str, Any] | None) -> bool:
        looks.append(1)
        return alive(record)

    alive = step_record.is_alive
    monkeypatch.setattr(step_record, "is_alive", is_alive)
    template = Template(tmp_path)
    go = tmp_path / "go"
    spec = template.spec(f"#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.1; done; exit 7\n")
    step = template.start(spec)
    until_started(step)
    pid = step_record.read(step.path)["pid"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    step.channel.close()

    async def live() -> Mapping[str, Any]:
        over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: go.touch(),
            on_ended=lambda key, records: over.set_result(records),
        )
        runner.adopt(KEY, step.path, step_record.read(step.path)["spec"])
        while len(looks) < 100 and not over.done():
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGCONT)
        try:
            return await asyncio.wait_for(over, LIMIT_S)
        finally:
            runner.close()

    try:
        assert asyncio.run(asyncio.wait_for(live(), 3 * LIMIT_S))["end"]["status"] == 7 << 8
    finally:
        template.close()


def test_a_supervisor_whose_spool_has_no_room_makes_its_socket_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it cannot, its step goes on; when it can, slurmd hears of it."""
    template = Template(tmp_path)
    step = template.start(template.spec("#!/bin/sh\nsleep 3600\n"))
    until_started(step)
    in_the_way = Path(step.path + ".sock")
    in_the_way.mkdir()
    tries = len(os.listdir(tmp_path))
    step.channel.close()
    spec = step_record.read(step.path)["spec"]
    template.control.close()
    with pytest.raises(subprocess.TimeoutExpired):
        template.process.wait(0.5)  # the supervisor has had its time to try
    assert len(os.listdir(tmp_path)) == tries
    in_the_way.rmdir()

    async def live() -> Mapping[str, Any]:
        over: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: None,
            on_ended=lambda key, records: over.set_result(records),
        )
        runner.adopt(KEY, step.path, spec)
        while not runner.command(KEY, END | {"wait_s": 0.0}):
            await asyncio.sleep(0.01)
        try:
            return await asyncio.wait_for(over, LIMIT_S)
        finally:
            runner.close()

    records = asyncio.run(asyncio.wait_for(live(), 3 * LIMIT_S))
    assert records["end"]["status"] & 0x7F in (9, 15)
    template.process.wait(LIMIT_S)


def test_one_user_has_a_tenth_of_the_displays(template: Template) -> None:
    """The others can use --x11, too; steps without a display do not count."""
    shares = DisplayShares()
    plain = template.spec("#!/bin/sh\n") | {"uid": 1000}
    shown = plain | {"x11": {"cookie": b"x" * 16, "directory": "/tmp", "home": "/"}}
    for job_id in range(MOST_DISPLAYS):
        shares.check(shown)
        shares.take((job_id, STEP_BATCH, 0), shown)
    with pytest.raises(SpecError, match="X11: steps of uid 1000 have 100 displays on this node"):
        shares.check(shown)
    shares.check(plain)
    shares.take((MOST_DISPLAYS, STEP_BATCH, 0), plain)
    shares.check(shown | {"uid": 1001})
    shares.give_back((MOST_DISPLAYS, STEP_BATCH, 0))
    with pytest.raises(SpecError):
        shares.check(shown)
    shares.give_back((0, STEP_BATCH, 0))
    shares.check(shown)


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
