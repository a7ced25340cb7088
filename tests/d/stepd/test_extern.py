"""The supervisor of an extern step: it has no tasks and lasts until it is told to end."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.numbers import END_CLEAN, STEP_EXTERN
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.steps.orphaned_steps import OrphanedStep
from pyslurm_ng.daemon.process_tree import descendants
from tests.d.stepd.supervised import Supervised, Template, until_started
from tests.world.processes import is_running
from tests.world.waiting import wait_until


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        made = Template(Path(name))
        yield made
        made.close()


def extern(template: Template, **more: Any) -> dict[str, Any]:
    spec = template.spec(step=STEP_EXTERN, tasks=[], programs=[], is_batch=False, **more)
    return {**spec, "script": b"", "name": f"{spec['job']}.extern"}


def test_it_lasts_until_it_is_told_to_end(template: Template) -> None:
    """SIGKILL to the step reaches its processes; the step is there until its job ends."""
    step = template.start(extern(template))
    until_started(step)
    step.tell(do="signal", number=9, scope="all")
    step.tell(do="pids", tag=1)
    assert step.hear() == {"did": "pids", "tag": 1, "tasks": {}, "all": []}
    step.tell(do="terminate", why="", wait_s=30.0)
    end = step.end()
    assert (end["status"], end["error"], end["ntasks"]) == (0, "", 0)
    assert end["flags"] & END_CLEAN


def test_its_supervisor_is_small(template: Template) -> None:
    """12 MiB, with pages that it shares with the template counted in full."""
    step = template.start(extern(template))
    until_started(step)
    wait_until(lambda: "pid" in step_record.read(step.path), "record of the process")
    pid = step_record.read(step.path)["pid"]["pid"]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 12 << 20
    step.tell(do="terminate", why="", wait_s=0.0)
    step.end()


# Processes from outside -------------------------------------------------------------------------


def adopted(step: Supervised, pid: int, start: int) -> str:
    step.tell(do="adopt", tag=2, pid=pid, start=start)
    said = step.hear()
    assert (said["did"], said["tag"]) == ("adopt", 2)
    return str(said["problem"])


@pytest.fixture
def login() -> Iterator[subprocess.Popen[bytes]]:
    """A shell as of a login, whose children have SSH_CONNECTION."""
    words = [
        "sh",
        "-c",
        "SSH_CONNECTION='::1 1 ::1 2 '$$ setsid sh -c 'sleep 301 & sleep 302' & wait",
    ]
    with subprocess.Popen(words, start_new_session=True) as process:
        wait_until(lambda: len(descendants(process.pid)) >= 3, "children")
        yield process
        process.kill()


def test_processes_from_outside_end_with_it(
    template: Template, login: subprocess.Popen[bytes]
) -> None:
    """Also those that have left their session, without control groups; and their time counts."""
    step = template.start(extern(template))
    until_started(step)
    assert adopted(step, login.pid, step_record.start_ticks(login.pid)) == ""
    below = descendants(login.pid)
    step.tell(do="pids", tag=3)
    assert set(step.hear()["all"]) == {login.pid, *below}
    login.kill()
    login.wait()
    step.tell(do="pids", tag=4)
    assert set(step.hear()["all"]) == set(below)
    step.tell(do="terminate", why="", wait_s=0.0)
    end = step.end()
    assert end["flags"] & END_CLEAN
    assert end["usage"][0][1]["rss_kib"] > 0
    assert not any(is_running(pid) for pid in below)


def test_another_process_with_the_number_is_left_alone(template: Template) -> None:
    """A process that began at another time than its number is for is not taken in."""
    step = template.start(extern(template))
    until_started(step)
    own = os.getpid()
    assert adopted(step, own, step_record.start_ticks(own) - 1) == "the process has ended"
    step.tell(do="terminate", why="", wait_s=0.0)
    assert step.end()["flags"] & END_CLEAN


def test_what_a_lost_supervisor_had_taken_in_is_known(
    template: Template, login: subprocess.Popen[bytes]
) -> None:
    step = template.start(extern(template))
    until_started(step)
    adopted(step, login.pid, step_record.start_ticks(login.pid))
    below = descendants(login.pid)
    wait_until(lambda: "pid" in step_record.read(step.path), "record of the process")
    os.kill(step_record.read(step.path)["pid"]["pid"], 9)
    records = step_record.read(step.path)
    orphaned = OrphanedStep(records["spec"]["job"], STEP_EXTERN, step.path, records)
    wait_until(lambda: not orphaned.kill(), "end of the rest")
    assert not any(is_running(pid) for pid in (login.pid, *below))
    step.channel.close()
