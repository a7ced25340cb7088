"""RELIABILITY 1: kill -9 of the controller in a stream of submissions loses and doubles nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctld.controller import Controller
from tests.ctld.submitter import Submitter, known_jobs
from tests.world.soak import amount

pytestmark = pytest.mark.daemons
CLIENTS = 3


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(tmp_path, "MaxJobCount=1000000\n")
    yield room
    room.stop()


def one_round(controller: Controller, number: int, promised: dict[int, str], more: int) -> None:
    """Start, submit, kill at a random moment, start again, compare with every promise so far.

    Args:
        more: how many promises each client has before the kill, at least.
    """
    controller.start()
    submitters = [Submitter(controller, f"r{number}c{index}", more) for index in range(CLIENTS)]
    for submitter in submitters:
        submitter.start()
    for submitter in submitters:
        assert submitter.enough.wait(60)
    threading.Event().wait(random.Random(number).random() * 0.05)
    controller.kill()
    for submitter in submitters:
        submitter.join(60)
        reused = promised.keys() & submitter.promised.keys()
        assert not reused, f"job ids given twice: {sorted(reused)[:5]}"
        promised |= submitter.promised
    controller.start()
    known = known_jobs(controller)
    lost = [job_id for job_id, mark in promised.items() if known.get(job_id) != mark]
    assert not lost, f"{len(lost)} of {len(promised)} promises broken: {sorted(lost)[:5]}"
    assert len(set(known.values())) == len(known)
    controller.kill()


@pytest.mark.parametrize(
    ("rounds", "more"), [(2, 14), pytest.param(amount(40, full=200), 34, marks=pytest.mark.soak)]
)
def test_no_promise_is_broken_by_a_kill(controller: Controller, rounds: int, more: int) -> None:
    """Lost 0, ids used twice 0 (Slurm: 1,224 of 2,022 and 6)."""
    promised: dict[int, str] = {}
    for number in range(rounds):
        one_round(controller, number, promised, more)
    assert len(promised) >= CLIENTS * more * rounds


def test_a_request_repeated_after_a_kill_makes_no_second_job(controller: Controller) -> None:
    """RELIABILITY 38b: the client that lost its answer asks again and gets the one id."""
    controller.start()
    request = {
        "request_id": b"0123456789abcdef",
        "request": {"name": "once", "work_dir": "/", "flags": 1},
        "script": b"#!/bin/sh\n",
    }
    first = controller.call("SubmitJob", **request)
    controller.kill()
    controller.start()
    again = controller.call("SubmitJob", **request)
    assert again["job_id"] == first["job_id"]
    assert len(known_jobs(controller)) == 1


def test_scripts_survive_a_kill(controller: Controller) -> None:
    """The content is in the journal before the promise, even if its file is lost."""
    controller.start()
    script = b"#!/bin/sh\necho kept\n"
    job = controller.change(
        "SubmitJob", request={"name": "s", "work_dir": "/", "flags": 1}, script=script
    )
    controller.kill()
    for path in (controller.state / "scripts").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    controller.start()
    reply = controller.call("GetBatchScript", job=str(job["job_id"]))
    assert bytes(reply["script"]) == script
