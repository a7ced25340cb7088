"""Which jobs sacct selects."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from pyslurm_ng.dbd import job_parts, queries, schema
from pyslurm_ng.dbd.admin.change import Actor, RefusedError
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.queries import JobListing
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.wire.dbd_messages import JobSelector, ListJobRecords
from tests.dbd.accounting_room import (
    SECOND,
    OpenStore,
    at,
    configured,
    finished,
    on,
    record,
    register,
    started,
    submitted,
)
from tests.world.examples import drawn

T = at("12:00:00")
NOW = at("13:00:00")
ROOT = Actor(0, "root", 3, frozenset())
ALICE = Actor(1001, "alice", 1, frozenset())
BOB = Actor(1002, "bob", 1, frozenset())


def minute(number: int) -> int:
    return T + number * 60 * SECOND


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The jobs of `fill` in SQLite, made once: the tests that use it only read."""
    database = Database(sqlite_url(f"{tmp_path_factory.mktemp('q')}/acct.sqlite"))
    database.open()
    fill(database)
    yield database
    database.close()


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """The jobs of `fill` in either kind of database."""
    return open_store(fill)


def fill(database: Database) -> None:
    """1 ran from minute 10 to 20 on n1, 2 failed at once at 15 on n2, 3 waits, 4 runs on n3-4,
    5 was cancelled at 30 and never ran, array 6: task 0 done at 12, the rest waits."""
    register(database)
    record(database, configured(T))
    record(database, submitted(minute(0), 1), *started(minute(10), 1, on(1)))
    record(database, submitted(minute(5), 2, constraint="ib,gpu"), *started(minute(15), 2, on(2)))
    record(database, *finished(minute(15), 2, 5, 256))
    record(database, *finished(minute(20), 1, 3, 0))
    record(database, submitted(minute(16), 3, time_limit_min=30))
    record(database, submitted(minute(17), 4, ntasks=2), *started(minute(18), 4, on(3), on(4)))
    record(database, submitted(minute(18), 5), ev.JobEnded(minute(30), 5, 4, cancelled_by=0))
    record(database, submitted(minute(2), 6, array_pending=((0, 3, 1),), array_limit=1))
    record(database, ev.ArrayTaskSplit(minute(11), 6, 0, 7), *started(minute(11), 7, on(1)))
    record(database, *finished(minute(12), 7, 3, 0))


def select(
    database: Database, actor: Actor = ROOT, private: bool = False, **fields: object
) -> list[int]:
    """Return the job ids selected, in print order."""
    fields.setdefault("clusters", ["demo"])
    fields.setdefault("columns", ["job_id"])
    request = msgspec.convert(fields, ListJobRecords)
    with database.read() as connection:
        listing = JobListing(connection, request, actor, private, NOW)
        parts = [listing.next_part(connection)]
        while not listing.is_done:
            parts.append(listing.next_part(connection))
    return [row[0] for part in parts for row in project(part.records, (0,))]


def test_both_databases_select_the_same(store: Database, stored: Database) -> None:
    """One statement of each shape; the many values are tried on SQLite alone."""
    for fields in (
        {"states": ["PENDING", "RUNNING", "SUSPENDED", "FAILED"], "end_us": minute(18)},
        {"jobs": [JobSelector(6, 1), JobSelector(2), JobSelector(1, -1, 0)]},
        {"partitions": ["main"], "constraints": ["ib"], "flags": ["Sched"], "nodes_min": 1},
        {"nodes": ["n1"], "time_limit_min": 60, "duplicates": True},
    ):
        assert select(store, **fields) == select(stored, **fields) != []


def test_everything_in_order_of_submission(store: Database) -> None:
    """An array's tasks before what still waits of it."""
    assert select(store) == [1, 7, 6, 2, 3, 4, 5]


def test_a_window_selects_what_was_known_in_it(store: Database) -> None:
    """From eligible to the end; without an end still."""
    assert select(store, start_us=minute(25)) == [6, 3, 4, 5]
    assert select(store, start_us=minute(0), end_us=minute(1)) == [1]


