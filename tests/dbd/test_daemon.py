"""slurmdbd as a process: options, start, bad surroundings, end."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.cli import sacctmgr
from pyslurm_ng.dbd.database import mysql_url
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.dbd.options import BadOptions, load_configuration, parse_options
from tests.dbd.accounting_daemon import AccountingDaemon

pytestmark = pytest.mark.daemons


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AccountingDaemon]:
    started = AccountingDaemon(tmp_path)
    yield started
    started.stop()


@pytest.mark.parametrize("with_conf", [True, False])
def test_it_returns_when_it_answers(daemon: AccountingDaemon, with_conf: bool) -> None:
    """In the background by default; without slurmdbd.conf the embedded store is used.

    Then it listens on slurm.conf's AccountingStoragePort.
    """
    if with_conf:
        daemon.write_dbd_conf()
    started = daemon.run()
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    client = daemon.client()
    assert client.call("Ping", {})["role"] == "accounting"
    client.close()
    name = "acct.sqlite" if with_conf else "slurmdbd.sqlite"
    assert (daemon.path / "state" / name).exists()
    pid = daemon.pid()
    os.kill(pid, signal.SIGTERM)
    daemon.wait_gone(pid)
    assert not (daemon.path / "slurmdbd.pid").exists()
    assert list(daemon.path.glob("*.sock")) == []
    assert "Terminate signal" in (daemon.path / "slurmdbd.log").read_text()


def test_shutdown_by_command(daemon: AccountingDaemon) -> None:
    """sacctmgr shutdown answers, then ends the daemon."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    pid = daemon.pid()
    client = daemon.client()
    client.change("Shutdown", {})
    client.close()
    daemon.wait_gone(pid)


