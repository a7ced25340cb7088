"""What raises about one job in slurmd costs that job: it is reported as failed, others go on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.d.core.actions import RunEpilog, RunProlog, StartBatch
from pyslurm_ng.d.core.node_core import StepEnd
from pyslurm_ng.d.core.orders import obey
from pyslurm_ng.d.core.steps import step_ended
from pyslurm_ng.d.jobs import job_programs, launches as module
from pyslurm_ng.d.jobs.node_actions import NodeActions
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.requests import controller_orders
from pyslurm_ng.d.requests.controller_orders import ControllerOrders
from pyslurm_ng.d.spec.node_setup import Account
from pyslurm_ng.d.spool.spool import Spool
from pyslurm_ng.d.steps.step_runner import StepKey
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire import node_messages as nm
from tests.d.credentials import credential
from tests.world.logs import LineLog


class Runner:
    """Starts no processes: remembers what it was asked to start."""

    def __init__(self) -> None:
        self.started: list[StepKey] = []
        self.released: list[StepKey] = []

    def expect(self, key: StepKey) -> None:
        """A start has been ordered."""

    def release(self, key: StepKey) -> None:
        self.released.append(key)

    def start(self, key: StepKey, path: str, spec: Mapping[str, Any]) -> None:
        self.started.append(key)

    def has(self, key: StepKey) -> bool:
        return key in self.started

    def fork_receiver(self, theirs: socket.socket) -> None:
        """No job here has files that are to be received or removed."""


class KnownAccounts(Accounts):
    """Users who need no look-up."""

    def known(self, credential: nm.JobCredential) -> Account | None:
        return Account((0,))


class UnknownAccounts(Accounts):
    """Users whose look-up raises."""

    def find(self, credential: nm.JobCredential) -> Account:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")


class NoThreads(ThreadPoolExecutor):
    """Threads where a job has taken all that there can be."""

    def submit(self, *words: Any, **named: Any) -> Any:
        raise RuntimeError("can't start new thread")


class Slurmd:
    """The parts of slurmd that obey; sockets, processes and files are the test's."""

    def __init__(self, directory: Path, accounts: Accounts) -> None:
        self.log: Any = LineLog()
        self.runner: Any = Runner()
        self.faults = Faults(self.log)
        setup: Any = SimpleNamespace(node=SimpleNamespace(
            node_name="n1", tree=None, namespaces=None, conf=SimpleNamespace(
                prolog=(), prolog_timeout=1, epilog=(), epilog_timeout=1, kill_wait=30,
                unkillable_step_timeout=60)))  # fmt: skip
        node = LocalNode(setup, Spool(str(directory)), self.log, self.faults)
        unsent: Any = SimpleNamespace(send_soon=lambda: None)
        credentials: Any = SimpleNamespace(
            open=lambda blob: credential(int(blob)), check_order=lambda order, known: None
        )
        self.core: Any = node.core
        self.actions = NodeActions(node, self.runner, accounts, unsent)
        self.orders = ControllerOrders(
            node,
            credentials,
            self.actions,
            administration=SimpleNamespace(),  # type: ignore[arg-type]
            reader=SimpleNamespace(),  # type: ignore[arg-type]
        )


@pytest.fixture(autouse=True)
def _without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "batch_spec", lambda *words: {})
    monkeypatch.setattr(module, "step_spec", lambda *words: {})
    monkeypatch.setattr(module, "_check_user", lambda credential: None)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def made(loop: asyncio.AbstractEventLoop, directory: Path, accounts: Accounts) -> Slurmd:
    """Return a slurmd of the loop."""

    async def make() -> Slurmd:
        return Slurmd(directory, accounts)

    return loop.run_until_complete(make())


