"""Logins that slurmd puts into jobs: whose, into which, and what is refused."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.core.node_core import JobHere, NodeCore
from pyslurm_ng.d.requests.logins import Logins
from pyslurm_ng.model.ids import STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm
from tests.d.credentials import credential


class Runner:
    """Notes which step takes in which process."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []

    async def ask(self, key: tuple[int, int, int], order: dict[str, Any]) -> dict[str, str]:
        self.taken.append((key[0], order["pid"]))
        return {"problem": ""}


class Asked:
    """A call that notes its answer."""

    def __init__(self, uid: int, address: str) -> None:
        self.peer = SimpleNamespace(uid=uid)
        self.address = address
        self.answer: Any = None

    def reply(self, answer: nm.LoginAdopted) -> None:
        self.answer = answer

    def error(self, code: int, text: str) -> None:
        self.answer = code


def ask(
    request: nm.AdoptLogin, *jobs: JobHere, uid: int = 0, address: str = "", pin: str = ""
) -> tuple[Any, list[tuple[int, int]]]:
    core = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    core.jobs = {job.job_id: job for job in jobs}
    log = SimpleNamespace(info=lambda text: None, error=lambda text: None)
    node = SimpleNamespace(name="n1", core=core, log=log)
    runner, call = Runner(), Asked(uid, address)
    logins = Logins(cast(Any, node), cast(Any, runner), lambda known: pin)
    asyncio.run(logins.adopt(cast(Any, call), request))
    return call.answer, runner.taken


def job(job_id: int, uid: int, start_us: int = 0, **more: Any) -> JobHere:
    known = msgspec.structs.replace(credential(job_id), uid=uid, start_us=start_us)
    return JobHere(job_id, 0, known, "done", {STEP_EXTERN: 0}, **more)


LOGIN = nm.AdoptLogin(1001, 4_000_000, 5)


def test_the_newest_job_of_the_user_has_it() -> None:
    jobs = (job(1, 1001, 50), job(2, 1001, 30), job(3, 1002, 90))
    assert ask(LOGIN, *jobs) == (nm.LoginAdopted("n1", 2, 1), [(1, 4_000_000)])
    ending = job(4, 1001, 99, terminate_duty=3)
    assert ask(LOGIN, *jobs, ending) == (nm.LoginAdopted("n1", 2, 1), [(1, 4_000_000)])


def test_private_directories_are_named() -> None:
    answer, _ = ask(LOGIN, job(1, 1001), pin="/base/1/.ns")
    assert (answer.job_id, answer.namespace) == (1, "/base/1/.ns")


@pytest.mark.parametrize(
    ("fields", "count"), [({"uid": 1003}, 0), ({"node": "n2"}, 0), ({"picks_newest": False}, 2)]
)
def test_nothing_is_taken_in(fields: dict[str, Any], count: int) -> None:
    """Another user, another node, several jobs that nobody is to choose from."""
    request = msgspec.structs.replace(LOGIN, **fields)
    answer = ask(request, job(1, 1001), job(2, 1001))
    assert answer == (nm.LoginAdopted("n1", count), [])


def test_only_root_of_this_host_asks() -> None:
    denied = (Errno.ESLURM_ACCESS_DENIED, [])
    assert ask(LOGIN, job(1, 1001), uid=1001) == denied
    assert ask(LOGIN, job(1, 1001), address="10.0.0.1") == denied


@pytest.mark.parametrize("which", ["none", "init", "slurmd", "above slurmd"])
def test_the_node_is_in_no_job(which: str) -> None:
    """What is above slurmd would end it with the job."""
    pid = {"none": 0, "init": 1, "slurmd": os.getpid(), "above slurmd": os.getppid()}[which]
    answer, taken = ask(msgspec.structs.replace(LOGIN, pid=pid), job(1, 1001))
    assert (answer.job_id, bool(answer.problem), taken) == (0, True, [])


def test_without_extern_steps_it_is_said() -> None:
    here = job(1, 1001)
    here.steps.clear()
    assert "PrologFlags=Contain" in ask(LOGIN, here)[0].problem
