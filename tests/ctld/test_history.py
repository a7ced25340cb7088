"""RELIABILITY 8: a state restored from a backup, or whose newest records are lost, is noticed.

slurmdbd and the nodes have seen more than the state has: ids, attempts and epochs go on behind
theirs, and nothing that is recorded from then on is taken for what they know.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.ctld.rules import restored_state
from pyslurm_ng.dbd import schema
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.dbd_messages import ComparedJob
from pyslurm_ng.wire.node_messages import RunningJob
from tests.ctld.followers.dbd_sides import Accounting, ControllerLife, start_of, until
from tests.dbd.accounting_room import at, configured, submitted

T = at("12:00:00")


def play(directory: Path, story: Callable[[Accounting, Path], Awaitable[None]]) -> Accounting:
    """Run a story of a slurmdbd and lives over one state directory."""
    accounting = Accounting(directory)
    (directory / "state").mkdir()

    async def main() -> None:
        await accounting.start()
        try:
            await asyncio.wait_for(story(accounting, directory / "state"), 120)
        finally:
            await accounting.stop()

    asyncio.run(main())
    return accounting


def states(accounting: Accounting) -> dict[int, str]:
    with accounting.read() as connection:
        query = sa.select(schema.jobs.c.job_id, schema.jobs.c.state, schema.jobs.c.is_last)
        return {row[0]: row[1] for row in connection.execute(query) if row[2]}


def put_back(state: Path) -> None:
    shutil.rmtree(state)
    shutil.copytree(state.with_name("backup"), state)


async def live_and_lose(accounting: Accounting, state: Path) -> int:
    """Live, make a backup, live on, and put the backup back; return the newest epoch."""
    life = ControllerLife(state, accounting)
    assert life.submit(3) == [1, 2, 3]
    life.start(2)
    await life.stored()
    await life.close()
    shutil.copytree(state, state.with_name("backup"))
    life = ControllerLife(state, accounting)
    life.start(1)  # waits in the backup
    life.end(1)
    life.end(2, JobState.FAILED, 256)  # runs in it
    life.start(3)  # waits in it, and runs now
    assert life.submit(3) == [4, 5, 6]
    await life.stored()
    await life.close()
    put_back(state)
    return life.cluster.epoch


def test_a_restored_backup_is_noticed_by_what_slurmdbd_knows(tmp_path: Path) -> None:
    """H9: no id twice, no job again that has ended, every new record stored, one line says it."""

    async def story(accounting: Accounting, state: Path) -> None:
        epoch = await live_and_lose(accounting, state)
        life = ControllerLife(state, accounting)
        await until(life.link.contact.is_set)
        assert life.cluster.epoch > epoch
        assert life.cluster.jobs[1].state == JobState.COMPLETED
        assert life.cluster.jobs[2].state == JobState.FAILED
        assert life.cluster.jobs[2].exit_code == 256
        assert life.cluster.jobs[3].state == JobState.PENDING
        assert life.cluster.jobs[3].attempt == 1  # nodes have seen attempt 0
        (first,) = life.submit(1)
        assert first == 7 + restored_state.MARGIN
        (line,) = [text for text in life.lines if "restored from a backup, or its" in text]
        assert "2 jobs have ended meanwhile" in line
        assert "3 jobs submitted meanwhile are lost" in line
        assert "4-6" in line
        life.start(3)
        life.end(3)
        await life.stored()
        await life.close()
        assert states(accounting) == {
            1: "COMPLETED", 2: "FAILED", 3: "COMPLETED", 4: "CANCELLED", 5: "CANCELLED",
            6: "CANCELLED", first: "PENDING",
        }  # fmt: skip
        # From here on all is as usual.
        life = ControllerLife(state, accounting)
        await until(life.link.contact.is_set)
        assert life.submit(1) == [first + 1]
        await life.stored()
        await life.close()
        assert life.lines == []

    play(tmp_path, story)


def test_a_controller_killed_during_the_check_repeats_it(tmp_path: Path) -> None:
    """slurmctld makes slurmdbd's answer durable before slurmdbd forgets it."""

    async def story(accounting: Accounting, state: Path) -> None:
        await live_and_lose(accounting, state)
        life = ControllerLife(state, accounting)

        async def killed(*_: object) -> None:
            raise asyncio.CancelledError

        life.history.settle = killed  # type: ignore[assignment,method-assign]
        await asyncio.gather(life.task, return_exceptions=True)
        await life.close()
        life = ControllerLife(state, accounting)
        await until(life.link.contact.is_set)
        assert life.cluster.jobs[1].state == JobState.COMPLETED
        assert life.submit(1)[0] > 6
        await life.stored()
        await life.close()

    play(tmp_path, story)


def test_a_past_that_differs_is_noticed_late_by_the_checksum(tmp_path: Path) -> None:
    """slurmdbd was away while the restored state grew beyond what it has stored."""

    async def story(accounting: Accounting, state: Path) -> None:
        await live_and_lose(accounting, state)
        await accounting.stop()
        life = ControllerLife(state, accounting)
        ids = life.submit(1)
        for _ in range(40):
            await asyncio.sleep(0)
            life.writer.record([ev.JobUpdated(T, ids[0], {"comment": "grows"})])
            life.writer.flush()
        await life.close()
        await accounting.start()
        life = ControllerLife(state, accounting)
        await until(life.link.contact.is_set)
        assert any("restored from a backup, or its" in line for line in life.lines)
        await life.stored()
        await life.close()
        with accounting.read() as connection:
            query = sa.select(schema.jobs.c.comment).where(schema.jobs.c.comment == "grows")
            assert connection.execute(query).scalars().all() == ["grows"]

    play(tmp_path, story)


