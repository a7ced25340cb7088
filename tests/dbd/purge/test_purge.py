"""Old records go as slurmdbd.conf says, once their usage is stored, and into files first."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurmdbd_conf import parse_slurmdbd_conf
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.purge import old_rows
from pyslurm_ng.dbd.purge.archive import ArchiveError
from pyslurm_ng.dbd.purge.duty import Purge
from pyslurm_ng.dbd.purge.rules import Policy, Rule, policy_of
from pyslurm_ng.dbd.purge.step_size import MOST_S, StepSize
from pyslurm_ng.model import events as ev
from tests.dbd.accounting_room import (
    SECOND,
    at,
    configured,
    finished,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import roll_up

HOUR = 3600 * SECOND

pytestmark = pytest.mark.usefixtures("in_utc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for archives."""
    folder = tmp_path / "archives"
    folder.mkdir()
    return folder


def ran(first: int, last: int, job_id: int = 1) -> list[ev.AnyEvent]:
    """A job without waiting."""
    return [
        submitted(first, job_id),
        *started(first, job_id, on(1, 4)),
        *finished(last, job_id, 3, 0),
    ]


def policy(words: str, folder: Path | None = None, **more: Any) -> Policy:
    """Return what lines of slurmdbd.conf say."""
    text = f"StorageType=accounting_storage/sqlite\nArchiveDir={folder or '/no/such'}\n{words}"
    made = policy_of(parse_slurmdbd_conf(text))
    return Policy(made.rules, made.directory, made.script, more.get("most_rows", made.most_rows))


def purge(
    database: Database,
    what: Policy,
    clock: int,
    run: Callable[[Callable[[], int]], int] = lambda work: work(),
) -> int:
    """Purge at a time, in microseconds."""
    return duty(database, what, clock, run).purge(what)