@pytest.mark.parametrize(
    ("state", "start", "end", "job_ids"),
    [
        ("RUNNING", 10, 14, [1, 7]),
        ("RUNNING", 18, 60, [1, 4]),
        ("RUNNING", 60, 60, [4]),
        ("PENDING", 16, 17, [6, 3, 4]),
        ("PENDING", 60, 60, [6, 3]),
        ("COMPLETED", 0, 60, [1, 7]),
        ("COMPLETED", 13, 19, []),
        ("FAILED", 0, 60, [2]),
        ("CANCELLED", 29, 31, [5]),
        ("CANCELLED", 31, 60, []),
        ("TIMEOUT", 0, 60, []),
    ],
)
def test_states_count_during_the_window(
    stored: Database, state: str, start: int, end: int, job_ids: list[int]
) -> None:
    """Running and waiting are periods, the ends are moments."""
    window = {"start_us": minute(start), "end_us": minute(end) + SECOND}
    assert select(stored, states=[state], **window) == job_ids


@pytest.mark.parametrize(
    ("selectors", "job_ids"),
    [
        ([[1]], [1]),
        ([[6]], [7, 6]),
        ([[6, 0]], [7, 6]),
        ([[7]], [7]),
        ([[1], [4]], [1, 4]),
        ([[99]], []),
    ],
)
def test_jobs_by_id(stored: Database, selectors: list[list[int]], job_ids: list[int]) -> None:
    """An array's id names its tasks; a waiting task is in the array's record."""
    assert select(stored, jobs=[JobSelector(*ids) for ids in selectors]) == job_ids


@pytest.mark.parametrize(
    ("fields", "job_ids"),
    [
        ({"nodes": ["n1"]}, [1, 7]),
        ({"nodes": ["n2", "n4"]}, [2, 4]),
        ({"names": ["job3", "job5"]}, [3, 5]),
        ({"partitions": ["gpu"]}, []),
        ({"partitions": ["main"], "names": ["job1"]}, [1]),
        ({"accounts": ["physics"]}, [1, 7, 6, 2, 3, 4, 5]),
        ({"accounts": ["chem"]}, []),
        ({"uids": [1002]}, []),
        ({"gids": [1001], "qos": ["normal"], "names": ["job2"]}, [2]),
        ({"constraints": ["ib"]}, [2]),
        ({"constraints": ["%"]}, []),
        ({"time_limit_min": 30}, [3]),
        ({"time_limit_min": 20, "time_limit_max": 40}, [3]),
        ({"nodes_min": 2}, [4]),
        ({"nodes_min": 1, "nodes_max": 2}, [1, 7, 2, 4]),
        ({"cpus_min": 2}, [4]),
        ({"association_ids": [5], "names": ["job1"]}, [1]),
        ({"flags": ["SchedMain"]}, [1, 7, 2, 4]),
        ({"reasons": ["JobHeldUser"]}, []),
    ],
)
def test_filters_restrict_alone_and_together(
    stored: Database, fields: dict[str, object], job_ids: list[int]
) -> None:
    """Each restricts; together they restrict more."""
    assert select(stored, **fields) == job_ids


def test_former_records_only_with_duplicates(store: Database) -> None:
    """A requeued job is one row unless asked."""
    record(store, ev.JobCompleting(minute(40), 4, 7, 1, 0, 1, (), flags=1 << 10))
    record(store, ev.JobRequeued(minute(40), 4, 1, 0))
    assert select(store, jobs=[JobSelector(4)]) == [4]
    assert select(store, jobs=[JobSelector(4)], duplicates=True) == [4, 4]


