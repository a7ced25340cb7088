"""RELIABILITY 18: a controller with a long queue and a long journal comes back after kill -9."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.wire.client import Client, SlurmError
from tests.ctld.controller import Controller
from tests.ctld.submitter import known_jobs
from tests.world.soak import amount
from tests.world.waiting import wait_until

pytestmark = pytest.mark.daemons
OUTSTANDING = 256
MOST_MEMORY_KIB = 1_500_000
PATIENCE_S = 600.0
"""A hundred thousand jobs with a million events take minutes on a machine with much else to do."""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    # With MessageTimeout's default commands give up on a loaded machine and ask again, and so on.
    room = Controller(
        tmp_path,
        "MaxJobCount=2000000\nMaxArraySize=1000\nMessageTimeout=100\n",
        patience_s=PATIENCE_S,
    )
    yield room
    room.stop()


def fill(controller: Controller, count: int) -> dict[int, str]:
    """Submit held jobs without pause; return what was promised."""
    client = controller.client()
    marks: dict[int, str] = {}
    promised: dict[int, str] = {}
    sent = 0
    try:
        while len(promised) < count:
            while sent < count and len(marks) < OUTSTANDING:
                marks[begin(client, f"mark {sent}")] = f"mark {sent}"
                sent += 1
            sequence, reply, _ = client.receive(PATIENCE_S)
            promised[int(reply["job_id"])] = marks.pop(sequence)
    finally:
        client.close()
    return promised


def begin(client: Client, mark: str) -> int:
    request = {"name": "j", "comment": mark, "work_dir": "/", "flags": 1}
    fields = {"request_id": os.urandom(16), "request": request, "script": b"#!/bin/sh\ntrue\n"}
    return client.begin("SubmitJob", fields)


def resident_kib(pid: int) -> int:
    """Return what memory a process has at most had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def known_soon(controller: Controller) -> dict[int, str]:
    """Ask until there is an answer, as users do."""
    known: list[dict[int, str]] = []

    def is_answered() -> bool:
        try:
            known.append(known_jobs(controller))
        except SlurmError:
            return False
        return True

    wait_until(is_answered, limit_s=PATIENCE_S)
    return known[-1]


@pytest.mark.parametrize(
    ("jobs", "changes"),
    [(2_000, 10), pytest.param(amount(20_000, full=100_000), 9, marks=pytest.mark.soak)],
)
def test_a_long_queue_is_back_after_kill(controller: Controller, jobs: int, changes: int) -> None:
    """All that was promised is listed as soon as anybody is answered; each job has many records.

    Each change is of all jobs, so that with their submissions the journal has that many events
    more; checkpoints may have shortened it, as they would have at a site.
    """
    controller.start()
    promised = fill(controller, jobs)
    for number in range(changes):
        for first in range(0, jobs, 1000):
            ids = [str(job_id) for job_id in [*promised][first : first + 1000]]
            settings = {"nice": str(number)}
            try:
                controller.change("UpdateJob", jobs=ids, settings=settings)
            except SlurmError as error:
                pytest.fail(error.text)
    controller.kill()
    controller.start()
    assert known_soon(controller) == promised
    assert resident_kib(controller.pid()) < MOST_MEMORY_KIB
