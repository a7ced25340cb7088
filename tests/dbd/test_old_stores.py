"""Stores that earlier slurmdbds made are brought up to date, and nothing is lost.

`tools/make_golden_store.py` made the files, run with the code of that time.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, mysql_url, sqlite_url
from pyslurm_ng.dbd.ingest.batches import Frame, ingest
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.model import events as ev
from tests.dbd.accounting_room import (
    JOURNAL,
    at,
    configured,
    finished,
    on,
    register,
    rows,
    started,
    submitted,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "stores"
NEVER_WRITTEN = {9}
"""Numbers that no slurmdbd gave a store."""
VERSIONS = sorted(set(range(1, LATEST + 1)) - NEVER_WRITTEN)
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Upgraded:
    """A store of an earlier version after slurmdbd has opened it, and its rows before and then."""

    version: int
    database: Database
    before: dict[str, Rows]
    after: dict[str, Rows]


KINDS = ("sqlite", "mariadb")
STORES = [(kind, version) for kind in KINDS for version in VERSIONS]


@pytest.fixture(scope="module", params=STORES, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def store_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
             ) -> Iterator[Upgraded]:  # fmt: skip
    """Stores of all versions, one after the other."""
    kind, version = request.param
    text = (GOLDEN / f"{version:02d}.{kind}.sql").read_text()
    if kind == "sqlite":
        path = tmp_path_factory.mktemp("old") / "store.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(text)
        url = sqlite_url(str(path))
    else:
        socket = request.getfixturevalue("mariadb_socket")
        url = mysql_url("localhost", 0, "root", None, f"old_{version}", socket)
        load_into_mariadb(url, text)
    with contextlib.closing(Database(url)) as database:
        before = contents(database)
        database.open()
        yield Upgraded(version, database, before, contents(database))


@pytest.fixture(scope="module")
def fresh_structures(
    mariadb_socket: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[bool, set[str]]:
    """The tables of new stores, by whether it is SQLite."""
    structures = {}
    path = tmp_path_factory.mktemp("new") / "store.sqlite"
    for url in (
        sqlite_url(str(path)), mysql_url("localhost", 0, "root", None, "fresh", mariadb_socket)
    ):  # fmt: skip
        with contextlib.closing(Database(url)) as database:
            database.open()
            structures[database.is_sqlite] = structure(database)
    return structures


def load_into_mariadb(url: sa.URL, text: str) -> None:
    """Make a database from statements."""
    server = sa.create_engine(url.set(database=""), poolclass=sa.NullPool)
    with contextlib.closing(server.raw_connection()) as raw:
        cursor = raw.cursor()
        begin = f"DROP DATABASE IF EXISTS {url.database}", f"CREATE DATABASE {url.database}"
        # The head of each dump has this mode; it was left out here.
        cursor.execute("SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        for statement in (*begin, f"USE {url.database}", *text.split(";\n")):
            if statement.strip():
                cursor.execute(statement)
        raw.commit()


def contents(database: Database) -> dict[str, Rows]:
    """Return all rows of all tables, by table, as the database has them."""
    with database.engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        return {
            name: [
                dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM {name}"))
            ]
            for name in names
            if not name.startswith("sqlite_")
        }


def structure(database: Database) -> set[str]:
    """Return what the tables are as lines, whatever the order of columns and the names of keys.

    Defaults are left out: SQLite adds no column without one.
    """
    inspector = sa.inspect(database.engine)
    lines = set()
    for table in inspector.get_table_names():
        for column in inspector.get_columns(table):
            kind = str(column["type"])
            if database.is_sqlite and kind == "BIGINT":
                kind = "INTEGER"  # the same to SQLite
            lines.add(f"{table}: {column['name']} {kind} null={column['nullable']}")
        primary = inspector.get_pk_constraint(table)["constrained_columns"]
        lines.add(f"{table}: primary key {primary}")
        for key in inspector.get_unique_constraints(table):
            lines.add(f"{table}: unique {sorted(key['column_names'])}")
        for index in inspector.get_indexes(table):
            if not index["unique"]:
                lines.add(f"{table}: index {index['name']} {index['column_names']}")
    return lines


def sorted_rows(table_rows: Rows, columns: set[str]) -> list[list[tuple[str, object]]]:
    return sorted(sorted((c, row[c]) for c in columns) for row in table_rows)


def new_rows(version: int, old: dict[str, Rows]) -> dict[str, set[tuple[object, ...]]]:
    """Return the rows that upgrades make from what is there, by table."""
    made: dict[str, set[tuple[object, ...]]] = {}
    if version < 7:
        made["suspensions"] = {
            (job["job_index"], job["end_us"] - job["suspended_us"], job["end_us"])
            for job in old["jobs"]
        }
    if version < 10:
        made["wckeys"] = {
            (cluster["id"], user["default_wckey"], user["name"], 1)
            for cluster in old["clusters"]
            for user in old["users"]
            if user["default_wckey"] and not user["is_deleted"]
        }
    return made


NEW_COLUMNS = {
    "wckeys": ("cluster_id", "name", "user", "is_default"),
    "suspensions": ("job_index", "start_us", "end_us"),
}


def test_each_version_has_a_golden_store() -> None:
    """A migration without one is not tested: run tools/make_golden_store.py."""
    names = {f"{version:02d}.{kind}.sql" for version in VERSIONS for kind in KINDS}
    assert {path.name for path in GOLDEN.glob("*.sql")} == names


def test_an_old_store_keeps_every_row(store_of: Upgraded) -> None:
    """Each value of each row is what it was, and new columns hold their defaults."""
    old, new = store_of.before, store_of.after
    assert all(len(old_rows) >= 2 for old_rows in old.values())
    made = new_rows(store_of.version, old)
    for name, new_table in new.items():
        if name not in old:
            columns = NEW_COLUMNS.get(name, ())
            assert {tuple(row[c] for c in columns) for row in new_table} == made.get(name, set())
            continue
        old_table = old[name]
        if name == "store":
            number = {"name": "schema_version", "value": str(LATEST)}
            old_table = [number if row["name"] == number["name"] else row for row in old_table]
        known = set(old_table[0])
        assert sorted_rows(new_table, known) == sorted_rows(old_table, known), name
        for column in schema.metadata.tables[name].columns:
            if column.name not in known:
                default = column.default.arg if column.default is not None else None
                assert {row[column.name] for row in new_table} == {default}


def test_an_old_store_becomes_what_a_new_one_is(
    store_of: Upgraded, fresh_structures: dict[bool, set[str]]
) -> None:
    """Otherwise a statement that works in every test fails at a site that has upgraded."""
    fresh = fresh_structures[store_of.database.is_sqlite]
    assert structure(store_of.database) ^ fresh == set()


def test_an_old_store_takes_new_jobs(store_of: Upgraded) -> None:
    """A cluster goes on where it was."""
    database = store_of.database
    register(database)
    with database.read() as connection:
        query = sa.select(schema.clusters.c.id).where(schema.clusters.c.name == "demo")
        cluster_id = connection.execute(query).scalar_one()
    noon = at("12:00:00")
    events: list[ev.AnyEvent] = [
        configured(noon),
        submitted(noon, 7),
        *started(noon, 7, on(1)),
        *finished(noon, 7, 3, 0),
    ]
    ingest(database, cluster_id, JOURNAL, 0, [Frame(1, 1, events)])
    jobs = rows(database, schema.jobs, "cluster_id", "job_id", "state")
    assert (cluster_id, 7, "COMPLETED") in jobs
    assert len(jobs) == 3
