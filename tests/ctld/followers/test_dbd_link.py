"""The link to slurmdbd: everything arrives once, whatever goes away in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.ctld.followers import dbd_link
from pyslurm_ng.ctld.followers.dbd_link import DbdLink, PastUsage
from pyslurm_ng.ctld.rules.assoc import mirror, unknown_qos
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.dbd import held_queries, schema
from pyslurm_ng.dbd.ingest.frames import NewerRecordError
from pyslurm_ng.dbd.service import Service
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.dbd_messages import (
    AssociationUpdate,
    BatchAck,
    JobRecords,
    JournalBatch,
    ListJobRecords,
    ReadUsage,
    RegisterCluster,
    StoredUsage,
)
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.stream import Call
from pyslurm_ng.wire.stream_client import LinkError, connect_link
from tests.ctld.followers.dbd_sides import (
    Accounting,
    SendingController,
    T,
    identity,
    play,
    until,
)
from tests.dbd.accounting_room import configured, manage, submitted
from tests.model.clusters import FOUR_NODES, cluster_of, conf_of


def test_what_was_written_before_and_after_contact_is_stored(tmp_path: Path) -> None:
    """The backlog first, then each batch as it comes."""

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await controller.write(configured(T))
        for job_id in range(1, 30):
            last = await controller.write(submitted(T, job_id))
        await until(lambda: controller.link.acknowledged == last)
        assert controller.link.backlog == 0
        assert controller.link.is_connected

    assert play(tmp_path, story).job_ids() == list(range(1, 30))


def test_slurmdbd_may_be_away_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """RELIABILITY 48: the journal is the queue; several segments of it, too."""

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await controller.write(configured(T))
        for round_number in range(4):
            for job_id in range(1, 6):
                last = await controller.write(submitted(T, 10 * round_number + job_id))
                if job_id == 2:
                    await accounting.stop()
            await accounting.start()
        await until(lambda: controller.link.acknowledged == last)

    expected = [10 * number + job_id for number in range(4) for job_id in range(1, 6)]
    assert play(tmp_path, story, segment_bytes=4096).job_ids() == expected


def test_a_record_larger_than_a_message_does_not_stop_the_link(tmp_path: Path) -> None:
    """C2: 40 MB of comment in a journal; its end is cut, all else is stored."""

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await controller.write(configured(T))
        await controller.write(submitted(T, 1, comment="x" * (40 << 20)))
        last = await controller.write(submitted(T, 2))
        await until(lambda: controller.link.acknowledged == last)

    accounting = play(tmp_path, story)
    assert accounting.job_ids() == [1, 2]
    with accounting.read() as connection:
        ((error,),) = connection.execute(sa.select(schema.problem_rows.c.error))
        comment = connection.execute(sa.select(schema.jobs.c.comment)).scalars().first()
    assert "longest texts were cut" in error
    assert comment == "x" * 65_536


@pytest.mark.parametrize("code", [2090, 1008])
def test_a_record_that_slurmdbd_refuses_each_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Only this record is missing, and it is listed, whatever the reason in slurmdbd."""
    monkeypatch.setattr(dbd_link, "RECONNECT_S", (0.001,))
    store = Service._journal_batch

    def poisoned(service: Service, request: JournalBatch) -> BatchAck:
        if any(b"poison" in frame.payload for frame in request.frames):
            raise MemoryError if code == 2090 else LengthRefused
        return store(service, request)

    class LengthRefused(Exception):
        pass

    def told(service: Service, call: Call, bug: BaseException) -> None:
        service._post(call.error, code, "no")

    monkeypatch.setattr(Service, "_journal_batch", poisoned)
    monkeypatch.setattr(Service, "_internal", told)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        sequences = [controller.writer.append(encode_batch([configured(T)]))]
        for job_id in range(1, 9):
            event = submitted(T, job_id, comment="poison" if job_id in (3, 4) else "")
            sequences.append(controller.writer.append(encode_batch([event])))
        await until(lambda: controller.writer.durable >= sequences[-1])
        controller.link.wake()
        await until(lambda: controller.link.acknowledged == sequences[-1])
        assert controller.faults.counts["accounting_record"] == 2

    accounting = play(tmp_path, story)
    assert accounting.job_ids() == [1, 2, 5, 6, 7, 8]
    with accounting.read() as connection:
        kept = connection.execute(sa.select(schema.problem_rows.c.error)).scalars().all()
    assert len(kept) == 2
    assert all("refused it again and again" in error for error in kept)


