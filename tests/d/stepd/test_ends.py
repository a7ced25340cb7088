"""Ends that nobody can refuse: hostile files, frames, programs; supervisors that die or hang."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps.end_watch import EndWatch
from pyslurm_ng.d.steps.orphaned_steps import OrphanedStep
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.daemon.process_tree import descendants, is_zombie, signal_below
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire import step_io
from tests.d.stepd import supervised
from tests.d.stepd.hung_files import HungFiles, hung_files
from tests.d.stepd.supervised import (
    LIMIT_S,
    PLAIN,
    Srun,
    Supervised,
    Template,
    until_started,
    until_written,
)
from tests.world.processes import is_running
from tests.world.waiting import wait_until

KILLED = 8
DEAF = "trap '' TERM; echo ready; while :; do read -t 9 <> <(:); done"


@pytest.fixture
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-ends-") as name:
        made = Template(Path(name))
        yield made
        made.close()
        assert list(Path(name).glob("*.bug")) == []


@pytest.fixture
def hung() -> Iterator[HungFiles]:
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting FUSE needs root and /dev/fuse")
    with tempfile.TemporaryDirectory(prefix="psng-hung-") as name:
        try:
            with hung_files(Path(name) / "m") as made:
                yield made
        except OSError as error:
            pytest.skip(f"FUSE cannot be mounted here: {error}")


def answers(step: Supervised) -> bool:
    """Return whether a supervisor serves."""
    step.tell(do="ping", tag=7)
    while said := step.hear():
        if said.get("did") == "ping":
            return True
    return False


def supervisor_of(step: Supervised) -> int:
    """Return its process id, once the template has written it down."""
    wait_until(lambda: "pid" in step_record.read(step.path))
    return int(step_record.read(step.path)["pid"]["pid"])


# Processes --------------------------------------------------------------------------------------

NO_PROCESSES = """
import errno, os, sys
sys.path.insert(0, {source!r})
tries, fork = {{}}, os.fork

def refuse():
    tries[os.getpid()] = tries.get(os.getpid(), 0) + 1
    if tries[os.getpid()] < 3:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return fork()