def test_a_lost_newest_segment_is_noticed(tmp_path: Path) -> None:
    """RELIABILITY 5: set aside with `slurmctld -i`, or gone; the ids in it are not given again."""

    async def story(accounting: Accounting, state: Path) -> None:
        life = ControllerLife(state, accounting)
        life.submit(2)
        await life.stored()
        await life.close()
        life = ControllerLife(state, accounting)
        life.submit(2)
        await life.stored()
        await life.close()
        sorted((state / "journal").glob("*.journal"))[-1].write_bytes(b"")
        life = ControllerLife(state, accounting, ignore_errors=True)
        await until(life.link.contact.is_set)
        (job_id,) = life.submit(1)
        assert job_id > 4
        await life.stored()
        await life.close()
        assert states(accounting)[job_id] == "PENDING"
        assert states(accounting)[3] == "CANCELLED"

    play(tmp_path, story)


def test_a_new_state_goes_on_behind_what_slurmdbd_knows(tmp_path: Path) -> None:
    """The state directory is gone, but ids and epochs go on behind those that were used."""

    async def story(accounting: Accounting, state: Path) -> None:
        life = ControllerLife(state, accounting)
        life.submit(5)
        await life.stored()
        await life.close()
        epoch = life.cluster.epoch
        shutil.rmtree(state)
        state.mkdir()
        life = ControllerLife(state, accounting)
        await until(life.link.contact.is_set)
        assert life.submit(1)[0] == 6 + restored_state.MARGIN
        assert life.cluster.epoch > epoch
        await life.stored()
        await life.close()

    play(tmp_path, story)


def test_a_usual_restart_changes_nothing(tmp_path: Path) -> None:
    """It makes no log line and no event, even if slurmdbd is behind or has no checksum."""

    async def story(accounting: Accounting, state: Path) -> None:
        for number in range(4):
            life = ControllerLife(state, accounting)
            await until(life.link.contact.is_set)
            assert life.submit(1) == [number + 1]
            if number != 1:
                await life.stored()
            await life.close()
            assert life.lines == []
            if number == 2:
                with accounting.database.write() as connection:
                    connection.execute(schema.cursors.update().values(checksum=""))

    play(tmp_path, story)


# Rules ------------------------------------------------------------------------------------------


def cluster_of(next_job_id: int, first: int = 1, highest: int = 1000) -> Cluster:
    cluster = Cluster()
    apply_all(cluster, [configured(T), ev.EpochStarted(T, 5, "ctl")])
    cluster.first_job_id, cluster.max_job_id = first, highest
    cluster.next_job_id = next_job_id
    return cluster


@pytest.mark.parametrize(
    ("following", "seen", "is_beyond"),
    [(10, 10, True), (10, 9, False), (10, 400, True), (900, 100, True), (100, 900, False),
     (10, 0, False), (10, 1001, False)],
)  # fmt: skip
def test_ids_are_compared_around_the_highest(following: int, seen: int, is_beyond: bool) -> None:
    """After MaxJobId comes FirstJobId: the shorter way round decides."""
    assert restored_state.is_beyond(cluster_of(following), seen) is is_beyond


def test_ids_are_skipped_around_the_highest() -> None:
    """They stay within what the configuration allows."""
    cluster = cluster_of(9000, first=100, highest=9999)
    apply_all(cluster, restored_state.skip_ids(cluster, 9500, T))
    assert cluster.next_job_id == 100 + (9501 + restored_state.MARGIN - 100) % 9900
    assert restored_state.skip_ids(cluster, 9500, T) == []


def test_attempts_of_pending_jobs_go_on_behind_those_of_nodes() -> None:
    """A node that runs attempt 2 of a job that waits here refuses attempts up to 2."""
    cluster = cluster_of(1)
    apply_all(cluster, [submitted(T, 1), submitted(T, 2)])
    running = [RunningJob(1, 2, []), RunningJob(7, 0, [])]
    apply_all(cluster, restored_state.skip_attempts(cluster, running, T))
    assert (cluster.jobs[1].attempt, cluster.jobs[2].attempt) == (3, 0)
    assert restored_state.skip_attempts(cluster, running, T) == []


def test_a_run_that_slurmdbd_knows_to_be_older_is_given_back() -> None:
    """Requeued and started again in the lost time: this state's run of it is over."""
    cluster = cluster_of(1)
    apply_all(cluster, [submitted(T, 1)])
    apply_all(cluster, start_of(cluster, 1))
    for events in restored_state.settle(cluster, [ComparedJob(1, 3, "RUNNING", 0, T, 0)], T):
        apply_all(cluster, events)
    job = cluster.jobs[1]
    assert (job.state, job.attempt) == (JobState.PENDING, 4)
    assert check(cluster) == []
