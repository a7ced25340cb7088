"""RELIABILITY 45: very many clients look at a long queue, and all of them are answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.kernels.records import project
from tests.ctld.controller import Controller
from tests.world.soak import amount

pytestmark = pytest.mark.daemons
AT_ONCE = 50
HELD = 1


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(tmp_path, "MaxJobCount=1000000\nMaxArraySize=100001\n")
    yield room
    room.stop()


def submit(controller: Controller, count: int) -> None:
    """Queue held jobs, half of them as tasks of one array."""
    client = controller.client()
    request = {"name": "j", "work_dir": "/", "flags": HELD}
    client.change(
        "SubmitJob",
        {"request": {**request, "array": f"0-{count // 2 - 1}"}, "script": b"#!/bin/sh\n"},
    )
    for _ in range(count // 2):
        client.change("SubmitJob", {"request": request, "script": b"#!/bin/sh\n"})
    client.close()


def look(controller: Controller, times: int, seen: list[int], failed: list[str]) -> None:
    """Be a row of squeue processes, one after the other."""
    for _ in range(times):
        try:
            reply = controller.call("ShowJobs", flags=2)
            column = list(reply["fields"]).index("job_id")
            seen.append(len(project(bytes(reply["records"]), [column])))
        except Exception as error:  # noqa: BLE001 - each failure is to be counted
            failed.append(repr(error))


@pytest.mark.parametrize(
    ("jobs", "clients"),
    [(400, 300), pytest.param(20_000, amount(2_000, full=10_000), marks=pytest.mark.soak)],
)
def test_everybody_is_answered(controller: Controller, jobs: int, clients: int) -> None:
    """No client fails, each sees the whole queue, and a submission in between is taken."""
    controller.start()
    submit(controller, jobs)
    seen: list[int] = []
    failed: list[str] = []
    threads = [
        threading.Thread(target=look, args=(controller, clients // AT_ONCE, seen, failed))
        for _ in range(AT_ONCE)
    ]
    for thread in threads:
        thread.start()
    job = controller.change(
        "SubmitJob",
        request={"name": "between", "work_dir": "/", "flags": HELD},
        script=b"#!/bin/sh\n",
    )
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(seen) == clients // AT_ONCE * AT_ONCE
    assert set(seen) <= {jobs // 2 + 1, jobs // 2 + 2}
    assert int(job["job_id"]) == jobs // 2 + 2
