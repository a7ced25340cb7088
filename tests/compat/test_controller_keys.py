"""Effects of keys on slurmctld itself: where it listens and logs, whom it tells what."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SHOW_ALL, STEP_OVERLAP
from pyslurm_ng.ctld.configuration import load_configuration
from pyslurm_ng.ctld.controller_parts import ControllerParts
from pyslurm_ng.ctld.queries.nodes import show_nodes, show_partitions
from pyslurm_ng.ctld.queries.reservations import show_reservations
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.start import (
    Options,
    open_log,
    open_scheduling_log,
    prepare,
    write_pid_file,
)
from pyslurm_ng.d.controllers.connections import Controllers
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.client import Client, SlurmError
from pyslurm_ng.wire.query_messages import (
    ShowNodes,
    ShowPartitions,
    ShowReservations,
)
from tests.compat.node_room import Node
from tests.ctld.controller import Controller
from tests.ctld.rules.steps.step_requests import ask, running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of
from tests.wire.wire_room import Room
from tests.world.callers import ALICE, BOB, ROOT

BEFORE_IT_ANSWERS_S = 6.0


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with Room(tmp_path) as made:
        yield made


# Starting ----------------------------------------------------------------------------------------


def begun(directory: Path, text: str) -> Any:
    """Return what slurmctld knows of its files, with `text` among the lines of slurm.conf."""
    room = Controller(directory, text)
    return load_configuration(str(room.conf_path))


def test_slurmctld_log_file_and_level(tmp_path: Path) -> None:
    """SlurmctldLogFile takes lines up to SlurmctldDebug."""
    for level, words in (("error", "bad"), ("info", "one bad"), ("debug", "one two bad")):
        path = tmp_path / f"{level}.log"
        lines = f"SlurmctldLogFile={path}\nSlurmctldDebug={level}\n"
        log = DaemonLog("slurmctld")
        open_log(log, Options(""), begun(tmp_path, lines))
        log.stderr_level = 0
        log.info("one")
        log.debug("two")
        log.error("bad")
        assert " ".join(line.split()[-1] for line in path.read_text().splitlines()) == words


@pytest.mark.parametrize("level", [0, 1])
def test_slurm_sched_log_level(tmp_path: Path, level: int) -> None:
    """SlurmSchedLogLevel=1 opens SlurmSchedLogFile, 0 leaves it alone."""
    path = tmp_path / "sched.log"
    log = open_scheduling_log(
        begun(tmp_path, f"SlurmSchedLogFile={path}\nSlurmSchedLogLevel={level}\n")
    )
    log.info("sched: one")
    assert path.exists() == bool(level)
    assert not level or path.read_text().endswith("sched: one\n")


def test_slurmctld_pid_file(tmp_path: Path) -> None:
    """SlurmctldPidFile has the daemon's process id. Its socket is in the same folder."""
    path = tmp_path / "run.pid"
    pid_file = write_pid_file(begun(tmp_path, f"SlurmctldPidFile={path}\n"), DaemonLog("slurmctld"))
    assert pid_file is not None
    assert path.read_text() == f"{os.getpid()}\n"
    pid_file.remove()


@pytest.mark.daemons
def test_slurmctld_port(tmp_path: Path) -> None:
    """It listens on SlurmctldPort, at whatever address SlurmctldAddr is reached."""
    controller = Controller(tmp_path, "SlurmctldAddr=192.0.2.1\n")
    try:
        controller.start()
        with socket.create_connection(("127.0.0.1", controller.port), 30) as peer:
            assert peer.getpeername()[1] == controller.port
    finally:
        controller.stop()


# Being reached -----------------------------------------------------------------------------------


def test_slurmctld_addr_is_where_commands_go(room: Room) -> None:
    """SlurmctldAddr, not the hosts of SlurmctldHost; a node's slurmd dials it, too."""
    conf = dict(room.conf, SlurmctldPort=str(room.port), SlurmctldHost="ctl(192.0.2.1)")
    for address, text in (("127.0.0.1", "authentication"), ("127.0.0.2", "Unable to contact")):
        with (
            closing(Client({**conf, "SlurmctldAddr": address}, wait_s=0)) as client,
            pytest.raises(SlurmError, match=text),
        ):
            client.call("Ping", {})