os.fork = refuse
from pyslurm_ng.d.stepd.template import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_node_without_free_processes_starts_steps_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A fork storm has them all. Neither the template nor the step is lost."""
    code = NO_PROCESSES.format(source=str(Path(step_record.__file__).parents[2]))
    monkeypatch.setattr(supervised, "stepd_command", lambda: [sys.executable, "-c", code])
    template = Template(tmp_path)
    try:
        for text in ("one", "two"):
            end, out = template.run(f"echo {text}")
            assert (end["status"], out) == (0, f"{text}\n")
        assert template.process.poll() is None
    finally:
        template.close()


# Files ------------------------------------------------------------------------------------------


def test_a_full_fifo_as_stderr_stops_no_end(template: Template) -> None:
    """RELIABILITY 30, 38: there is no room for the notice, but the job is dead after KillWait.

    Such a job could once be neither cancelled nor timed out.
    """
    fifo = template.directory / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    spec = template.spec(f"#!/bin/bash\n{DEAF}\n")
    spec["tasks"][0]["err"] = str(fifo)
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "ready")
    until_started(step)
    filler = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, b"x" * 4096)
    except BlockingIOError:
        pass
    step.tell(do="say", text="hello " * 1000)
    step.tell(do="terminate", why="DUE TO TIME LIMIT", wait_s=0.2)
    assert answers(step)
    end = step.end()
    os.close(filler)
    os.close(reader)
    assert (end["status"], end["flags"] & KILLED) == (9, KILLED)


def test_labelled_output_into_a_full_fifo_stops_no_end(template: Template) -> None:
    """RELIABILITY 30: lines with labels are written for the task, and the task waits for them."""
    fifo = template.directory / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    spec = template.spec("#!/bin/bash\nyes\n", label=True)
    spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(fifo)
    step = template.start(spec)
    assert step.hear()["did"] == "start"
    supervisor = supervisor_of(step)
    wait_until(lambda: len(descendants(supervisor)) >= 3)  # one of them writes
    assert answers(step)
    step.tell(do="terminate", why="", wait_s=0.0)
    end = step.end()
    os.close(reader)
    assert end["status"] == 9


@pytest.mark.root
@pytest.mark.parametrize("where", ["directory", "output", "program", "task epilog"])
def test_a_file_system_that_hangs_stops_no_supervisor(
    template: Template, hung: HungFiles, where: str
) -> None:
    """RELIABILITY 31, 33: the supervisor serves, and says what SIGKILL cannot end.

    The step is over, and what it holds is free, when that is gone.
    """
    spec = template.spec("#!/bin/bash\nsleep 3600\n", unkillable_s=0.3)
    path = str(hung.path / "x")
    if where == "directory":
        spec["cwd"] = str(hung.path / "x")
    elif where == "output":
        spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = path
    elif where == "program":
        spec["script"] = b""
        spec["programs"] = [[path]]
    else:
        spec["script"] = b"#!/bin/sh\n"
        spec["task_epilogs"] = [("--task-epilog", path)]
    step = template.start(spec)
    assert hung.heard.wait(LIMIT_S)
    assert answers(step)
    if where != "task epilog":
        assert len(descendants(supervisor_of(step))) == 1, "what becomes the task, and no other"
    other, out = template.run("echo served")
    assert (other["status"], out) == (0, "served\n")
    step.tell(do="terminate", why="DUE TO TIME LIMIT", wait_s=0.0)
    said: dict[str, Any] = {"did": ""}
    while said["did"] != "unkillable":
        said = step.hear()
        assert said, "it ended before its processes did"
    assert answers(step)
    assert "end" not in step_record.read(step.path)
    hung.release()
    end = step.end()
    assert end["flags"] & KILLED
    assert not end["flags"] & 2, "an end that took so long is not a clean one"


def test_output_files_have_the_umask_of_the_job(template: Template) -> None:
    """RELIABILITY 61: what a private job prints is private."""
    spec = template.spec("#!/bin/sh\ntouch made\n", umask=0o077)
    spec["cwd"] = str(template.directory)
    template.start(spec).end()
    modes = [
        stat.S_IMODE(os.stat(path).st_mode)
        for path in (spec["tasks"][0]["out"], template.directory / "made")
    ]
    assert modes == [0o600, 0o600]


def test_a_step_that_is_cancelled_while_it_starts_ends(template: Template) -> None:
    """RELIABILITY 30: at any moment of its start, also when tasks have just begun."""
    for pause_ms in range(0, 80, 4):
        tasks = [
            {**PLAIN, "task": task, "local": task, "program": 0, "out": "/dev/null",
             "err": "/dev/null"}
            for task in range(30)
        ]  # fmt: skip
        step = template.start(
            template.spec(
                "", programs=[["sleep", "3600"]], tasks=tasks, is_batch=False, step=pause_ms
            )
        )
        wait_until(lambda: "pid" in step_record.read(step.path))  # noqa: B023 - called at once
        give_up = time.monotonic() + pause_ms / 2000
        while time.monotonic() < give_up:
            pass
        step.tell(do="terminate", why="", wait_s=0.0)
        assert step.end()["flags"] & KILLED


# Frames and commands ----------------------------------------------------------------------------

BAD_FRAMES = {
    "no signal": (step_io.SIGNAL, b""),
    "short signal": (step_io.SIGNAL, b"\0\0\1"),
    "signal 0": (step_io.SIGNAL, bytes(4)),
    "signal 100": (step_io.SIGNAL, (100).to_bytes(4, "big")),
    "signal 4e9": (step_io.SIGNAL, b"\xff\xff\xff\xff"),
    "two signals": (step_io.SIGNAL, (9).to_bytes(4, "big") * 2),
    "short window": (step_io.WINDOW, b"\1"),
    "long cause": (step_io.TERMINATE, b"x" * 100_000),
    "hello": (step_io.HELLO, b""),
    "exit": (step_io.EXIT, bytes(8)),
    "unknown": (99, b""),
    "flood of input": (step_io.STDIN, b"x" * 1_048_570),
}


@pytest.mark.parametrize("what", BAD_FRAMES)
def test_malformed_frames_are_answered(template: Template, what: str) -> None:
    """RELIABILITY 42: the connection ends with a line that says why.

    The step ends as without srun. CVE-2026-65168 was such a crash.
    """
    kind, body = BAD_FRAMES[what]
    marker = f"71{os.getpid()}{list(BAD_FRAMES).index(what)}"
    srun = Srun(template, ["sleep", marker], kill_wait=0)
    wait_until(lambda: is_running(marker))
    try:
        for _ in range(1 + (what == "flood of input")):
            srun.send(kind, step_io.ALL, body)
        while srun.pump():
            pass
        assert b"malformed message of srun: " in srun.notices
    except (BrokenPipeError, ConnectionResetError):
        assert len(body) > 65536  # of which much was not even read
    assert srun.step.end()["flags"] & KILLED
    srun.connection.close()
    srun.listener.close()
    assert not is_running(marker)


def test_odd_commands_are_answered(template: Template) -> None:
    """What slurmd passes on costs that command only."""
    spec = template.spec("#!/bin/sh\nexec sleep 3600\n")
    step = template.start(spec)
    assert step.hear()["did"] == "start"
    for words in ({"do": "signal", "number": 4_000_000_000, "scope": "all"}, {"do": "signal"},
                  {"do": 7}, {}, {"do": "signal", "number": 100, "scope": "script"},
                  {"do": "terminate", "why": 3, "wait_s": "x"}):  # fmt: skip
        step.tell(**words)
        assert answers(step)
    step.tell(do="terminate", why="", wait_s=0.0)
    assert step.end()["status"] == 9


def fuzz(template: Template, seconds: float, seed: int) -> int:
    """Have steps whose srun sends random frames; return how many frames were sent."""
    chance = random.Random(seed)
    known = [kind for kind, row in step_io.FRAMES.items() if row[1] != step_io.STEPD] * 2
    give_up = time.monotonic() + seconds
    frames = 0
    while time.monotonic() < give_up:
        srun = Srun(template, ["cat"], kill_wait=0, no_kill=bool(chance.getrandbits(1)))
        try:
            for _ in range(chance.randrange(1, 60)):
                kind = chance.choice((*known, chance.randrange(256)))
                body = chance.randbytes(chance.choice((0, 1, 2, 3, 4, 4, 8, 77, 5000)))
                task = chance.choice((0, 1, 2, step_io.ALL, chance.getrandbits(32)))
                data = step_io.pack(kind, task, body)
                if not chance.randrange(20):
                    data = chance.randbytes(chance.randrange(40))
                srun.connection.sendall(data)
                frames += 1
        except OSError:
            pass  # it has had enough of us
        srun.connection.close()
        srun.listener.close()
        with contextlib.suppress(OSError):  # it may have ended by itself
            srun.step.tell(do="terminate", why="", wait_s=0.0)
        assert "status" in srun.step.end()
    return frames


def test_random_frames(template: Template) -> None:
    """RELIABILITY 42: no supervisor is lost to what a user's srun sends."""
    assert fuzz(template, 2.0, seed=1) > 20