def test_a_slurmdbd_that_refuses_everything_costs_few_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of slurmdbd itself must not empty the journal into nothing."""
    monkeypatch.setattr(dbd_link, "RECONNECT_S", (0.001,))
    store = Service._journal_batch
    refused: list[int] = []

    def broken(service: Service, request: JournalBatch) -> BatchAck:
        if any(frame.payload != b"\x90" for frame in request.frames) and len(refused) < 100:
            refused.append(request.frames[0].sequence)
            raise MemoryError
        return store(service, request)

    monkeypatch.setattr(Service, "_journal_batch", broken)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        for job_id in range(1, 31):
            last = await controller.write(submitted(T, job_id))
        await until(lambda: controller.link.acknowledged == last)

    assert play(tmp_path, story).job_ids() == list(range(11, 31))


def test_an_older_slurmdbd_costs_no_record_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY 47: records wait, however often they are refused, until slurmdbd is upgraded."""
    monkeypatch.setattr(dbd_link, "RECONNECT_S", (0.001,))
    store = Service._journal_batch
    refused: list[int] = []
    told: list[str] = []
    monkeypatch.setattr(DaemonLog, "error", lambda _, text: told.append(text))

    def older(service: Service, request: JournalBatch) -> BatchAck:
        if len(refused) < 30:
            refused.append(request.frames[0].sequence)
            raise NewerRecordError("slurmctld is newer. Update slurmdbd")
        return store(service, request)

    monkeypatch.setattr(Service, "_journal_batch", older)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        for job_id in range(1, 5):
            last = await controller.write(submitted(T, job_id))
        await until(lambda: controller.link.acknowledged == last)
        assert "accounting_record" not in controller.faults.counts
        assert [line for line in told if line.startswith("slurmdbd: ")] == [
            "slurmdbd: slurmctld is newer. Update slurmdbd"
        ]

    assert play(tmp_path, story).job_ids() == [1, 2, 3, 4]
    assert len(refused) == 30


def test_an_unexpected_fault_in_the_link_costs_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower goes on, and sdiag counts the fault."""
    monkeypatch.setattr(dbd_link, "RECONNECT_S", (0.001,))
    deliver, failures = DbdLink._deliver, [ValueError("one"), KeyError("two")]

    async def failing(link: DbdLink, *arguments: Any) -> None:
        if failures:
            raise failures.pop()
        await deliver(link, *arguments)

    monkeypatch.setattr(DbdLink, "_deliver", failing)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        def refuse(update: AssociationUpdate) -> None:
            raise RuntimeError("three")

        controller.link._on_update = refuse
        last = await controller.write(configured(T), submitted(T, 1))
        await until(lambda: controller.link.acknowledged == last)
        await until(lambda: "associations" in controller.faults.counts)
        assert controller.faults.counts["accounting"] == 2

    assert play(tmp_path, story).job_ids() == [1]


def test_a_query_sees_what_is_on_the_controllers_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacct knows a job at once, though the link rests: clients take an unknown job for a lost one.

    The link would rest for an hour here; each of several queries in a row cuts it short.
    """
    monkeypatch.setattr(dbd_link, "REST_S", (3600.0, 3600.0))
    monkeypatch.setattr(held_queries, "WAIT_S", 600.0)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        last = await controller.write(configured(T))
        await until(lambda: controller.link.acknowledged == last)
        link = await connect_link(identity("user"), "slurmdbd", path=accounting.path)
        for job_id in (1, 2, 3):
            await controller.write(submitted(T, job_id))
            query = ListJobRecords(["job_id"], clusters=["demo"])
            answers = await asyncio.gather(*(link.request(query, 60) for _ in range(3)))
            assert not any(answer.is_behind for answer in answers)  # type: ignore[attr-defined]
            assert accounting.job_ids() == list(range(1, job_id + 1))
        link.close()

    play(tmp_path, story)