@pytest.fixture
def slurmd(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Slurmd:
    return made(loop, tmp_path, KnownAccounts())


def orders(slurmd: Slurmd, *job_ids: int) -> None:
    """Have the controller order the launch of scripts in one message."""
    launches: list[nm.Order] = [
        nm.LaunchBatch(10 + job_id, b"%d" % job_id, b"#!/bin/sh\n") for job_id in job_ids
    ]
    slurmd.orders.take(nm.NodeOrders(1, launches), lambda answer: None)


def started(slurmd: Slurmd) -> list[int]:
    return [job_id for job_id, _, _ in slurmd.runner.started]


def failed(slurmd: Slurmd) -> list[int]:
    return [report.job_id for report in slurmd.core.reports if isinstance(report, nm.LaunchFailed)]


def test_a_launch_that_raises_is_reported_and_the_others_run(
    slurmd: Slurmd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller hears that it failed, so the job is not shown as running."""

    def raising(node: object, known: nm.JobCredential, *rest: object) -> dict[str, object]:
        if known.job_id == 2:
            raise ZeroDivisionError
        return {}

    monkeypatch.setattr(module, "batch_spec", raising)
    orders(slurmd, 1, 2, 3)
    assert started(slurmd) == [1, 3]
    assert failed(slurmd) == [2]
    assert slurmd.runner.released == [(2, STEP_BATCH, 0)]
    assert slurmd.faults.counts == {"start": 1}


def test_an_order_that_the_core_cannot_take_is_refused(
    slurmd: Slurmd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message has orders for many jobs; the node goes on with the next."""
    usual = controller_orders.obey

    def raising(core: Any, order: nm.Order, known: nm.JobCredential | None) -> object:
        if known is not None and known.job_id == 1:
            raise KeyError(1)
        return usual(core, order, known)

    monkeypatch.setattr(controller_orders, "obey", raising)
    orders(slurmd, 1, 2)
    assert started(slurmd) == [2]
    assert failed(slurmd) == [1]
    assert slurmd.faults.counts == {"order": 1}


def test_an_account_that_cannot_be_looked_up_fails_its_job(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """Otherwise the job would wait for an answer that never comes."""
    slurmd = made(loop, tmp_path, UnknownAccounts())

    async def life() -> None:
        orders(slurmd, 1)
        while not failed(slurmd):
            await asyncio.sleep(0)

    loop.run_until_complete(asyncio.wait_for(life(), 30))
    assert failed(slurmd) == [1]


def test_a_prolog_that_cannot_be_run_counts_as_failed(
    slurmd: Slurmd, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs without its prolog, and nothing waits for it for ever."""
    slurmd.core.has_prolog = True
    obey(slurmd.core, nm.LaunchBatch(5, b"1", b"#!/bin/sh\n"), credential(1))
    monkeypatch.setattr(job_programs, "node_settings", lambda *words: 1 // 0)
    loop.run_until_complete(slurmd.actions.programs.prolog(RunProlog(1, 0, credential(1))))
    assert failed(slurmd) == [1]
    assert started(slurmd) == []
    assert slurmd.faults.counts == {"prolog": 1}


def test_an_epilog_that_cannot_be_run_ends_the_job(
    slurmd: Slurmd, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is over; the node is drained as after an epilog that fails."""
    orders(slurmd, 1)
    slurmd.core.has_epilog = True
    step_ended(slurmd.core, 1, 0, STEP_BATCH, StepEnd(0, END_CLEAN, 1, 2))
    obey(slurmd.core, nm.TerminateJob(9, 1, 0, 0), None)
    monkeypatch.setattr(job_programs, "node_settings", lambda *words: 1 // 0)
    loop.run_until_complete(slurmd.actions.programs.epilog(RunEpilog(1, 0, credential(1))))
    assert any(isinstance(report, nm.JobTerminated) for report in slurmd.core.reports)
    assert slurmd.faults.counts == {"epilog": 1}


def test_errors_on_the_loop_are_counted_and_logged_once_a_minute(slurmd: Slurmd) -> None:
    """A timer that raises each second must not fill the log's disk."""
    for _ in range(100):
        slurmd.faults.on_loop(None, {"message": "timer", "exception": ValueError("x")})
    assert slurmd.faults.counts == {"loop": 100}
    assert sum("fault (loop)" in line for line in slurmd.log.lines) == 1


class Call:
    """A request of srun's; keeps the answers."""

    def __init__(self) -> None:
        self.errors: list[tuple[int, str]] = []

    def error(self, code: int, text: str) -> None:
        self.errors.append((code, text))

    def reply(self, answer: object) -> None:
        """Take the answer of a step that runs."""


def started_before(*words: object) -> None:
    raise FileExistsError


def is_clean(slurmd: Slurmd) -> bool:
    """End the job and return whether the node says that nothing of it is left."""
    obey(slurmd.core, nm.TerminateJob(9, 1, 0, 0), None)
    return any(isinstance(report, nm.JobTerminated) for report in slurmd.core.reports)


def test_a_credential_that_is_used_again_keeps_no_job_on_its_node(slurmd: Slurmd) -> None:
    """It is refused and forgotten: a job waits for the end of all that was begun."""
    orders(slurmd, 1)
    request: Any = SimpleNamespace(environment=b"", credential=b"")
    known, call = credential(1, step_id=0), Call()
    answers: Any = call
    slurmd.actions.launches.ask(known, request, answers)
    step_ended(slurmd.core, 1, 0, 0, StepEnd(0, END_CLEAN, 1, 2))
    slurmd.runner.started.clear()
    slurmd.runner.start = started_before
    slurmd.actions.launches.ask(known, request, answers)
    revoked = Errno.ESLURMD_CREDENTIAL_REVOKED
    assert call.errors == [(revoked, "it was started before on this node")]
    step_ended(slurmd.core, 1, 0, STEP_BATCH, StepEnd(0, END_CLEAN, 1, 2))
    assert is_clean(slurmd)


def test_an_old_order_keeps_no_job_on_its_node(slurmd: Slurmd) -> None:
    """The script ran, was reported and is forgotten. Only its file's name is left."""
    slurmd.runner.start = started_before
    orders(slurmd, 1)
    assert is_clean(slurmd)


def test_a_launch_again_of_what_runs_leaves_it_running(slurmd: Slurmd) -> None:
    """A predecessor began it and it was taken up: its end is still to come."""
    orders(slurmd, 1)
    slurmd.runner.start = started_before
    order = nm.LaunchBatch(5, b"1", b"#!/bin/sh\n")
    slurmd.actions.launches.begin(StartBatch(credential(1), order))
    assert STEP_BATCH in slurmd.core.jobs[1].steps
    assert failed(slurmd) == []


def test_a_node_without_a_thread_to_spare_reports_the_job(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """A fork storm has them all: the job is given back, it does not wait for an answer."""
    slurmd = made(loop, tmp_path, UnknownAccounts(NoThreads()))

    async def life() -> None:
        orders(slurmd, 1)

    loop.run_until_complete(life())
    assert failed(slurmd) == [1]
