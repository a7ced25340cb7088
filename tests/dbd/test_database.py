"""The store opens, upgrades, refuses what is newer, and writes all or nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import (
    Database,
    NewerStoreError,
    is_retryable,
    sqlite_url,
    with_retries,
)
from pyslurm_ng.dbd.migrations import (
    LATEST,
    m0001_initial,
    m0004_resized_jobs,
    m0007_usage,
    m0012_window_index,
)
from tests.dbd.accounting_room import rows


def test_opening_again_changes_nothing(database: Database) -> None:
    """A restart must not seed twice."""
    before = rows(database, schema.tres, "id", "name"), rows(database, schema.store, "value")
    database.open()
    assert (rows(database, schema.tres, "id", "name"), rows(database, schema.store, "value")) == (
        before
    )
    assert len(before[0]) == len(schema.FIXED_TRES)


def test_a_newer_store_is_refused_untouched(database: Database) -> None:
    """RELIABILITY 51: a downgrade would lose what the newer program wrote."""
    store = schema.store
    with database.write() as connection:
        connection.execute(
            store.update().where(store.c.name == "schema_version").values(value=str(LATEST + 1))
        )
    with pytest.raises(NewerStoreError, match=f"schema {LATEST + 1}"):
        database.open()


def test_a_migration_killed_at_any_statement_can_be_repeated(tmp_path: Path) -> None:
    """MySQL commits each DDL statement; so after any number of statements it must go on.

    RELIABILITY 51.
    """
    killed_after = 0
    while True:
        database = Database(sqlite_url(f"{tmp_path}/{killed_after}.sqlite"))
        steps_left = killed_after
        done = True

        def count(*_: object) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left < 0:
                raise KeyboardInterrupt

        with database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        ) as connection:
            sa.event.listen(database.engine, "before_cursor_execute", count)
            try:
                m0001_initial.upgrade(connection)
            except KeyboardInterrupt:
                done = False
            sa.event.remove(database.engine, "before_cursor_execute", count)
        database.open()
        assert len(rows(database, schema.tres, "id")) == len(schema.FIXED_TRES)
        assert rows(database, schema.qos, "name") == [("normal",)]
        database.close()
        if done:
            break
        killed_after += 7
    assert killed_after > 21


@pytest.mark.parametrize("steps", range(8))
def test_an_older_store_may_have_several_records_of_a_run(
    sqlite_database: Database, steps: int
) -> None:
    """Up to version 3 a key allowed only one.

    What was stored stays, even if the change is killed half way.
    """
    old = schema.jobs.to_metadata(sa.MetaData())
    old.indexes.clear()
    key = sa.UniqueConstraint("cluster_id", "job_id", "submit_us", "attempt", name="uq_job")
    old.append_constraint(key)
    row = dict.fromkeys(("cluster_id", "job_id", "submit_us", "start_us"), 7)
    with sqlite_database.write() as connection:
        schema.jobs.drop(connection)
        old.create(connection)
        connection.execute(old.insert().values(row | {"job_index": 1}))
        version = schema.store.update().where(schema.store.c.name == "schema_version")
        connection.execute(version.values(value="3"))
    steps_left = 2 * steps

    def count(*_: object) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left < 0:
            raise KeyboardInterrupt

    engine = sqlite_database.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as autocommit:
        sa.event.listen(engine, "before_cursor_execute", count)
        with contextlib.suppress(KeyboardInterrupt):
            m0004_resized_jobs.upgrade(autocommit)
        sa.event.remove(engine, "before_cursor_execute", count)
    sqlite_database.open()
    with sqlite_database.write() as connection:
        connection.execute(schema.jobs.insert().values(row | {"job_index": 2}))
    assert rows(sqlite_database, schema.jobs, "job_index", "start_us") == [(1, 7), (2, 7)]
    names = {index["name"] for index in sa.inspect(engine).get_indexes("jobs")}
    assert names == INDEXES


INDEXES = {str(index.name) for index in schema.jobs.indexes} | {"ix_jobs_span_class"}
"""Of jobs; the last one is of a column that only the database knows."""


def test_an_older_store_gets_the_new_columns(database: Database) -> None:
    """What a partition's jobs ask for by default was not kept by version 1."""
    table = schema.cluster_partitions
    with database.write() as connection:
        for name in ("def_mem_per_cpu_mib", "def_mem_per_node_mib", "def_mem_per_gpu_mib"):
            connection.exec_driver_sql(f"ALTER TABLE {table.name} DROP COLUMN {name}")
        version = schema.store.update().where(schema.store.c.name == "schema_version")
        connection.execute(version.values(value="1"))
    database.open()
    with database.write() as connection:
        connection.execute(table.insert().values(cluster_id=1, name="main"))
    assert rows(database, table, "name", "def_mem_per_cpu_mib") == [("main", 0)]


