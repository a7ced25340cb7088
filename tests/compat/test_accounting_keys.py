"""Effects of slurmdbd.conf, and of what slurm.conf says of accounting."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.daemon.log import DEBUG, ERROR, FATAL, DaemonLog
from pyslurm_ng.dbd.daemon import CannotStart, Daemon
from pyslurm_ng.dbd.options import BadOptions, Configuration, Options, load_configuration
from pyslurm_ng.wire.auth import AuthError
from tests.dbd.accounting_daemon import AccountingDaemon

SQLITE = "StorageType=accounting_storage/sqlite\n"
MYSQL = "StorageType=accounting_storage/mysql\n"


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Configuration]:
    """Return a function from lines of slurmdbd.conf to what slurmdbd runs with."""
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    (tmp_path / "slurm.conf").write_text(
        f"ClusterName=demo\nStateSaveLocation={tmp_path}\nAuthType=auth/munge\n"
    )

    def load(text: str) -> Configuration:
        path = tmp_path / "slurmdbd.conf"
        path.write_text(text)
        path.chmod(0o600)
        return load_configuration(Options())

    return load


# The database ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "part", "value"),
    [
        ("StorageHost=db.example", "host", "db.example"),
        ("StoragePort=3333", "port", 3333),
        ("StorageUser=acct", "username", "acct"),
        ("StoragePass=secret", "password", "secret"),
        ("StorageLoc=books", "database", "books"),
    ],
)
def test_where_the_database_is(loaded: Any, line: str, part: str, value: object) -> None:
    """Each key is one part of the address that is connected to."""
    assert getattr(loaded(f"{MYSQL}{line}\n").url, part) == value
    assert getattr(loaded(f"{MYSQL}").url, part) != value


def test_storage_type(loaded: Any, tmp_path: Path) -> None:
    """StorageType=accounting_storage/sqlite keeps a file, /mysql asks a server."""
    assert loaded(MYSQL).url.drivername == "mysql+pymysql"
    conf = loaded(f"{SQLITE}StorageLoc={tmp_path}/books\n")
    assert (conf.url.drivername, conf.url.database) == ("sqlite", f"{tmp_path}/books")


def test_default_qos(loaded: Any) -> None:
    """A name that no QOS may have would keep clusters from registering, so slurmdbd ends."""
    assert loaded(f"{SQLITE}DefaultQOS=standard\n").new_cluster_qos == "standard"
    assert loaded(SQLITE).new_cluster_qos == "normal"
    with pytest.raises(BadOptions, match="DefaultQOS: Bad QOS name '-x'"):
        loaded(f"{SQLITE}DefaultQOS=-x\n")


def test_storage_parameters(loaded: Any) -> None:
    """StorageParameters=SSL_*: the connection to the server is encrypted; a bad word stops it."""
    plain = loaded(f"{MYSQL}StorageHost=db\n").url
    url = loaded(f"{MYSQL}StorageHost=db\nStorageParameters=SSL_CA=/ca.pem,SSL_CERT=/c.pem\n").url
    arguments = [
        sa.create_engine(url_of).dialect.create_connect_args(url_of)[1] for url_of in (plain, url)
    ]
    assert [words.get("ssl") for words in arguments] == [None, {"ca": "/ca.pem", "cert": "/c.pem"}]
    with_socket = loaded(
        f"{MYSQL}StorageHost=localhost\nStorageParameters=SOCKET=/run/db.sock\n"
    ).url
    assert with_socket.query["unix_socket"] == "/run/db.sock"
    with pytest.raises(BadOptions, match="StorageParameters: 'sslca' is bad; allowed: SOCKET="):
        loaded(f"{MYSQL}StorageParameters=SSLCA=/ca.pem\n")


@pytest.mark.parametrize("key", ["ArchiveDir", "ArchiveScript"])
def test_what_archives_must_be_there(loaded: Any, tmp_path: Path, key: str) -> None:
    """Records would be purged without an archive, so slurmdbd ends at once, as Slurm's."""
    assert loaded(f"{SQLITE}{key}={tmp_path}\n").purge is not None
    with pytest.raises(BadOptions, match=f"{key}: /no/such: No such file or directory"):
        loaded(f"{SQLITE}{key}=/no/such\n")


# The daemon --------------------------------------------------------------------------------------


def test_dbd_host(loaded: Any) -> None:
    """DbdHost: slurmdbd runs on no other host."""
    for host in (os.uname().nodename, "localhost"):
        loaded(f"{SQLITE}DbdHost={host}\n")
    with pytest.raises(BadOptions, match="This host not configured to run SlurmDBD"):
        loaded(f"{SQLITE}DbdHost=another-host\n")


def test_debug_level(loaded: Any, tmp_path: Path) -> None:
    """DebugLevel is how much the file has that LogFile names."""
    for level, number in (("error", ERROR), ("debug", DEBUG)):
        path = tmp_path / f"{level}.log"
        conf = loaded(f"{SQLITE}DebugLevel={level}\nLogFile={path}\n")
        log = DaemonLog("slurmdbd")
        Daemon(Options(), conf, log)._open_log(conf)
        assert (log.file_level, path.exists()) == (number, True)


@pytest.mark.parametrize(
    ("text", "number"),
    [("", FATAL), ("DebugLevelSyslog=debug", DEBUG), ("DebugLevel=error", FATAL)],
)
def test_debug_level_of_syslog(loaded: Any, tmp_path: Path, text: str, number: int) -> None:
    """DebugLevelSyslog is how much syslog has; beside a log file it has fatal lines."""
    conf = loaded(f"{SQLITE}LogFile={tmp_path}/log\n{text}\n")
    log = DaemonLog("slurmdbd")
    Daemon(Options(), conf, log)._open_log(conf)
    assert log.syslog_level == number


def test_auth_type_and_info_of_slurmdbd(loaded: Any, tmp_path: Path) -> None:
    """AuthType=auth/slurm wants the key beside it, auth/munge the socket that AuthInfo names."""
    conf = loaded(f"{SQLITE}AuthType=auth/slurm\n")
    with pytest.raises(CannotStart, match=f"{tmp_path}/slurm.key"):
        Daemon(Options(), conf, DaemonLog("slurmdbd"))._identity()
    conf = loaded(f"{SQLITE}AuthType=auth/munge\nAuthInfo=socket={tmp_path}/munged\n")
    # A host without libmunge is told so at once, as nothing could be signed there.
    refusal = f"libmunge.so.2 cannot be loaded|munge is not|{tmp_path}/munged"
    with pytest.raises((AuthError, CannotStart), match=refusal):
        Daemon(Options(), conf, DaemonLog("slurmdbd"))._identity().signer.sign_credential(b"x")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AccountingDaemon]:
    started = AccountingDaemon(tmp_path)
    yield started
    started.stop()


@pytest.mark.daemons
@pytest.mark.parametrize("words", ["", "CommunicationParameters=NoInAddrAny\n"])
def test_dbd_port_and_address(daemon: AccountingDaemon, words: str) -> None:
    """slurmdbd listens at DbdPort; with NoInAddrAny only at DbdAddr."""
    daemon.write_dbd_conf(f"DbdAddr=127.0.0.2\n{words}")
    assert daemon.run().returncode == 0
    socket.create_connection(("127.0.0.2", daemon.port), 30).close()
    if words:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", daemon.port), 30)
    else:
        socket.create_connection(("127.0.0.1", daemon.port), 30).close()
    assert daemon.pid()
    assert (daemon.path / "state" / "acct.sqlite").exists()