def test_a_sluid_selects_one_record(store: Database) -> None:
    """That of a former run, too; no other of the same job."""
    record(store, ev.JobCompleting(minute(40), 4, 7, 1, 0, 1, (), flags=1 << 10))
    record(store, ev.JobRequeued(minute(40), 4, 1, 0))
    request = ListJobRecords(columns=["sluid", "attempt"], clusters=["demo"], duplicates=True,
                             jobs=[JobSelector(4)])  # fmt: skip
    with store.read() as connection:
        part = JobListing(connection, request, ROOT, False, NOW).next_part(connection)
        both = project(part.records, (0, 1))
        assert len(both) == 2
        for sluid, attempt in both:
            selection = msgspec.structs.replace(
                request, jobs=[JobSelector(0, sluid=sluid)], whole_het_job=True
            )
            listing_part = JobListing(connection, selection, ROOT, False, NOW).next_part(connection)
            assert project(listing_part.records, (0, 1)) == [(sluid, attempt)]


def test_private_jobs_are_shown_to_owners_operators_and_coordinators(store: Database) -> None:
    """PrivateData=jobs in slurmdbd.conf."""
    assert select(store, BOB, private=True) == []
    assert len(select(store, ALICE, private=True)) == 7
    assert len(select(store, BOB)) == 7
    coordinator = Actor(1003, "carol", 1, frozenset({"physics"}))
    assert len(select(store, coordinator, private=True)) == 7


def test_only_columns_of_the_tables_may_be_asked_for(store: Database) -> None:
    """Names reach SQL only if they are columns."""
    for column in ("nonsense", "job_id; drop table jobs", "__class__"):
        with pytest.raises(RefusedError):
            select(store, columns=[column])
    with pytest.raises(RefusedError, match="not known to accounting"):
        select(store, clusters=["other"])


def test_steps_come_with_the_position_of_their_job(store: Database) -> None:
    """The command joins them without ids."""
    request = ListJobRecords(
        columns=["job_id", "total_user_cpu_us"],
        step_columns=["name", "state"],
        clusters=["demo"],
        jobs=[JobSelector(2), JobSelector(3), JobSelector(4)],
    )
    with store.read() as connection:
        part = JobListing(connection, request, ROOT, False, NOW).next_part(connection)
    assert project(part.records, (0, 1)) == [(2, 0), (3, 0), (4, 0)]
    assert project(part.step_records, (0, 1, 2)) == [
        (0, "batch", "FAILED"),
        (2, "batch", "RUNNING"),
    ]


@pytest.fixture
def requeued_job(database: Database) -> Database:
    """A store with one job, which waits after its first run until its delay is over."""
    register(database)
    record(database, configured(T))
    record(database, submitted(minute(0), 1), *started(minute(1), 1, on(1)))
    record(
        database,
        ev.JobCompleting(minute(2), 1, 5, 256, 0, 9, ()),
        ev.JobRequeued(minute(2), 1, 1, NOW + 60 * SECOND),
    )
    return database


def test_a_requeued_job_cancelled_before_its_delay_is_over_is_shown(requeued_job: Database) -> None:
    """It ended before it was eligible again; `sacct -j` must still know of it."""
    record(requeued_job, ev.JobEnded(minute(3), 1, 4, cancelled_by=0))
    assert select(requeued_job) == [1]


def test_a_requeued_job_is_shown_before_its_delay_is_over(requeued_job: Database) -> None:
    """By its id and without."""
    assert select(requeued_job) == [1]
    assert select(requeued_job, jobs=[JobSelector(1)]) == [1]
    assert select(requeued_job, states=["PENDING"], start_us=NOW) == []


def test_a_job_never_eligible_is_in_no_window(database: Database) -> None:
    """Cancelled while held or waiting for another: only `sacct -j` shows it, as with Slurm."""
    register(database)
    record(database, configured(T))
    record(
        database,
        submitted(T, 1, eligible_us=0),
        ev.JobEnded(minute(1), 1, 4, cancelled_by=0),
    )
    record(database, submitted(T, 2), ev.JobEnded(minute(1), 2, 4, cancelled_by=0))
    assert select(database, start_us=T, end_us=NOW) == [2]
    assert select(database, end_us=NOW, jobs=[JobSelector(1)]) == [1]