def test_a_query_does_not_wait_for_a_controller_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that has ended keeps no query back; the answer says what it may lack."""
    monkeypatch.setattr(held_queries, "WAIT_S", 600.0)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        last = await controller.write(configured(T))
        await until(lambda: controller.link.acknowledged == last)
        link = await connect_link(identity("user"), "slurmdbd", path=accounting.path)
        calls = accounting._service._association_calls
        await until(lambda: bool(controller.updates and calls._waiting))
        controller.task.cancel()
        await until(lambda: not calls._waiting)
        answer = await link.request(ListJobRecords(["job_id"], clusters=["demo"]), 60)
        assert isinstance(answer, JobRecords) and answer.is_behind
        link.close()

    play(tmp_path, story)


def test_associations_come_at_once_and_when_they_change(tmp_path: Path) -> None:
    """The first contact brings everything, a change only itself, and only once."""

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await until(lambda: bool(controller.updates))
        assert controller.updates[0].is_full
        loop = asyncio.get_running_loop()
        for line in ("add account chem", "add user bob account=chem"):
            await loop.run_in_executor(None, manage, accounting.database, line)
            # Changes made beside the daemon are not announced; the daemon's own are.
            accounting._service._association_calls.tell_all()
            known = len(controller.updates)
            await until(lambda known=known: len(controller.updates) > known)  # type: ignore[misc]
        assert not controller.updates[1].is_full
        assert [association.account for association in controller.updates[1].associations] == [
            "chem"
        ]
        assert [association.user for association in controller.updates[2].associations] == ["bob"]
        assert [user.name for user in controller.updates[2].users] == ["bob"]

    play(tmp_path, story)


def test_a_repeated_snapshot_makes_no_events(tmp_path: Path) -> None:
    """A restarted controller gets everything again. Its journal must not grow because of it."""
    cluster = Cluster()

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await until(lambda: bool(controller.updates))

    accounting = play(tmp_path, story)
    for line in ("add account chem", "add user bob account=chem", "add qos high"):
        manage(accounting.database, line)
    from pyslurm_ng.dbd.updates import association_update

    def snapshot(version: int = 0, store: str = "") -> AssociationUpdate:
        with accounting.read() as connection:
            update = association_update(connection, "demo", store, version)
        assert update is not None
        return update

    full = snapshot()
    events = mirror(cluster, full, T)
    assert [type(event) for event in events] == [ev.QosChanged, ev.AssocChanged]
    apply_all(cluster, events)
    assert {assoc.user for assoc in cluster.assocs.values()} == {"", "root", "bob"}
    assert mirror(cluster, full, T) == []
    manage(accounting.database, "delete user bob")
    manage(accounting.database, "delete qos high")
    apply_all(cluster, mirror(cluster, snapshot(full.version, full.store_id), T))
    assert {assoc.user for assoc in cluster.assocs.values()} == {"", "root"}
    assert list(cluster.qos) == ["normal"]
    # The same by a full snapshot: what is not named is gone.
    apply_all(cluster, mirror(cluster, full, T))
    assert "high" in cluster.qos
    apply_all(cluster, mirror(cluster, snapshot(), T))
    assert "high" not in cluster.qos
    assert "bob" not in cluster.users


def test_users_may_not_send_journal_batches(tmp_path: Path) -> None:
    """RELIABILITY 57: only a controller writes the books."""

    async def story(accounting: Accounting, controller: SendingController) -> None:
        key = identity("user")
        user = Identity(key.authenticator, key.signer, Peer(1001, 1001, 0, "user", "l", "l", "own"))
        link = await connect_link(user, "slurmdbd", path=accounting.path)
        with pytest.raises(LinkError, match="permission denied"):
            await link.request(JournalBatch("demo", "journal-1", 0, []), 5)
        with pytest.raises(LinkError, match="permission denied"):
            await link.request(RegisterCluster("demo", "evil", 1, "other"), 5)
        link.close()

    play(tmp_path, story)


def test_a_controller_with_new_state_asks_once_what_was_used(tmp_path: Path) -> None:
    """When it knows the associations, and not again at the next contact."""
    answers: list[StoredUsage] = []
    known: list[int] = []

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await until(lambda: bool(answers))
        known.append(len(controller.updates))
        await accounting.stop()
        await accounting.start()
        last = await controller.write(configured(T))
        await until(lambda: controller.link.acknowledged == last)

    def question() -> ReadUsage:
        return ReadUsage("demo", 0, T, 3600)

    play(tmp_path, story, past=PastUsage(question, answers.append))
    assert [stored.owners for stored in answers] == [[]]
    assert known == [1]


def test_a_partition_with_an_unknown_qos_is_named() -> None:
    """Slurm does not start then; here a start must not depend on slurmdbd."""
    cluster = cluster_of(conf_of(FOUR_NODES + "PartitionName=odd Nodes=ALL QOS=nosuch\n"))
    assert unknown_qos(cluster) == [
        "Partition odd has an invalid qos (nosuch): no limits of it hold"
    ]
