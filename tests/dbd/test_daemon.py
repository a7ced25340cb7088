"""slurmdbd as a process: options, start, bad surroundings, end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.cli import sacctmgr
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.dbd.options import BadOptions, load_configuration, parse_options
from tests.dbd.accounting_daemon import AccountingDaemon

pytestmark = pytest.mark.daemons


@pytest.fixture
def place(tmp_path: Path) -> Iterator[AccountingDaemon]:
    found = AccountingDaemon(tmp_path)
    yield found
    found.stop()


@pytest.mark.parametrize("with_conf", [True, False])
def test_it_returns_when_it_answers(place: AccountingDaemon, with_conf: bool) -> None:
    """In the background by default; without slurmdbd.conf the embedded store is used.

    Then it listens on slurm.conf's AccountingStoragePort.
    """
    if with_conf:
        place.write_dbd_conf()
    started = place.run()
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    client = place.client()
    assert client.call("Ping", {})["role"] == "accounting"
    client.close()
    name = "acct.sqlite" if with_conf else "slurmdbd.sqlite"
    assert (place.path / "state" / name).exists()
    pid = place.pid()
    os.kill(pid, signal.SIGTERM)
    place.wait_gone(pid)
    assert not (place.path / "slurmdbd.pid").exists()
    assert list(place.path.glob("*.sock")) == []
    assert "Terminate signal" in (place.path / "slurmdbd.log").read_text()


def test_shutdown_by_command(place: AccountingDaemon) -> None:
    """sacctmgr shutdown answers, then ends the daemon."""
    place.write_dbd_conf()
    assert place.run().returncode == 0
    pid = place.pid()
    client = place.client()
    client.change("Shutdown", {})
    client.close()
    place.wait_gone(pid)


def test_reconfigure_by_command(
    place: AccountingDaemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """sacctmgr reconfigure: LogFile and its level are read again without a restart."""
    place.write_dbd_conf()
    assert place.run().returncode == 0
    pid, moved = place.pid(), place.path / "moved.log"
    text = place.dbd_conf.read_text().replace("slurmdbd.log", moved.name)
    place.dbd_conf.write_text(text)
    storage = "AccountingStorageType=accounting_storage/slurmdbd\n"
    place.slurm_conf.write_text(place.slurm_conf.read_text() + storage)
    monkeypatch.setenv("SLURM_CONF", str(place.slurm_conf))
    assert (sacctmgr.main(["reconfigure"]), capfd.readouterr().err) == (0, "")
    assert "Reconfigure signal (SIGHUP) received" in moved.read_text()
    assert place.pid() == pid


def test_a_second_daemon_is_refused(place: AccountingDaemon) -> None:
    """And does not disturb the first."""
    place.write_dbd_conf()
    assert place.run().returncode == 0
    pid = place.pid()
    second = place.run("-D")
    assert second.returncode == 1
    assert "fatal: " in second.stderr
    assert os.path.exists(f"/proc/{pid}")
    client = place.client()
    client.call("Ping", {})
    client.close()
    assert place.pid() == pid


def test_version_and_help_need_nothing(place: AccountingDaemon) -> None:
    """They answer without any configuration."""
    place.slurm_conf.unlink()
    assert place.run("-V").stdout.startswith("slurm 26.11")
    assert "-D" in place.run("-h").stdout
    refused = place.run("--frob")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (lambda place: place.write_dbd_conf("Frobnicate=1\n"), "Frobnicate"),
        (lambda place: place.write_dbd_conf(mode=0o644), "mode is 0644"),
        (lambda place: place.write_dbd_conf("StorageLoc=/no/such/dir/a\n"), "No such file"),
        (lambda place: place.write_dbd_conf("PidFile=/proc/x.pid\n"), "Unable to open pidfile"),
        (lambda place: place.write_dbd_conf("LogFile=/no/such/dir/l\n"), "Unable to open log"),
        (lambda place: place.slurm_conf.unlink(), "Unable to open configuration"),
        (lambda place: place.path.joinpath("slurm.key").unlink(), "slurm.key"),
    ],
)
def test_bad_surroundings_are_one_fatal_line(
    place: AccountingDaemon, break_it: object, text: str
) -> None:
    """Exit 1, the file named, no traceback."""
    break_it(place)  # type: ignore[operator]
    started = place.run()
    assert started.returncode == 1
    assert "Traceback" not in started.stderr
    log = place.path / "slurmdbd.log"
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


def test_the_schema_version_is_shown(place: AccountingDaemon) -> None:
    """slurmdbd -u, before and after the first start."""
    place.write_dbd_conf()
    assert place.run("-u").stdout.startswith("Schema version of the database: 0\n")
    assert place.run().returncode == 0
    assert place.run("-u").stdout.startswith(f"Schema version of the database: {LATEST}\n")


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