def test_an_older_store_gets_the_index_of_ends_and_begins(database: Database) -> None:
    """Version 10 had one of ends alone; the upgrade may be run again."""
    on_table = "" if database.is_sqlite else " ON jobs"
    with database.write() as connection:
        connection.exec_driver_sql("CREATE INDEX ix_jobs_end ON jobs (cluster_id, end_us)")
        connection.exec_driver_sql(f"DROP INDEX ix_jobs_window{on_table}")
    for _ in range(2):
        with database.write() as connection:
            m0012_window_index.upgrade(connection)
    names = {index["name"] for index in sa.inspect(database.engine).get_indexes("jobs")}
    assert names == INDEXES


@pytest.mark.parametrize("statements", [0, 3, 15, 30, 37, 10_000])
def test_an_older_store_gets_the_tables_of_usage(database: Database, statements: int) -> None:
    """Version 6 kept only how long a job was suspended; a kill on the way changes nothing."""
    new = [
        schema.reservations,
        schema.suspensions,
        schema.last_ran,
        *(t for k in schema.USAGE for t in k.values()),
    ]
    row = {"job_index": 1, "cluster_id": 1, "job_id": 1, "start_us": 10, "end_us": 90}
    with database.write() as connection:
        schema.metadata.drop_all(connection, tables=new)
        for name in ("tres", "threads"):
            connection.exec_driver_sql(f"ALTER TABLE cluster_nodes DROP COLUMN {name}")
        next(
            index for index in schema.node_events.indexes if index.name == "ix_node_events_start"
        ).drop(connection)
        nodes = "INSERT INTO cluster_nodes (cluster_id, node_id, name) VALUES (1, 0, 'n1')"
        connection.exec_driver_sql(nodes)
        connection.execute(schema.jobs.insert().values(row | {"suspended_us": 30}))
        version = schema.store.update().where(schema.store.c.name == "schema_version")
        connection.execute(version.values(value="6"))
    steps_left = statements

    def count(*_: object) -> None:
        nonlocal steps_left
        steps_left -= 1
        if steps_left < 0:
            raise KeyboardInterrupt

    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as autocommit:
        sa.event.listen(database.engine, "before_cursor_execute", count)
        with contextlib.suppress(KeyboardInterrupt):
            m0007_usage.upgrade(autocommit)
        sa.event.remove(database.engine, "before_cursor_execute", count)
    database.open()
    columns = ("job_index", "start_us", "end_us")
    assert rows(database, schema.suspensions, *columns) == [(1, 60, 90)]
    assert rows(database, schema.cluster_nodes, "name", "tres", "threads") == [("n1", "", 0)]
    indexes = {index["name"] for index in sa.inspect(database.engine).get_indexes("node_events")}
    assert "ix_node_events_start" in indexes
    assert all(sa.inspect(database.engine).has_table(table.name) for table in new)


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    """Rows and cursor belong together."""

    def fail_half_way() -> None:
        with database.write() as connection:
            connection.execute(schema.coordinators.insert().values(account="a", user="u"))
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert rows(database, schema.coordinators, "user") == []