def test_slurmctld_addr_is_where_nodes_go(tmp_path: Path) -> None:
    """A node dials SlurmctldAddr where it is given."""
    for text, host in (("", "localhost"), ("SlurmctldAddr=192.0.2.1", "192.0.2.1")):
        dialled: list[str] = []
        node: Any = Controllers.__new__(Controllers)
        node._node, node._peers = Node(tmp_path, text).setup.node, []
        node._endpoint = SimpleNamespace(
            connect=lambda name, role, address, port, seen=dialled: seen.append(address)
        )
        node._loop = SimpleNamespace(call_later=lambda *words: None)
        node.register = node._beat_later = lambda: None
        node.begin()
        assert dialled == [host]


def test_message_timeout(room: Room) -> None:
    """MessageTimeout: a command waits that long for an answer, and no longer."""
    timers: list[threading.Timer] = []

    def late(call: Any) -> None:
        answer = partial(room.loop.call_soon_threadsafe, call.error, 2017, "late")
        timers.append(threading.Timer(0 if timers else BEFORE_IT_ANSWERS_S, answer))
        timers[-1].start()

    room.server.handler = late
    for text in ("Socket timed out", "late"):
        with (
            closing(Client({**room.conf, "MessageTimeout": "1"}, wait_s=0)) as client,
            pytest.raises(SlurmError, match=text),
        ):
            client.call("Ping", {})
        timers[0].cancel()


# Accounting and users ----------------------------------------------------------------------------


def with_parts(directory: Path, text: str, look: Callable[[ControllerParts], None]) -> None:
    """Build a whole controller that serves nobody, and look at it."""
    configuration = begun(directory, text)
    log = DaemonLog("slurmctld")
    log.stderr_level = 0

    async def live() -> None:
        beginning = prepare(configuration, Options(""), log, "ctl")
        parts = ControllerParts(beginning, configuration, log)
        try:
            look(parts)
        finally:
            parts.close()
            parts.writer.close()
            await asyncio.get_running_loop().run_in_executor(None, parts.journal.close)

    asyncio.run(live())


def test_accounting_storage(tmp_path: Path) -> None:
    """AccountingStorageType turns it on.

    Host says where slurmdbd is, and TRES what it counts. slurmdbd gets them with ClusterName and
    AccountingStoreFlags.
    """
    lines = "AccountingStorageHost=192.0.2.7\nAccountingStorageTRES=gres/gpu\nGresTypes=gpu\n"

    def without(parts: ControllerParts) -> None:
        parts.accounting.connect(parts.configuration.conf)
        assert parts.accounting.link is None

    with_parts(tmp_path, lines, without)

    def connected(parts: ControllerParts) -> None:
        parts.accounting.connect(parts.configuration.conf)
        assert parts.accounting.link is not None
        assert [host for host, port in parts.accounting.link._places if port] == ["192.0.2.7"]
        told = parts.accounting.link._registration
        assert "gres/gpu" in told.tres
        assert told.cluster == "test"
        assert told.store_flags == ["job_env"]

    more = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStoreFlags=job_env\n"
    with_parts(tmp_path, lines + more, connected)