@pytest.mark.soak
def test_random_frames_for_a_minute(template: Template) -> None:
    """RELIABILITY 42."""
    assert fuzz(template, 60.0, seed=int(time.time())) > 1000


# Supervisors that die or hang -------------------------------------------------------------------

ESCAPE = """#!/usr/bin/python3
import ctypes, os, signal
libc = ctypes.CDLL(None)
libc.prctl(1, 0)  # nobody's death is the end of it
if os.fork():
    signal.pause()
os.setsid()
if os.fork():
    os._exit(0)
os.setsid()
libc.prctl(1, 0)
os.closerange(0, 64)
os.execve("/bin/sleep", ["sleep", "{marker}"], {{}})
"""


@pytest.mark.parametrize("slurmd_is_there", [True, False])
def test_a_supervisor_that_dies_leaves_no_process(
    template: Template, slurmd_is_there: bool
) -> None:
    """RELIABILITY 22, 29: without control groups, with an empty environment, in a new session.

    Such a process was once left on a node that was free for other jobs.
    """
    marker = f"72{os.getpid()}{slurmd_is_there:d}"
    spec = template.spec(ESCAPE.format(marker=marker))
    step = template.start(spec)
    wait_until(lambda: is_running(marker))
    supervisor = supervisor_of(step)
    if not slurmd_is_there:
        template.control.close()
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: "swept" in step_record.read(step.path))
    assert not is_running(marker)
    step.channel.close()