def test_upsert_replaces_the_other_columns(database: Database) -> None:
    """The same statement inserts and updates, in both dialects."""
    with database.write() as connection:
        for text in ("one", "two"):
            database.upsert(connection, schema.texts, ("hash",), [{"hash": "h", "text": text}])
    assert rows(database, schema.texts, "hash", "text") == [("h", "two")]


def test_names_differ_by_case(database: Database) -> None:
    """MySQL compares names without case by default; users' names are exact."""
    with database.write() as connection:
        for name in ("Alice", "alice"):
            connection.execute(schema.users.insert().values(name=name))
    assert {"Alice", "alice"} <= {name for (name,) in rows(database, schema.users, "name")}


def test_a_locked_database_is_tried_again_until_stopped(sqlite_database: Database) -> None:
    """RELIABILITY 50: lock waits, full disks and lost servers are waited for; mistakes are not."""
    failures: list[BaseException] = []
    waits: list[int] = []
    error = sa.exc.OperationalError("insert", {}, __import__("sqlite3").OperationalError("locked"))
    answers: list[object] = [error, error, "stored"]

    def action() -> object:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def pause(attempt: int) -> bool:
        waits.append(attempt)
        return True

    assert with_retries(action, pause, failures.append) == "stored"
    assert waits == [1, 2]
    assert len(failures) == 2
    answers[:] = [error]
    with pytest.raises(sa.exc.OperationalError):
        with_retries(action, lambda attempt: False, failures.append)


def test_a_mistake_is_not_tried_again(database: Database) -> None:
    """A missing table stays missing."""
    with pytest.raises(sa.exc.DBAPIError) as caught, database.write() as connection:
        connection.exec_driver_sql("select * from no_such_table")
    assert not is_retryable(caught.value)


def test_the_sqlite_file_is_private(tmp_path: Path) -> None:
    """It holds job names and command lines of all users."""
    path = tmp_path / "private.sqlite"
    database = Database(sqlite_url(str(path)))
    database.open()
    database.close()
    assert path.stat().st_mode & 0o077 == 0


def test_usual_columns_replace_what_was_stored(database: Database) -> None:
    """They are part of the statement, and as true of rows that are there as of new ones."""
    row: dict[str, object] = {
        column.name: schema.default_of(column) for column in schema.steps.columns
    }
    row |= {"job_index": 1, "step_id": 0, "het_component": -1}
    keys = ("job_index", "step_id", "het_component")
    first = row | {"name": "before", "tasks": 7, "kill_uid": 5, "std_out": "file"}
    again = row | {"tasks": 8, "state": "COMPLETED"}
    usual = frozenset(row) - {*keys, "tasks", "state"}
    with database.write() as connection:
        database.upsert(connection, schema.steps, keys, [first])
        database.upsert(connection, schema.steps, keys, [again, again | {"step_id": 1}], usual)
    stored = rows(database, schema.steps, *row)
    assert stored == [tuple(again.values()), tuple((again | {"step_id": 1}).values())]


@pytest.mark.parametrize("count", [1, 9, 64, 65, 200])
def test_rows_of_any_number_are_written(database: Database, count: int) -> None:
    """SQLite takes several rows by one statement; a later row of the same key replaces a former."""
    row: dict[str, object] = {
        column.name: schema.default_of(column) for column in schema.steps.columns
    }
    row |= {"job_index": 1, "het_component": -1, "name": "before"}
    steps = [row | {"step_id": number} for number in range(count)]
    again = [steps[0] | {"name": "after"}]
    with database.write() as connection:
        database.upsert(
            connection, schema.steps, ("job_index", "step_id", "het_component"), steps + again
        )
    stored = rows(database, schema.steps, "step_id", "name")
    assert stored == [(0, "after"), *((number, "before") for number in range(1, count))]