def test_group_update_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GroupUpdateTime: how long what groups a user has is believed; a reconfigure changes it."""
    asked: list[int] = []
    usual = os.getgrouplist

    def counted(name: str, gid: int) -> list[int]:
        asked.append(gid)
        return usual(name, gid)

    monkeypatch.setattr(os, "getgrouplist", counted)
    peer = Peer(os.getuid(), os.getgid(), 1, "user", "", "h", "unix")
    times_us = (0, 50_000_000, 150_000_000)

    def looks(parts: ControllerParts) -> int:
        asked.clear()
        parts.identities._run = lambda work, done: done(work())
        parts.identities.forget()
        for now_us in times_us:
            parts.identities.find(peer, now_us, lambda person: None)
        return len(asked)

    def seen(parts: ControllerParts) -> None:
        assert looks(parts) == 2
        parts.adopt(begun(tmp_path, "GroupUpdateTime=600\n"))
        assert looks(parts) == 1

    with_parts(tmp_path, "GroupUpdateTime=100\n", seen)


# Who sees what -----------------------------------------------------------------------------------


def names(records: bytes) -> list[str]:
    return [row[0] for row in project(records, [0])]


def test_private_nodes_partitions_and_reservations() -> None:
    """PrivateData=nodes, partitions, reservations: users see their own, operators all."""
    text = f"{FOUR_NODES}PartitionName=hers Nodes=n4 AllowGroups=hpc\n"
    cluster = cluster_of(conf_of(text))
    reservation = Reservation("alices", START_US, START_US + 1, (0,), users=("alice",))
    apply(cluster, ev.ReservationCreated(START_US, reservation))

    def seen(word: str, who: Any) -> tuple[int, bool, int]:
        terms = cluster, Soft(START_US), conf_of(f"{text}PrivateData={word}\n")
        nodes = show_nodes(*terms, ShowNodes(), who, START_US)
        partitions = show_partitions(*terms, ShowPartitions(flags=SHOW_ALL), who, START_US)
        reservations = show_reservations(*terms, ShowReservations(), who, START_US)
        records = [listing.records for listing in (nodes, partitions, reservations)]  # type: ignore[union-attr]
        return len(names(records[0])), "hers" in names(records[1]), len(names(records[2]))

    assert seen("jobs", BOB) == (4, True, 1)
    assert seen("nodes", BOB) == (0, True, 1)
    assert seen("partitions", BOB) == (4, False, 1)
    assert seen("reservations", BOB) == (4, True, 0)
    every = "nodes,partitions,reservations"
    assert seen(every, ALICE) == (0, True, 1)
    assert seen(every, ROOT) == (4, True, 1)


def test_owners_of_jobs_find_their_slurmds() -> None:
    """PrivateData=nodes hides nodes, but not where sstat and `scontrol listpids` have to ask.

    RELIABILITY 58. They failed for the owner of a job.
    """
    cluster = cluster_of()
    job = running(cluster, ntasks=4, nodes_min=2, nodes_max=2)
    terms = cluster, Soft(START_US), conf_of(f"{FOUR_NODES}PrivateData=nodes\n")

    def addresses(who: Any, text: str = "", *, addresses: bool = True) -> list[str]:
        request = ShowNodes(text, addresses=addresses)
        reply = show_nodes(*terms, request, who, START_US)
        return [] if isinstance(reply, Reject) else names(reply.records)

    own = [cluster.node(alloc.node_id).spec.name for alloc in job.nodes]
    assert own == ["n3", "n4"]
    assert addresses(ALICE) == addresses(ALICE, "n[3-4]") == own
    assert addresses(ALICE, "n[2-3]") == addresses(ALICE, "n1") == addresses(BOB, "n3") == []
    assert addresses(ALICE, "n3", addresses=False) == addresses(BOB) == []
    assert addresses(ROOT) == ["n1", "n2", "n3", "n4"]


def test_hidden() -> None:
    """Hidden=YES: a partition is listed with --all, and for operators."""
    conf = conf_of(f"{FOUR_NODES}PartitionName=x Nodes=n4 Hidden=YES\n")
    terms = cluster_of(conf), Soft(START_US), conf
    for who, flags, is_seen in ((ALICE, 0, False), (ALICE, SHOW_ALL, True), (ROOT, 0, True)):
        reply = show_partitions(*terms, ShowPartitions(flags=flags), who, START_US)
        assert not isinstance(reply, Reject)
        assert ("x" in names(reply.records)) == is_seen


def test_max_step_count() -> None:
    """MaxStepCount=2: the third step of a job is refused."""
    cluster, few = cluster_of(), conf_of(f"{FOUR_NODES}MaxStepCount=2\n")
    job = running(cluster, ntasks=4)
    for number in range(3):
        outcome = ask(cluster, job, few, ntasks=1, flags=STEP_OVERLAP)
        is_refused = isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_STEP_LIMIT
        assert is_refused == (number == 2)