def test_leftovers_end_with_the_template_dead_too(template: Template) -> None:
    """RELIABILITY 22: both killed at once, as `pkill slurmstepd` does: known by environment."""
    marker = f"73{os.getpid()}"
    spec = template.spec(f"#!/bin/sh\nsetsid sleep {marker} &\nwait\n")
    spec["env"] += [b"SLURM_JOB_ID=%d" % spec["job"], b"SLURM_STEP_ID=-5"]
    step = template.start(spec)
    wait_until(lambda: is_running(marker))
    supervisor = supervisor_of(step)
    template.process.kill()
    template.process.wait()
    os.kill(supervisor, signal.SIGKILL)
    while step.hear():
        pass
    step.channel.close()
    records = step_record.read(step.path)

    async def end() -> None:
        orphan = OrphanedStep(spec["job"], STEP_BATCH, step.path, records)
        await orphan.end(LIMIT_S, lambda: pytest.fail("something is left"))

    asyncio.run(end())
    assert not is_running(marker)
    assert not Path(spec["spool"]).exists()


def test_a_supervisor_that_does_not_answer_is_killed(template: Template) -> None:
    """RELIABILITY 22, 31: slurmd's own watch; the end does not depend on the supervisor."""
    key = (1, STEP_BATCH, 0)
    stuck: list[object] = []
    silent: list[object] = []

    async def live() -> Mapping[str, Any]:
        loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = loop.create_future()
        over: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        runner = StepRunner(
            str(template.directory),
            on_started=lambda key, pids: started.set_result(None),
            on_ended=lambda key, records: over.set_result(records),
        )
        await runner.begin()
        path = str(template.directory / step_record.file_name(*key))
        runner.start(key, path, template.spec("#!/bin/sh\nsleep 3600\n"))
        await started
        watch = EndWatch(runner, lambda: 0.5, stuck.append, silent.append)
        os.kill(step_record.read(path)["pid"]["pid"], signal.SIGSTOP)
        runner.command(key, {"do": "terminate", "why": "", "wait_s": 0.0})
        watch.expect(key, 0.0)
        records = await asyncio.wait_for(over, LIMIT_S)
        await OrphanedStep(*key[:2], path, records).end(LIMIT_S, lambda: None)
        watch.close()
        runner.close()
        return records

    template.close()  # the runner has one of its own
    others = set(descendants(os.getpid()))  # of tests before this one
    records = asyncio.run(live())
    assert "end" not in records
    assert (stuck, silent) == ([key], [key])
    assert all(map(is_zombie, set(descendants(os.getpid())) - others))


def test_only_those_below_are_signalled() -> None:
    """A process id is no proof: another user's process may have it by now."""
    stranger = subprocess.Popen(["setsid", "sleep", "60"])
    parent = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
    wait_until(lambda: len(descendants(parent.pid)) == 1)
    (child,) = descendants(parent.pid)
    assert signal_below(parent.pid, [stranger.pid, child, 1 << 22], signal.SIGKILL) == 1
    parent.wait()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_no_job_raises_the_limits_of_the_node(template: Template) -> None:
    """RELIABILITY 64: limits are set as the user, so a hard limit cannot exceed the node's."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, out = template.run(
        "ulimit -Hn; ulimit -Hl; ulimit -Sn",
        rlimits=[(resource.RLIMIT_NOFILE, 77, hard * 2), (resource.RLIMIT_MEMLOCK, 65536, 65536)],
    )
    assert out.split() == [str(hard), "64", "77"]


def test_leftovers_are_ended_although_they_have_all_threads(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurmd tries until it gets one; it does not count them as ended."""
    spec = template.spec("#!/bin/sh\nsleep 3600\n")
    step = template.start(spec)
    os.kill(supervisor_of(step), signal.SIGKILL)
    while step.hear():
        pass
    step.channel.close()
    usual, tries = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        tries.append(thread)
        if len(tries) < 3:
            raise RuntimeError("can't start new thread")
        usual(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    records = step_record.read(step.path)
    orphan = OrphanedStep(spec["job"], STEP_BATCH, step.path, records)
    asyncio.run(asyncio.wait_for(orphan.end(LIMIT_S, lambda: None), LIMIT_S))
    assert "swept" in step_record.read(step.path)
    assert len(tries) >= 4
