"""RELIABILITY 6: the state disk fills up in a stream of submissions, then has room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire.client import SlurmError
from tests.ctld.controller import Controller
from tests.ctld.submitter import known_jobs
from tests.world.waiting import wait_until

pytestmark = [pytest.mark.daemons, pytest.mark.root]
WRITING_TO_FILE = 2019


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    room = Controller(tmp_path)
    command = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(room.state)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield room
    finally:
        room.stop()
        subprocess.run(["umount", "-l", str(room.state)], check=True)


def submit(controller: Controller, number: int) -> int:
    request = {"name": "j", "comment": f"mark {number}", "work_dir": "/", "flags": 1}
    script = b"#!/bin/sh\n# %d\n" % number + b"#" * 1000
    return int(controller.change("SubmitJob", request=request, script=script)["job_id"])


def submit_or_refused(controller: Controller) -> int | None:
    try:
        return submit(controller, 9999)
    except SlurmError:
        return None


def fill(controller: Controller, promised: dict[int, str]) -> SlurmError:
    """Submit until it is refused; return the refusal."""
    for mark in range(10_000):
        try:
            promised[submit(controller, mark)] = f"mark {mark}"
        except SlurmError as error:
            return error
    raise AssertionError("the disk never filled up")


def test_a_full_disk_loses_nothing_and_the_daemon_recovers(controller: Controller) -> None:
    """Commands get exit 1 and the cause.

    No promise is lost, and submissions are accepted again by themselves.
    """
    ballast = controller.state / "ballast"
    controller.start()
    ballast.write_bytes(bytes(60 << 10))
    promised: dict[int, str] = {}
    refusal = fill(controller, promised)
    assert promised
    assert refusal.code == WRITING_TO_FILE
    assert "No space left in StateSaveLocation" in refusal.text
    wait_until(lambda: "No space left in StateSaveLocation" in controller.log())
    # What anybody may repeat as often as he likes must not use up the reserve.
    with pytest.raises(SlurmError, match="No space left in StateSaveLocation"):
        controller.change("UpdateJob", jobs=["1"], settings={"comment": "x" * 4000})
    # Work in progress may still be ended: that needs the reserve, not a free disk.
    first = next(iter(promised))
    answer = controller.change("CancelJobs", filter={"jobs": [str(first)]})
    assert answer["count"] == 1
    assert controller.call("Ping")["role"] == "primary"
    ballast.unlink()
    accepted: list[int] = []

    def is_accepted() -> bool:
        job_id = submit_or_refused(controller)
        accepted.extend([] if job_id is None else [job_id])
        return bool(accepted)

    wait_until(is_accepted, "a submission after there was room again")
    promised[accepted[0]] = "mark 9999"
    wait_until(lambda: "has room again" in controller.log())
    controller.kill()
    controller.start()
    known = known_jobs(controller)
    assert [job_id for job_id, mark in promised.items() if known.get(job_id) != mark] == []