def test_a_job_whose_begin_time_is_to_come_is_shown_by_its_id(database: Database) -> None:
    """Waiting and cancelled; windows have it from its begin time on."""
    register(database)
    waiting = msgspec.structs.replace(submitted(T, 1, eligible_us=0), begin_us=NOW + 9 * SECOND)
    record(database, configured(T), waiting)
    assert select(database, end_us=NOW, jobs=[JobSelector(1)]) == [1]
    assert select(database, start_us=T, end_us=NOW) == []
    assert select(database, start_us=T, end_us=NOW + 10 * SECOND) == [1]
    record(database, ev.JobEnded(minute(1), 1, 4, cancelled_by=0))
    assert select(database, end_us=NOW, jobs=[JobSelector(1)]) == [1]


def test_components_alone_or_with_the_whole_job(database: Database) -> None:
    """A leader's id means all components, another's only that one, unless --whole-hetjob."""
    register(database)
    record(database, configured(T))
    parts = [
        msgspec.structs.replace(submitted(minute(0), 1 + offset), het_job_id=1, het_offset=offset)
        for offset in range(3)
    ]
    record(database, *parts, submitted(minute(0), 9))
    assert select(database, jobs=[JobSelector(1)]) == [1, 2, 3]
    assert select(database, jobs=[JobSelector(2)]) == [2]
    assert select(database, jobs=[JobSelector(1, -1, 2)]) == [3]
    for selector in (JobSelector(2), JobSelector(1, -1, 2)):
        assert select(database, jobs=[selector], whole_het_job=True) == [1, 2, 3]
    assert select(database, jobs=[JobSelector(9)], whole_het_job=True) == [9]
    assert select(database, jobs=[JobSelector(1)], only_named_components=True) == [1]
    assert select(database, jobs=[JobSelector(1, -1, 2)], only_named_components=True) == [3]
    assert select(database, jobs=[JobSelector(9)], only_named_components=True) == [9]


def test_pairs_of_job_and_task_are_not_mixed(store: Database) -> None:
    """Several tasks are looked up at once: `-j 6_0,9_1` means neither 6_1 nor 9_0."""
    record(store, submitted(minute(40), 8, array_pending=((0, 1, 1),)))
    for job_id, task in ((9, 0), (8, 1)):
        record(store, ev.ArrayTaskSplit(minute(41), 8, task, job_id))
    assert select(store, jobs=[JobSelector(6, 0), JobSelector(8, 1)]) == [7, 6, 8]
    assert select(store, jobs=[JobSelector(6, 1), JobSelector(8, 0)]) == [6, 9]