def test_reconfigure_by_command(
    daemon: AccountingDaemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """sacctmgr reconfigure: LogFile and its level are read again without a restart."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    pid, moved = daemon.pid(), daemon.path / "moved.log"
    text = daemon.dbd_conf.read_text().replace("slurmdbd.log", moved.name)
    daemon.dbd_conf.write_text(text)
    storage = "AccountingStorageType=accounting_storage/slurmdbd\n"
    daemon.slurm_conf.write_text(daemon.slurm_conf.read_text() + storage)
    monkeypatch.setenv("SLURM_CONF", str(daemon.slurm_conf))
    assert (sacctmgr.main(["reconfigure"]), capfd.readouterr().err) == (0, "")
    assert "Reconfigure signal (SIGHUP) received" in moved.read_text()
    assert daemon.pid() == pid


def test_reconfigure_takes_up_what_is_private(daemon: AccountingDaemon) -> None:
    """As in Slurm; what needs a restart is named, and is not shown as if it were in use."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    with daemon.dbd_conf.open("a") as file:
        file.write("PrivateData=jobs,users\nPurgeEventAfter=3months\nDefaultQOS=high\n")
    client = daemon.client()
    client.change("Reconfigure", {})
    pairs = dict(client.call("ShowDbdConfig", {})["pairs"])
    assert pairs["PrivateData"] == "jobs,users"
    assert pairs["PurgeEventAfter"] == "3months"
    assert pairs["DefaultQOS"] == "normal"
    log = (daemon.path / "slurmdbd.log").read_text()
    assert "reconfigure: DefaultQOS: a restart is needed for that" in log
    client.close()


def test_a_reconfigure_that_fails_changes_nothing(daemon: AccountingDaemon) -> None:
    """A log that cannot be opened is found last, when all else has been read."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    good = daemon.dbd_conf.read_text()
    broken = good.replace("slurmdbd.log", "none/slurmdbd.log")
    daemon.dbd_conf.write_text(broken + "PrivateData=jobs\nDebugLevel=quiet\n")
    client = daemon.client()
    client.change("Reconfigure", {})
    pairs = dict(client.call("ShowDbdConfig", {})["pairs"])
    assert (pairs["PrivateData"], pairs["LogFile"]) == ("none", f"{daemon.path}/slurmdbd.log")
    daemon.dbd_conf.write_text(good)
    client.change("Reconfigure", {})
    client.close()
    log = (daemon.path / "slurmdbd.log").read_text()
    assert "No such file or directory; the old configuration stays" in log
    assert "Reconfigure signal (SIGHUP) received" in log


def test_a_reconfigure_makes_it_no_nicer(daemon: AccountingDaemon) -> None:
    """-n is about the start; each SIGHUP added to it, until accounting had no turn."""
    daemon.write_dbd_conf()
    assert daemon.run("-n3").returncode == 0
    nice = os.getpriority(os.PRIO_PROCESS, daemon.pid())
    client = daemon.client()
    client.change("Reconfigure", {})
    client.close()
    assert os.getpriority(os.PRIO_PROCESS, daemon.pid()) == nice


def test_daemons_at_other_ports_leave_one_file(daemon: AccountingDaemon) -> None:
    """`pyslurm-ng up` takes ports that are free, others each time, in the same directory."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    pid = daemon.pid()
    client = daemon.client()
    client.change("Shutdown", {})
    client.close()
    daemon.wait_gone(pid)
    assert [file.name for file in daemon.path.rglob("*.replay")] == ["slurmdbd.replay"]


def test_a_second_daemon_is_refused(daemon: AccountingDaemon) -> None:
    """And does not disturb the first."""
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    pid = daemon.pid()
    second = daemon.run("-D")
    assert second.returncode == 1
    assert "fatal: " in second.stderr
    assert os.path.exists(f"/proc/{pid}")
    client = daemon.client()
    client.call("Ping", {})
    client.close()
    assert daemon.pid() == pid


def test_version_and_help_need_nothing(daemon: AccountingDaemon) -> None:
    """They answer without any configuration."""
    daemon.slurm_conf.unlink()
    assert daemon.run("-V").stdout.startswith("slurm 26.11")
    assert "-D" in daemon.run("-h").stdout
    refused = daemon.run("--frob")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (lambda daemon: daemon.write_dbd_conf("Frobnicate=1\n"), "Frobnicate"),
        (lambda daemon: daemon.write_dbd_conf(mode=0o644), "mode is 0644"),
        (lambda daemon: daemon.write_dbd_conf("StorageLoc=/no/such/dir/a\n"), "No such file"),
        (lambda daemon: daemon.write_dbd_conf("PidFile=/proc/x.pid\n"), "Unable to open pidfile"),
        (
            lambda daemon: daemon.write_dbd_conf("PidFile=/no/such/x.pid\n"),
            "Unable to open pidfile",
        ),
        (lambda daemon: daemon.write_dbd_conf("LogFile=/no/such/dir/l\n"), "Unable to open log"),
        (lambda daemon: daemon.slurm_conf.unlink(), "Unable to open configuration"),
        (lambda daemon: daemon.path.joinpath("slurm.key").unlink(), "slurm.key"),
    ],
)
def test_bad_surroundings_are_one_fatal_line(
    daemon: AccountingDaemon, break_it: object, text: str
) -> None:
    """Exit 1, the file named, no traceback."""
    break_it(daemon)  # type: ignore[operator]
    started = daemon.run()
    assert started.returncode == 1
    assert "Traceback" not in started.stderr
    log = daemon.path / "slurmdbd.log"
    said = started.stderr + (log.read_text() if log.exists() else "")
    fatal = [line for line in said.splitlines() if "fatal: " in line]
    assert any(text in line for line in fatal), said


