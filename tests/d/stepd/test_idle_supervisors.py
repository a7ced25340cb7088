"""A supervisor whose step has ended serves the next step of its user, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.idle_supervisors import ENDS, IDLE_S, MOST_IDLE, STAYS, IdleSupervisors
from pyslurm_ng.daemon.process_tree import is_zombie
from tests.d.stepd.supervised import Supervised, Template, until_started
from tests.world.waiting import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root's supervisors stay"),
]
OTHER = 65_534
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        made = Template(Path(name))
        yield made
        made.close()


def _pid(step: Supervised) -> int:
    pids: list[int] = []

    def is_recorded() -> bool:
        record = step_record.read(step.path).get("pid")
        pids[:] = [record["pid"]] if record else []
        return bool(pids)

    wait_until(is_recorded, "the supervisor's process id")
    return pids[0]


def _asks(pid: int) -> bool:
    """Return whether a supervisor says that it waits, with its streams and one socket open."""
    title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
    return title == b"slurmstepd: idle" and len(os.listdir(f"/proc/{pid}/fd")) == 4


def _one(template: Template, script: str = "exit 0", **more: object) -> int:
    """Run a script to its end; return its supervisor's process id."""
    step = template.start(template.spec("#!/bin/sh\n" + script, **more))
    pid = _pid(step)
    assert "status" in step.end()
    return pid


def _stays(pid: int) -> None:
    wait_until(lambda: _asks(pid), "the supervisor to ask for a step")


def test_the_next_step_of_a_user_has_the_same_supervisor(template: Template) -> None:
    first = _one(template, "echo one >&2; sleep 0.05; exit 3")
    _stays(first)
    end, out = template.run("echo $$ >&2; cat /proc/$PPID/cmdline | tr '\\0' ' '; exit 4")
    assert end["status"] == 4 << 8
    assert "slurmstepd: [2.batch]" in out
    _stays(first)
    step = template.start(template.spec("#!/bin/sh\nexit 5"))
    assert _pid(step) == first
    assert step.end()["status"] == 5 << 8


def test_another_user_has_another_supervisor(template: Template) -> None:
    first = _one(template)
    _stays(first)
    assert _one(template, uid=OTHER, gid=OTHER, groups=[OTHER]) != first
    _stays(first)


@pytest.mark.parametrize(
    "more", [{"programs": [["/missing"]], "script": ""}, {"cwd": "/missing"}], ids=["exec", "cwd"]
)
def test_one_whose_program_or_directory_is_missing_stays(
    template: Template, more: dict[str, str]
) -> None:
    step = template.start({**template.spec("#!/bin/sh\nexit 0"), **more})
    pid = _pid(step)
    step.end()
    _stays(pid)
    assert _one(template) == pid


def test_a_cancelled_step_is_the_last_of_its_supervisor(template: Template) -> None:
    step = template.start(template.spec("#!/bin/sh\nsleep 100"))
    until_started(step)
    pid = _pid(step)
    step.tell(do="terminate", why="", wait_s=0.0)
    step.end()
    wait_until(lambda: is_zombie(pid), "its supervisor to end")


def test_a_killed_supervisor_takes_only_its_present_step(template: Template) -> None:
    first = _one(template)
    _stays(first)
    step = template.start(template.spec("#!/bin/sh\nsleep 100"))
    until_started(step)
    assert _pid(step) == first
    os.kill(first, signal.SIGKILL)
    while step.hear():
        pass
    step.channel.close()
    wait_until(lambda: "swept" in step_record.read(step.path), "the template's sweep")
    assert "end" not in step_record.read(step.path)
    assert _one(template) != first


def test_one_that_is_killed_while_it_waits_costs_nothing(template: Template) -> None:
    first = _one(template)
    _stays(first)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: is_zombie(first), "its end")
    step = template.start(template.spec("#!/bin/sh\nexit 6"))
    assert step.end()["status"] == 6 << 8
    assert _pid(step) != first


def test_a_step_given_to_one_that_is_being_killed_is_not_lost(template: Template) -> None:
    """Its socket takes the step while a thread of the process is still there."""
    first = _one(template)
    _stays(first)
    os.kill(first, signal.SIGSTOP)
    step = template.start(template.spec("#!/bin/sh\nexit 6"))
    wait_until(lambda: _pid(step) == first, "the step to be given")
    os.kill(first, signal.SIGKILL)
    assert step.end()["status"] == 6 << 8
    assert _pid(step) != first


