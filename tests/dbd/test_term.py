"""Two slurmdbds of one database: one serves, and the other takes over when that is silent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema, term
from pyslurm_ng.dbd.database import Database, SupersededError, mysql_url
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import Frame
from pyslurm_ng.dbd.options import BadOptions, load_configuration, parse_options
from pyslurm_ng.dbd.pass_script import printed_password
from pyslurm_ng.dbd.term import Term
from pyslurm_ng.wire.daemon_link import slurmdbd_places
from tests.dbd.accounting_room import JOURNAL, at, configured, register, rows, submitted


@pytest.fixture
def other(database: Database) -> Iterator[Database]:
    """The same database, as the second slurmdbd sees it."""
    second = Database(database.url)
    yield second
    second.close()


def claim(database: Database, host: str = "h1") -> Term:
    """Return a claim that logs nothing."""
    return Term(database, host, lambda text: None)


def test_a_slurmdbd_that_was_replaced_writes_nothing(database: Database, other: Database) -> None:
    """Not even what it was sent before; and no record is taken for one that cannot be stored."""
    register(database)
    first, second = claim(database), claim(other, "h2")
    first.take()
    first.beat()
    second.take()
    frames = [Frame(1, 1, [configured(at("12:00:00")), submitted(at("12:00:01"), 1)])]
    with pytest.raises(SupersededError, match="slurmdbd on h2 serves the accounting database now"):
        ingest(database, 1, JOURNAL, 0, frames)
    with pytest.raises(SupersededError):
        first.beat()
    assert rows(database, schema.jobs, "job_id") == []
    assert rows(database, schema.problem_rows, "id") == []
    assert ingest(other, 1, JOURNAL, 0, frames)[1] == 1
    first.take()
    with pytest.raises(SupersededError, match="slurmdbd on h1"):
        second.beat()


def test_a_backup_serves_when_the_beat_is_still(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: a beat that goes on, or a database that is away, keeps it back."""
    monkeypatch.setattr(term, "BEAT_S", 0.001)
    first, second = claim(database), claim(other)
    first.take()
    looks: list[tuple[str, ...] | None] = []

    def look(own: Term) -> tuple[str, ...] | None:
        if len(looks) < 3:
            first.beat()
        looks.append(None if len(looks) == 3 else seen(own))
        return looks[-1]

    seen = Term._seen
    monkeypatch.setattr(Term, "_seen", look)
    monkeypatch.setattr(term, "STILL_S", 0.0)
    assert asyncio.run(second.await_turn(asyncio.Event()))
    # Three beats, the time without a database, and then twice the same.
    assert len(looks) == 6
    assert looks[4] == looks[5] == looks[2]

    async def stopped() -> bool:
        stop = asyncio.Event()
        stop.set()
        return await second.await_turn(stop)

    assert not asyncio.run(stopped())


def test_the_one_that_serves_hears_of_its_end(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops serving, with a line that names the other."""
    monkeypatch.setattr(term, "BEAT_S", 0.001)
    lines: list[str] = []
    first = Term(database, "h1", lines.append)
    first.take()
    claim(other, "h2").take()
    asyncio.run(asyncio.wait_for(first.keep(), 60))
    assert lines == ["slurmdbd on h2 serves the accounting database now"]


@pytest.mark.parametrize(
    ("host", "backup", "kind", "is_backup", "text"),
    [
        ("localhost", "", "sqlite", False, ""),
        ("localhost", "elsewhere", "mysql", False, ""),
        ("elsewhere", "localhost", "mysql", True, ""),
        ("elsewhere", "there", "mysql", False, "!= elsewhere or there"),
        ("localhost", "elsewhere", "sqlite", False, "needs accounting_storage/mysql"),
    ],
)
def test_the_hosts_of_slurmdbd(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    backup: str,
    kind: str,
    is_backup: bool,
    text: str,
) -> None:
    """DbdHost, DbdBackupHost; DisableRollups and StoragePassScript beside them."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    (tmp_path / "slurm.conf").write_text("ClusterName=demo\nStateSaveLocation=/tmp\n")
    path = tmp_path / "slurmdbd.conf"
    path.write_text(
        f'DbdHost={host}\nDbdBackupHost="{backup}"\nStorageType=accounting_storage/{kind}\n'
        "DisableRollups=yes\nStoragePassScript=/bin/pass\n"
    )
    path.chmod(0o600)
    refused = pytest.raises(BadOptions, match=text) if text else contextlib.nullcontext()
    with refused as caught:
        settings = load_configuration(parse_options([]))
        assert (settings.is_backup, settings.has_backup) == (is_backup, bool(backup))
        assert (settings.rolls_up, settings.pass_script) == (False, "/bin/pass")
    assert caught is None or "slurmdbd.conf" in str(caught.value)


def test_slurmdbd_is_looked_for_on_its_hosts_in_turn() -> None:
    """AccountingStorageHost, then AccountingStorageBackupHost; Unix sockets only of this host."""
    own = [("/run/x/slurmdbd-6819.sock", 0), ("/run/slurm/slurmdbd-6819.sock", 0)]
    pid_file = "/run/x/slurmctld.pid"
    assert slurmdbd_places("far", "", 6819, pid_file) == [("far", 6819)]
    assert slurmdbd_places("far", "localhost", 6819, pid_file) == [
        ("far", 6819),
        *own,
        ("localhost", 6819),
    ]


def test_a_script_prints_the_databases_password(mariadb_socket: str, tmp_path: Path) -> None:
    """StoragePassScript runs for each new connection, so the password may change."""
    password = tmp_path / "password"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ncat {password}\n")
    script.chmod(0o700)
    owner = sa.create_engine(mysql_url("localhost", 0, "root", None, "", mariadb_socket))
    with owner.connect() as connection:
        for statement in ("CREATE OR REPLACE USER scripted IDENTIFIED BY 'one'",
                          "GRANT ALL ON scripted.* TO scripted"):  # fmt: skip
            connection.exec_driver_sql(statement)
    url = mysql_url("localhost", 0, "scripted", None, "scripted", mariadb_socket)
    database = Database(url, str(script))
    password.write_text("one\n")
    database.open()
    database.close()
    with owner.connect() as connection:
        connection.exec_driver_sql("ALTER USER scripted IDENTIFIED BY 'two'")
    with pytest.raises(sa.exc.OperationalError, match="Access denied for user 'scripted'"):
        database.open()
    password.write_text("two")
    database.open()
    database.close()
    with owner.connect() as connection:
        connection.exec_driver_sql("DROP DATABASE scripted")
    owner.dispose()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\nexit 3\n", "exit code 3"),
        ("#!/bin/sh\n", "it prints no password"),
        ("", "Exec format error"),
    ],
)
def test_a_script_without_a_password_is_named(tmp_path: Path, text: str, reason: str) -> None:
    """One line names the script, as for a server that is away."""
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(0o700)
    with pytest.raises(Exception, match=f"StoragePassScript {script}: {reason}"):
        printed_password(str(script))