def duty(
    database: Database,
    what: Policy,
    clock: int,
    run: Callable[[Callable[[], int]], int] = lambda work: work(),
) -> Purge:
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    return Purge(database, run, Faults(log), what, lambda: clock // SECOND)


def job_ids(database: Database) -> list[object]:
    return [job_id for (job_id,) in rows(database, schema.jobs, "job_id")]


@pytest.mark.parametrize(
    ("amount", "unit", "before"),
    [
        (1, "hours", "2026-11-20T11:00"),
        (30, "hours", "2026-11-19T06:00"),
        (1, "days", "2026-11-19T00:00"),
        (20, "days", "2026-10-31T00:00"),
        (1, "months", "2026-10-01T00:00"),
        (11, "months", "2025-12-01T00:00"),
    ],
)
def test_records_are_old_from_the_begin_of_a_period(amount: int, unit: str, before: str) -> None:
    """So many hours, days or months before the present one began."""
    second = Rule(amount, unit).before_us(at("12:34:56") // SECOND) // SECOND
    assert time.strftime("%Y-%m-%dT%H:%M", time.localtime(second)) == before


def test_nothing_is_old_without_a_time() -> None:
    """Nor with one that reaches before 1970."""
    assert Rule().before_us(at("12:00:00") // SECOND) == 0
    assert Rule(10**12, "months").before_us(at("12:00:00") // SECOND) == 0
    assert Rule(10**12, "hours").before_us(at("12:00:00") // SECOND) == 0


def test_jobs_go_with_their_steps(store: Database) -> None:
    """Those that ended before; open ones and younger ones stay."""
    record(store, *ran(at("12:01:00"), at("12:10:00"), 1))
    record(store, *ran(at("12:02:00"), at("13:10:00"), 2))
    record(store, submitted(at("12:03:00"), 3), *started(at("12:03:00"), 3, on(2)))
    roll_up(store, at("15:00:10"))
    assert purge(store, policy("PurgeJobAfter=2hours"), at("15:05:00")) == 2
    assert job_ids(store) == [2, 3]
    assert len(rows(store, schema.steps, "step_id")) == 2


def test_usage_is_stored_before_its_jobs_go(store: Database) -> None:
    """Without a roll-up, or while an hour has to be done again, nothing that it reads goes."""
    record(store, *ran(at("12:01:00"), at("12:10:00")))
    what = policy("PurgeJobAfter=1hours\nPurgeEventAfter=1hours\nPurgeResvAfter=1hours\n")
    assert purge(store, what, at("15:00:00")) == 0
    roll_up(store, at("15:00:10"))
    record(store, *ran(at("12:20:00"), at("12:30:00"), 2))
    assert purge(store, what, at("15:05:00")) == 0, "a late job changed the hour"
    roll_up(store, at("15:06:00"))
    before = rows(store, schema.association_usage["hour"], "start_us", "tres_id", "allocated_s")
    assert purge(store, what, at("15:07:00")) == 4
    assert job_ids(store) == []
    assert before
    record(store, *ran(at("12:40:00"), at("12:50:00"), 3))
    roll_up(store, at("16:00:10"))
    assert rows(
        store, schema.association_usage["hour"], "start_us", "tres_id", "allocated_s"
    )[: len(before)] == before, "an hour without its records is not done again"  # fmt: skip


def test_each_kind_has_its_own_time(store: Database) -> None:
    """Steps and suspensions may go before their jobs, transactions and events by themselves."""
    record(
        store,
        submitted(at("12:01:00"), 1),
        *started(at("12:01:00"), 1, on(1)),
        ev.JobSuspended(at("12:02:00"), 1, 5),
        ev.JobResumed(at("12:03:00"), 1, 6),
        *finished(at("12:10:00"), 1, 3, 0),
    )
    manage(store, "add account physics")
    roll_up(store, at("15:00:10"))
    now = at("15:05:00")
    assert purge(store, policy("PurgeStepAfter=1hours\n"), now) == 1
    assert rows(store, schema.steps, "step_id") == []
    assert purge(store, policy("PurgeSuspendAfter=1hours\n"), now) == 1
    assert rows(store, schema.suspensions, "start_us") == []
    assert job_ids(store) == [1]
    count = len(rows(store, schema.txn, "id"))
    later = time.time_ns() // 1000 + 2 * HOUR
    assert purge(store, policy("PurgeTXNAfter=1hours\n"), later) == count > 0


def test_instances_go_with_the_events_of_nodes(store: Database, folder: Path) -> None:
    """Those that are over; an archive brings them back."""
    for clock, name in (("12:01:00", "i-1"), ("12:05:00", "i-2")):
        record(store, ev.NodeUpdated(at(clock), (0,), {"instance_id": name}))
    roll_up(store, at("15:00:10"))
    what = policy("PurgeEventAfter=1hours\nArchiveEvents=yes\n", folder)
    assert purge(store, what, at("15:05:00")) == 1
    assert rows(store, schema.node_instances, "instance_id") == [("i-2",)]
    (path,) = folder.iterdir()
    assert duty(store, what, at("15:06:00")).load(str(path)) == 1
    assert sorted(rows(store, schema.node_instances, "instance_id")) == [("i-1",), ("i-2",)]


def test_usage_goes_when_days_and_months_are_added_up(store: Database) -> None:
    """Hours of a day that is not over stay, however old they may be."""
    record(store, *ran(at("12:01:00"), at("12:10:00")))
    roll_up(store, at("15:00:10"))
    what = policy("PurgeUsageAfter=1hours\n")
    assert purge(store, what, at("15:05:00")) == 0
    roll_up(store, at("15:00:10") + 24 * HOUR)
    hours = len(rows(store, schema.association_usage["hour"], "start_us"))
    days = rows(store, schema.association_usage["day"], "allocated_s")
    assert hours
    assert days
    assert purge(store, what, at("15:05:00") + 24 * HOUR) > 0
    with store.read() as connection:
        first = connection.execute(
            sa.select(sa.func.min(schema.cluster_usage["hour"].c.start_us))
        ).scalar()
    assert first == at("00:00:00") + 24 * HOUR
    assert rows(store, schema.association_usage["day"], "allocated_s") == days, "month not over"


def test_scripts_go_when_no_younger_job_has_them(store: Database) -> None:
    """A script is one text for all jobs that have it."""
    script = ev.ScriptStored(at("12:00:30"), "digest", b"#!/bin/sh\n")
    record(store, script, *ran(at("12:01:00"), at("12:10:00"), 1))
    record(store, *ran(at("12:02:00"), at("14:10:00"), 2))
    what = policy("PurgeJobScriptAfter=1hours\n")
    assert rows(store, schema.texts, "hash") == [("digest",)]
    assert purge(store, what, at("15:00:00")) == 0
    assert purge(store, what, at("16:00:00")) == 1
    assert rows(store, schema.texts, "hash") == []
    assert job_ids(store) == [1, 2]


def test_a_transaction_takes_few_rows(store: Database) -> None:
    """So calls that wait come in between."""
    for number in range(1, 8):
        record(store, *ran(at("12:01:00"), at("12:10:00"), number))
    roll_up(store, at("15:00:10"))
    sizes: list[int] = []

    def run(work: Callable[[], int]) -> int:
        sizes.append(work())
        return sizes[-1]

    what = policy("PurgeJobAfter=1hours\n", most_rows=3)
    assert purge(store, what, at("15:05:00"), run) == 14
    assert max(sizes) <= 6
    assert len(sizes) > 4
    assert job_ids(store) == []


def steps_of(jobs: int) -> list[dict[str, int]]:
    return [
        {"job_index": 1000 + number, "step_id": 0, "het_component": -1, "end_us": 5000 + number}
        for number in range(jobs)
    ]


def add(database: Database, table: sa.Table, new: list[dict[str, int]]) -> None:
    """Add rows, and have MariaDB count them."""
    with database.write() as connection:
        connection.execute(table.insert(), new)
    if not database.is_sqlite:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"ANALYZE TABLE {table.name}").all()


def rows_read(connection: sa.Connection) -> int:
    """Return how many rows and entries of indexes MariaDB has looked at; 0 for SQLite."""
    if connection.dialect.name == "sqlite":
        return 0
    counts = sa.text(
        "SHOW SESSION STATUS WHERE Variable_name IN "
        "('Handler_icp_attempts', 'Handler_read_next', 'Handler_read_rnd_next')"
    )
    return sum(int(row[1]) for row in connection.execute(counts))


def test_one_row_is_removed_without_reading_the_others(store: Database) -> None:
    """MariaDB reads the whole table for a choice of one tuple: minutes with millions of steps."""
    steps = steps_of(900)
    key = {name: steps[0][name] for name in ("job_index", "step_id", "het_component")}
    with store.write() as connection:
        connection.execute(schema.steps.insert(), steps)
        before = rows_read(connection)
        assert old_rows.remove(connection, {schema.steps: [key]}) == 1
        read = rows_read(connection) - before
        remaining = connection.execute(
            sa.select(sa.func.count()).select_from(schema.steps)
        ).scalar()
    assert remaining == 899
    assert read < 400


def test_a_few_old_steps_are_found_without_reading_the_others(store: Database) -> None:
    """MariaDB began with all jobs, and sorted their steps: for each transaction of a purge."""
    steps = steps_of(900)
    jobs = [
        {"job_index": step["job_index"], "cluster_id": 1, "end_us": step["end_us"]}
        for step in steps
    ]
    add(store, schema.jobs, jobs)
    add(store, schema.steps, steps)
    with store.write() as connection:
        before = rows_read(connection)
        old = old_rows.find(connection, "step", 1, 9000, 3)[schema.steps]
        read = rows_read(connection) - before
    assert [row["job_index"] for row in old] == [1000, 1001, 1002]
    assert read < 100


def test_old_jobs_are_found_without_reading_open_ones(store: Database) -> None:
    """Many more may wait than are old."""
    jobs = [
        {"job_index": number, "cluster_id": 1, "end_us": max(number - 890, 0)}
        for number in range(1, 900)
    ]
    add(store, schema.jobs, jobs)
    with store.write() as connection:
        before = rows_read(connection)
        old = old_rows.find(connection, "job", 1, 9000, 3)[schema.jobs]
        read = rows_read(connection) - before
    assert [row["job_index"] for row in old] == [891, 892, 893]
    assert read < 100


def test_a_transaction_is_short_however_slow_the_database() -> None:
    """Its size follows from the time of the last one; a fast database is given more rows."""
    assert max(taken_rows(row_s=0.01, empty_s=0.0)[-15:]) * 0.01 <= 1.5 * MOST_S, "a slow one"
    assert max(taken_rows(row_s=0.0001, empty_s=0.0)[-15:]) == 500, "a fast one"
    assert min(taken_rows(row_s=1.0, empty_s=0.0)) > 0, "it goes on all the same"


def test_a_slow_disk_does_not_make_a_purge_endless() -> None:
    """What a transaction costs without rows is no reason to take fewer of them."""
    for empty_s in (0.04, 0.15):
        rows_s = statistics.median(taken_rows(row_s=0.0005, empty_s=empty_s)[-15:]) * 0.0005
        assert rows_s == pytest.approx(max(MOST_S, empty_s), rel=0.2)


def test_a_host_that_stands_still_is_no_slow_disk() -> None:
    """Nor does one such moment let later transactions hold the writing thread for longer."""
    for still in (0, 20):
        taken = taken_rows(row_s=0.0005, empty_s=0.01, still=still)
        assert max(taken[21:]) * 0.0005 <= 1.1 * MOST_S


def taken_rows(*, row_s: float, empty_s: float, still: int = -1) -> list[int]:
    """Return the rows of transactions of which each row, and each transaction, has a cost.

    The host stands still during the transaction `still`.
    """
    now_s = 0.0
    taken: list[int] = []

    def step(most: int) -> int:
        nonlocal now_s
        now_s += empty_s + most * row_s + (10.0 if len(taken) == still else 0.0)
        taken.append(most)
        return most

    size = StepSize(500, lambda: now_s)
    for _ in range(58):
        assert size.measured(step) > 0
    return taken


def test_most_rows_are_those_of_max_purge_limit() -> None:
    """Never more than this program's own."""
    text = "StorageType=accounting_storage/sqlite\nStorageLoc=/x\n"
    assert policy_of(parse_slurmdbd_conf(f"{text}MaxPurgeLimit=7\n")).most_rows == 7
    assert policy_of(parse_slurmdbd_conf(text)).most_rows == 500


ARCHIVED = (
    "PurgeJobAfter=1hours\nArchiveJobs=yes\nPurgeEventAfter=1hours\nArchiveEvents=yes\n"
    "PurgeTXNAfter=1hours\nArchiveTXN=yes\nPurgeJobScriptAfter=1hours\nArchiveJobScript=yes\n"
)
TABLES = (schema.jobs, schema.steps, schema.node_events, schema.txn, schema.texts)


def contents(database: Database) -> list[object]:
    return [rows(database, table, *(column.name for column in table.columns)) for table in TABLES]


def test_what_is_archived_can_be_taken_back(store: Database, folder: Path) -> None:
    """Row for row, once, however often it is loaded."""
    script = ev.ScriptStored(at("12:00:30"), "digest", b"#!/bin/sh\n# \xc3\xa9\n")
    record(store, script, *ran(at("12:01:00"), at("12:10:00"), 1))
    record(store, *ran(at("12:05:00"), at("12:20:00"), 2))
    roll_up(store, at("15:00:10"))
    before = contents(store)
    what = policy(ARCHIVED, folder)
    clock = time.time_ns() // 1000 + 2 * HOUR
    roll_up(store, clock)
    gone = purge(store, what, clock)
    assert gone
    assert job_ids(store) == []
    files = sorted(folder.iterdir())
    assert [path.name.split("_archive")[0] for path in files] == [
        "all_job_script", "all_txn", "demo_job",
    ]  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    room = duty(store, what, clock)
    assert sum(room.load(str(path)) for path in files) == gone
    assert contents(store) == before
    assert sum(room.load(str(path)) for path in files) == 0
    assert contents(store) == before


@pytest.mark.parametrize(
    ("purge_key", "archive_key", "table"),
    [
        ("PurgeEventAfter", "ArchiveEvents", schema.node_events),
        ("PurgeJobAfter", "ArchiveJobs", schema.jobs),
        ("PurgeJobScriptAfter", "ArchiveJobScript", schema.texts),
        ("PurgeJobEnvAfter", "ArchiveJobEnv", schema.texts),
        ("PurgeResvAfter", "ArchiveResvs", schema.reservations),
        ("PurgeStepAfter", "ArchiveSteps", schema.steps),
        ("PurgeSuspendAfter", "ArchiveSuspend", schema.suspensions),
        ("PurgeTXNAfter", "ArchiveTXN", schema.txn),
        ("PurgeUsageAfter", "ArchiveUsage", schema.cluster_usage["hour"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("word", ["yes", "no"])
def test_each_kind_has_its_own_archive(
    database: Database,
    folder: Path,
    purge_key: str,
    archive_key: str,
    table: sa.Table,
    word: str,
) -> None:
    """Its rows go, and are in a file of ArchiveDir if Archive says so; nothing of others goes."""
    store = one_of_each(database)
    roll_up(store, at("15:00:10") + 48 * HOUR)
    keys = [column.name for column in table.primary_key.columns]
    before = rows(store, table, *keys)
    others = [other for other in schema.metadata.sorted_tables if other is not table]
    # A job goes with its steps and script, usage of hours with that of days.
    bound = {
        "PurgeJobAfter": (schema.steps, schema.suspensions, schema.texts),
        "PurgeUsageAfter": tuple(schema.metadata.sorted_tables),
    }
    kept = [
        other
        for other in others
        if other not in bound.get(purge_key, ()) and other.name != "last_ran"
    ]
    untouched = [rows(store, other, *(column.name for column in other.c)) for other in kept]
    what = policy(f"{purge_key}=1hours\n{archive_key}={word}\n", folder)
    assert purge(store, what, time.time_ns() // 1000 + 72 * HOUR) > 0
    gone = set(before) - set(rows(store, table, *keys))
    assert gone
    assert [rows(store, other, *(column.name for column in other.c)) for other in kept] == untouched
    archived = [
        tuple(row[key] for key in keys)
        for path in folder.iterdir()
        for part in map(json.loads, path.read_text().splitlines()[1:])
        if part["table"] == table.name
        for row in part["rows"]
    ]
    assert set(archived) == (gone if word == "yes" else set())


def one_of_each(store: Database) -> Database:
    """Make an old record of each kind."""
    register(store, store_flags=("job_script", "job_env"))
    record(store, configured(at("12:00:00")))
    record(
        store,
        ev.ScriptStored(at("12:00:30"), "digest", b"#!/bin/sh\n"),
        submitted(at("12:01:00"), 1),
        *started(at("12:01:00"), 1, on(1)),
        ev.JobSuspended(at("12:02:00"), 1, 5),
        ev.JobResumed(at("12:03:00"), 1, 6),
        *finished(at("12:10:00"), 1, 3, 0),
    )
    record(store, configured(at("12:20:00") + HOUR))
    manage(store, "add account physics")
    with store.write() as connection:
        of_cluster = {"cluster_id": 1, "start_us": at("12:00:00"), "end_us": at("12:30:00")}
        connection.execute(
            schema.node_events.insert().values(node_name="n1", state="DOWN", **of_cluster)
        )
        connection.execute(schema.reservations.insert().values(name="r", **of_cluster))
        connection.execute(schema.texts.insert().values(hash="env", last_used_us=1, text="A=1"))
        connection.execute(schema.jobs.update().values(environment_hash="env"))
    return store


@pytest.mark.parametrize("word", ["yes", "no"])
def test_archive_commands_can_be_disabled(word: str) -> None:
    """DisableArchiveCommands leaves archives to slurmdbd itself."""
    text = "StorageType=accounting_storage/sqlite\nStorageLoc=/x\n"
    made = policy_of(parse_slurmdbd_conf(f"{text}DisableArchiveCommands={word}\n"))
    assert made.is_for_users == (word == "no")


def test_nothing_goes_that_cannot_be_archived(store: Database, folder: Path) -> None:
    """A folder that is missing, or a script that fails."""
    record(store, *ran(at("12:01:00"), at("12:10:00"), 1))
    roll_up(store, at("15:00:10"))
    with pytest.raises(ArchiveError, match="No such file or directory"):
        purge(store, policy("PurgeJobAfter=1hours\nArchiveJobs=yes\n"), at("15:05:00"))
    assert job_ids(store) == [1]
    script = folder / "archive.sh"
    script.write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(ArchiveError, match="exit 3: no room"):
        purge(store, policy(f"PurgeJobAfter=1hours\nArchiveScript={script}\n"), at("15:05:00"))
    assert job_ids(store) == [1]


def test_archive_script_is_told_what_goes(store: Database, folder: Path) -> None:
    """It archives in place of slurmdbd."""
    record(store, *ran(at("12:01:00"), at("12:10:00"), 1))
    roll_up(store, at("15:00:10"))
    script = folder / "archive.sh"
    script.write_text(f"#!/bin/sh\nenv > {folder}/env\n")
    script.chmod(0o755)
    words = f"PurgeJobAfter=1hours\nArchiveJobs=yes\nArchiveScript={script}\n"
    assert purge(store, policy(words, folder), at("15:05:00")) == 2
    told = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines())
    assert told["SLURM_ARCHIVE_JOBS"] == "1"
    assert told["SLURM_ARCHIVE_STEPS"] == "0"
    assert told["SLURM_ARCHIVE_LAST_JOB"] == str(at("14:00:00") // SECOND)
    assert "SLURM_ARCHIVE_LAST_EVENT" not in told
    assert sorted(os.listdir(folder)) == ["archive.sh", "env"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: this is no JSON"),
        ("[]\n", "line 1: this is no archive of pyslurm-ng"),
        ('{"pyslurm_ng_archive":1,"cluster":"mars"}\n', "cluster mars is not in accounting"),
        ('{"pyslurm_ng_archive":1,"cluster":"demo"}\n{"table":"users","rows":[{"name":"x"}]}\n',
         "line 2: these are no rows of accounting"),
        ('{"pyslurm_ng_archive":1,"cluster":"demo"}\n{"table":"jobs","rows":[{"job_index":"1"}]}\n',
         "line 2: these are no rows of accounting"),
        ('{"pyslurm_ng_archive":1,"cluster":"demo"}\n{"table":"jobs","rows":[{"x;--":1}]}\n',
         "line 2: these are no rows of accounting"),
        ('{"pyslurm_ng_archive":1,"cluster":"demo"}\n{"table":"txn","rows":[{"id":9000,"time_us":5,'
         '"action":"","actor":"","cluster":"","object":"","info":""}]}\nnonsense\n',
         "line 3: this is no JSON"),
        ('{"pyslurm_ng_archive":1,"cluster":"demo"}\n' + "[" * 100_000 + "\n",
         "line 2: this is no JSON"),
    ],
)  # fmt: skip
def test_a_bad_archive_changes_nothing(
    store: Database, folder: Path, text: str, message: str
) -> None:
    """The line is named, and what comes before it is not stored either."""
    path = folder / "archive"
    path.write_text(text)
    before = contents(store)
    with pytest.raises(ArchiveError) as refused:
        duty(store, Policy(), at("12:00:00")).load(str(path))
    assert message in str(refused.value)
    assert contents(store) == before


def test_an_archive_of_another_database_is_refused(store: Database, folder: Path) -> None:
    """Its jobs have numbers that mean other jobs here."""
    record(store, *ran(at("12:01:00"), at("12:10:00"), 1))
    roll_up(store, at("15:00:10"))
    purge(store, policy("PurgeJobAfter=1hours\nArchiveJobs=yes\n", folder), at("15:05:00"))
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace('"job_id":1,', '"job_id":7,'))
    duty(store, Policy(), at("12:00:00")).load(str(path))
    assert job_ids(store) == [7]
    path.write_text(path.read_text().replace('"job_id":7,', '"job_id":8,'))
    with pytest.raises(ArchiveError, match="job 8 has the number of another job"):
        duty(store, Policy(), at("12:00:00")).load(str(path))
    assert job_ids(store) == [7]


def test_a_file_that_a_kill_cut_off_is_loaded_up_to_there(store: Database, folder: Path) -> None:
    """The rows of a line that is not whole were not deleted."""
    record(store, *ran(at("12:01:00"), at("12:10:00"), 1))
    roll_up(store, at("15:00:10"))
    purge(store, policy("PurgeJobAfter=1hours\nArchiveJobs=yes\n", folder), at("15:05:00"))
    (path,) = folder.iterdir()
    lines = path.read_text().splitlines()
    assert [json.loads(line).get("table") for line in lines] == [None, "steps", "jobs"]
    path.write_text("\n".join([*lines[:2], lines[2][:50]]))
    assert duty(store, Policy(), at("12:00:00")).load(str(path)) == 1
    assert job_ids(store) == []