@needs_strace
def test_no_step_runs_without_its_process_id_in_its_file() -> None:
    """The template is killed when it is about to write the number of a supervisor that waited."""
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        kill = ("strace", "-qq", "-o", f"{name}/trace", "-e", "inject=write:signal=KILL:when=2")
        template = Template(Path(name), *kill)
        first = _one(template)
        _stays(first)
        assert template.process.poll() is None
        step = template.start(template.spec("#!/bin/sh\nexit 6"))
        while step.hear():
            pass
        step.channel.close()
        records = step_record.read(step.path)
        assert "end" not in records or "pid" in records
        template.close()
        assert template.process.returncode == -signal.SIGKILL


@needs_strace
def test_those_that_wait_end_while_the_node_has_no_process_for_another_user() -> None:
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        no = ("strace", "-qq", "-o", f"{name}/trace", "-e", "inject=clone:error=EAGAIN:when=2+")
        template = Template(Path(name), *no)
        first = _one(template)
        _stays(first)
        step = template.start(template.spec("#!/bin/sh\n", uid=OTHER, gid=OTHER))
        wait_until(lambda: is_zombie(first), "the end of the one that waits")
        step.channel.close()
        children = Path(f"/proc/{template.process.pid}/task/{template.process.pid}/children")
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)  # strace passes no signal on
        template.close()


@pytest.mark.parametrize("how", ["close", "kill"])
def test_they_end_with_the_template(template: Template, how: str) -> None:
    pid = _one(template)
    _stays(pid)
    if how == "kill":
        template.process.kill()
    else:
        template.control.close()
    wait_until(lambda: is_zombie(pid), "a supervisor that waits to end")


# The template's book, without processes -----------------------------------------------------------


def test_the_one_that_waited_least_is_taken_and_the_longest_ends() -> None:
    idle = IdleSupervisors()
    theirs = {}
    for pid in (11, 12, 13):
        ours, theirs[pid] = idle.pair()
        idle.add(pid, ours)
        assert idle.news_of(pid, 0, 0.0) == ENDS  # it has said nothing
        theirs[pid].send(b"next")
        assert idle.news_of(pid, 1000 if pid == 12 else 0, float(pid)) == STAYS
    read, write = os.pipe()
    assert idle.choose(1001) == 0
    assert idle.choose(0) == 13
    assert idle.give(13, "/a", read)
    assert theirs[13].recv(64) == b"/a"
    theirs[13].send(b"taken")
    assert idle.not_taken(13) == -1
    with pytest.raises(OSError, match="Bad file"):
        os.close(read)
    os.close(write)
    assert idle.overdue(11.0 + IDLE_S - 0.1) == []
    assert idle.wait_ms(11.0) > 0
    assert idle.overdue(11.0 + IDLE_S) == [11]
    assert idle.forget(11) >= 0
    assert theirs[11].recv(64) == b""
    assert idle.forget(11) == -1
    assert idle.all() == [12, 13]
    for pid, end in theirs.items():
        idle.forget(pid)
        end.close()


def test_the_step_of_one_that_ended_before_it_took_it_is_given_back() -> None:
    idle = IdleSupervisors()
    ours, theirs = idle.pair()
    idle.add(11, ours)
    theirs.send(b"next")
    assert idle.news_of(11, 0, 0.0) == STAYS
    read, write = os.pipe()
    assert idle.choose(0) == 11
    assert idle.give(11, "/a", read)
    theirs.close()
    idle.forget(11)
    assert idle.not_taken(11) == read
    assert idle.not_taken(11) == -1
    os.close(read)
    os.close(write)


def test_the_user_who_has_most_makes_room_for_others() -> None:
    idle = IdleSupervisors()
    ends = []
    for pid in range(1, MOST_IDLE + 3):
        ours, theirs = idle.pair()
        idle.add(pid, ours)
        theirs.send(b"next")
        ends.append(theirs)
    for pid in range(1, MOST_IDLE + 1):
        assert idle.news_of(pid, 7, float(pid)) == STAYS
    assert idle.overdue(0.0) == []
    assert idle.news_of(MOST_IDLE + 1, 8, 40.0) == STAYS
    assert idle.overdue(0.0) == [1]  # the one of the other user that has waited longest
    idle.forget(1)
    assert idle.news_of(MOST_IDLE + 2, 7, 41.0) == ENDS
    for pid, end in enumerate(ends, 1):
        idle.forget(pid)
        end.close()


def test_no_more_wait_than_is_allowed() -> None:
    idle = IdleSupervisors()
    stay, ends = [], []
    for pid in range(1, MOST_IDLE + 2):
        ours, theirs = idle.pair()
        idle.add(pid, ours)
        theirs.send(b"next")
        ends.append(theirs)
        stay.append(idle.news_of(pid, 0, 0.0))
    assert stay == [STAYS] * MOST_IDLE + [ENDS]
    for pid, end in enumerate(ends, 1):
        idle.forget(pid)
        end.close()