def test_options_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each bad one is one line."""
    for words in (["-x"], ["-n", "many"], ["word"], ["-R", "7"]):
        with pytest.raises(BadOptions):
            parse_options(words)
    assert parse_options(["-Dvv", "-n", "5"]).verbose == 2
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(BadOptions, match="No such file"):
        load_configuration(parse_options(["-f", str(tmp_path / "none.conf")]))


def test_the_schema_version_is_shown(daemon: AccountingDaemon) -> None:
    """slurmdbd -u, before and after the first start."""
    daemon.write_dbd_conf()
    assert daemon.run("-u").stdout.startswith("Schema version of the database: 0\n")
    assert daemon.run().returncode == 0
    assert daemon.run("-u").stdout.startswith(f"Schema version of the database: {LATEST}\n")


def test_keys_are_listed_in_slurms_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `sacctmgr show configuration` prints: recorded order and forms, without secrets."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    (tmp_path / "slurm.conf").write_text("ClusterName=demo\n")
    path = tmp_path / "slurmdbd.conf"
    path.write_text(
        f"StorageType=accounting_storage/sqlite\nStorageLoc={tmp_path}/a.sqlite\nSlurmUser=root\n"
    )
    path.chmod(0o600)
    pairs = load_configuration(parse_options(["-f", str(path)])).pairs
    names = [name for name, _ in pairs]
    for order in (
        ["PurgeUsageAfter", "PurgeJobScriptAfter", "PurgeJobEnvAfter", "SLURMDBD_CONF"],
        ["SLURMDBD_CONF", "SLURMDBD_VERSION", "SerializerParameters"],
        ["DisableCoordDBD", "DisableArchiveCommands", "DisableRollups"],
        ["TrackWCKey", "TrackSlurmctldDown"],
    ):
        first = names.index(order[0])
        assert names[first : first + len(order)] == order
    forms = dict(pairs)
    assert (forms["CommitDelay"], forms["MaxQueryTimeRange"]) == ("0", "UNLIMITED")
    assert (forms["PrivateData"], forms["SLURMDBD_CONF"]) == ("none", str(path))
    assert forms["TLSType"] == "tls/none"
    assert "StoragePass" not in forms


def refused_by_database(daemon: AccountingDaemon, more: str) -> str:
    """Return the fatal line with which slurmdbd ends, on either kind of database."""
    daemon.write_dbd_conf(more)
    started = daemon.run()
    assert started.returncode == 1
    said = started.stderr + (daemon.path / "slurmdbd.log").read_text()
    assert "Traceback" not in said
    return next(line for line in said.splitlines() if "fatal: " in line)


def test_a_wrong_password_is_told_at_once(daemon: AccountingDaemon, mariadb_socket: str) -> None:
    """The password itself is in no line."""
    owner = sa.create_engine(mysql_url("localhost", 0, "root", None, "", mariadb_socket))
    with owner.connect() as connection:
        connection.exec_driver_sql("CREATE OR REPLACE USER locked IDENTIFIED BY 'right'")
    owner.dispose()
    line = refused_by_database(
        daemon,
        "StorageType=accounting_storage/mysql\nStorageLoc=locked\nStorageUser=locked\n"
        f"StoragePass=guessed\nStorageParameters=socket={mariadb_socket}\n",
    )
    assert "Access denied for user 'locked'" in line
    assert "guessed" not in line


def test_a_store_of_a_newer_slurmdbd_is_left_as_it_is(daemon: AccountingDaemon) -> None:
    daemon.write_dbd_conf()
    assert daemon.run().returncode == 0
    daemon.stop()
    with sqlite3.connect(daemon.path / "state" / "acct.sqlite") as store:
        store.execute("UPDATE store SET value = '999' WHERE name = 'schema_version'")
    store.close()
    line = refused_by_database(daemon, "")
    assert f"has schema 999, this slurmdbd knows {LATEST}; use the newer slurmdbd" in line


def test_tables_of_slurm_in_the_database_are_named(daemon: AccountingDaemon) -> None:
    """Who named Slurm's own database found all history gone, and no word about it."""
    daemon.write_dbd_conf()
    with sqlite3.connect(daemon.path / "state" / "acct.sqlite") as store:
        store.execute("CREATE TABLE table_defs_table (table_name TEXT)")
    store.close()
    assert daemon.run().returncode == 0
    log = (daemon.path / "slurmdbd.log").read_text()
    [line] = [x for x in log.splitlines() if "tables of Slurm" in x]
    assert "they stay as they are, and their jobs, accounts and usage are not read" in line