def test_an_answer_has_a_bounded_number_of_jobs(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selected jobs are sorted in memory. The refusal says what to ask for instead."""
    monkeypatch.setattr(queries, "MOST_JOBS", 4)
    with pytest.raises(RefusedError, match=r"More than 4 jobs are selected: .* -S and -E"):
        select(stored, actor=ALICE)
    assert len(select(stored, actor=ALICE, jobs=[JobSelector(1), JobSelector(2)])) == 2
    assert len(select(stored)) > 4


def test_parts_are_of_a_size(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of 5,000 jobs would take gigabytes; the answer is the same in more parts."""
    columns = {"columns": ["job_id", "submit_line"], "step_columns": ["name"]}
    whole = select(store, **columns)
    monkeypatch.setattr(job_parts, "PART_BYTES", 1)
    monkeypatch.setattr(job_parts, "_JOBS_AT_ONCE", 2)
    assert select(store, **columns) == whole
    with store.read() as connection:
        request = ListJobRecords(clusters=["demo"], **columns)
        listing = JobListing(connection, request, ROOT, False, NOW)
        assert len(project(listing.next_part(connection).records, (0,))) <= 2


def test_many_steps_are_read_of_fewer_jobs_at_once(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job's may still be too much; the refusal says how to ask for less."""
    request = ListJobRecords(["job_id"], ["name"], clusters=["demo"])

    def steps() -> bytes:
        with store.read() as connection:
            part = JobListing(connection, request, ROOT, False, NOW).next_part(connection)
        return part.step_records

    before = steps()
    monkeypatch.setattr(job_parts, "_STEPS_AT_ONCE", 0)
    assert steps() == before
    monkeypatch.setattr(job_parts, "_MOST_STEP_BYTES", 0)
    with pytest.raises(RefusedError, match="steps of one job take more than"):
        steps()


def test_jobs_that_follow_each_other_are_read_as_a_range(store: Database) -> None:
    """MariaDB takes thrice as long to look for thousands of numbers; none between is shown."""
    record(store, *[submitted(minute(40), job_id) for job_id in range(1001, 1041)])
    with store.write() as connection:
        at_id = sa.select(schema.jobs.c.job_index).where(schema.jobs.c.job_id.in_([1001, 1005]))
        first, fifth = connection.execute(at_id.order_by(schema.jobs.c.job_index)).scalars()
        connection.execute(schema.steps.update().values(job_index=fifth).where(
            schema.steps.c.job_index == 1))  # fmt: skip
    statements: list[str] = []
    sa.event.listen(
        store.engine,
        "before_cursor_execute",
        lambda _connection, _cursor, text, *_others: statements.append(text),
    )

    def shown(*left_out: int) -> tuple[int, int]:
        del statements[:]
        meant = [number for number in range(1001, 1041) if number not in left_out]
        request = ListJobRecords(
            ["job_id", "total_user_cpu_us"], ["name"], ["demo"], [JobSelector(n) for n in meant]
        )
        with store.read() as connection:
            part = JobListing(connection, request, ROOT, False, NOW).next_part(connection)
        assert [row[0] for row in project(part.records, (0,))] == meant
        steps = len(project(part.step_records, (0,)))
        return steps, sum(f"BETWEEN {first} AND {first + 39}" in text for text in statements)

    assert shown() == (1, 3)
    assert shown(1005, 1011) == (0, 3)
    assert shown(*range(1003, 1019)) == (0, 0)


def test_no_column_is_named_twice(store: Database) -> None:
    """Two hundred times the longest text of each job would be one user's way to all memory."""
    for fields in ({"columns": ["comment"] * 2}, {"columns": [], "step_columns": ["name"] * 2}):
        with pytest.raises(RefusedError, match="A column is named twice"):
            select(store, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"uids": [7]},
        {"uids": [7], "states": ["RUNNING", "FAILED"]},
        {"states": ["PENDING", "FAILED"]},
        {},
    ],
    ids=["own", "own in states", "states", "all"],
)
def test_jobs_of_today_cost_no_walk_through_those_of_the_year(
    sqlite_database: Database, fields: dict[str, object]
) -> None:
    """1.5 million old jobs made each plain `sacct` read the table for 3 seconds."""
    fill(sqlite_database)
    columns = [column.name for column in schema.jobs.columns]
    values = {"job_index": "1000 + n", "job_id": "1000 + n", "submit_us": "n", "uid": "7",
              "eligible_us": "n", "start_us": "n", "end_us": "n + 1", "sluid": "n"}  # fmt: skip
    chosen = ", ".join(values.get(name, f'j."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    with sqlite_database.write() as connection:
        connection.exec_driver_sql(
            "WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 30000) "
            f"INSERT INTO jobs ({names}) SELECT {chosen} FROM k JOIN jobs j ON j.job_id = 2"
        )
    request = msgspec.convert(
        {"clusters": ["demo"], "columns": ["job_id"], "start_us": minute(14), **fields},
        ListJobRecords,
    )
    questions: list[int] = []

    def is_wanted() -> bool:
        questions.append(1)
        return True

    with sqlite_database.read(60.0, is_wanted) as connection:
        listing = JobListing(connection, request, ROOT, False, NOW)
    assert len(listing._indexes) < 7
    assert questions == [], "it took more than 20,000 steps of SQLite's machine"


def test_a_day_long_ago_costs_no_walk_through_the_days_since(sqlite_database: Database) -> None:
    """Jobs are found by class of their span: 22,000 of a day, not the millions since."""
    fill(sqlite_database)
    copy_of_second_job(sqlite_database, 30_000, "{n} + 100000000000000", "{n} + 100000000000001")
    questions: list[int] = []

    def is_wanted() -> bool:
        questions.append(1)
        return True

    fields = {"start_us": minute(14), "end_us": minute(60)}
    request = msgspec.convert(
        {"clusters": ["demo"], "columns": ["job_id"], **fields}, ListJobRecords
    )
    with sqlite_database.read(60.0, is_wanted) as connection:
        listing = JobListing(connection, request, ROOT, False, NOW)
    assert len(listing._indexes) == 6
    assert questions == [], "it took more than 20,000 steps of SQLite's machine"


def copy_of_second_job(database: Database, count: int, came: str, ended: str) -> None:
    """Store many jobs like job 2 that came and ended behind its times."""
    columns = [column.name for column in schema.jobs.columns]
    begin, end = (f"{minute(0)} + {word.format(n='n')}" for word in (came, ended))
    values = {"job_index": "1000 + n", "job_id": "1000 + n", "submit_us": begin,
              "eligible_us": begin, "start_us": begin, "end_us": end, "sluid": "n"}  # fmt: skip
    chosen = ", ".join(values.get(name, f'j."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    with database.write() as connection:
        connection.exec_driver_sql(
            f"WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < {count}) "
            f"INSERT INTO jobs ({names}) SELECT {chosen} FROM k JOIN jobs j ON j.job_id = 2"
        )


HOUR = 3_600_000_000
TIMES = st.sampled_from(
    [0, 1, HOUR, HOUR + 1, 2 * HOUR, 4 * HOUR, 5 * HOUR, 17 * HOUR, 70 * HOUR, 300 * HOUR,
     1024 * HOUR, 1025 * HOUR, 5000 * HOUR]
)  # fmt: skip
SPANS = st.tuples(TIMES, TIMES, st.booleans(), TIMES, st.booleans())


@settings(max_examples=drawn(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=st.lists(SPANS, min_size=1, max_size=12), windows=st.lists(st.tuples(TIMES, TIMES)))
def test_a_window_selects_the_same_by_class_as_without(
    database: Database, spans: list[tuple[int, int, bool, int, bool]],
    windows: list[tuple[int, int]],
) -> None:  # fmt: skip
    """Whatever the spans: short, long, open, eligible after the end of the window."""
    if not known_clusters(database):
        register(database)
        record(database, configured(T))
        record(database, submitted(minute(0), 2))
    with database.write() as connection:
        template = dict(connection.execute(sa.select(schema.jobs)).first()._mapping)  # type: ignore[union-attr]
        connection.execute(schema.jobs.delete().where(schema.jobs.c.job_index > 1000))
        jobs = [
            template | {
                "job_index": 1001 + number, "job_id": 1001 + number, "submit_us": T + submit,
                "eligible_us": T + submit + delay, "attempt": int(is_requeued),
                "end_us": 0 if is_open else T + submit + lasted, "start_us": 0,
            }
            for number, (submit, delay, is_requeued, lasted, is_open) in enumerate(spans)
        ]  # fmt: skip
        connection.execute(schema.jobs.insert(), jobs)
    for first, length in windows:
        start, end = T + first, T + first + length
        expected = {
            job["job_id"]
            for job in jobs
            if (job["eligible_us"] <= end or (job["attempt"] and job["submit_us"] <= end))
            and (not job["end_us"] or job["end_us"] >= start)
        }
        ids = set(select(database, start_us=start, end_us=end)) - {2}
        assert ids == expected


def known_clusters(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(
            sa.select(sa.func.count()).select_from(schema.clusters)
        ).scalar_one()
