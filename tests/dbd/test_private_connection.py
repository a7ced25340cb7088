"""StorageParameters=SSL_*: what passes between slurmdbd and a real MariaDB is encrypted."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.dbd.daemon import CannotStart, Daemon, database_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.dbd.options import Configuration, Options, load_configuration
from pyslurm_ng.up.ports import free_row
from tests.dbd.mariadb import Server

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


class Encrypting(NamedTuple):
    """A server that encrypts, and the certificate that proves who it is."""

    port: int
    folder: Path


def make_certificate(folder: Path, name: str) -> None:
    """Make a certificate of 127.0.0.1 that vouches for itself, and its key."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3".split()
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"]
    subprocess.run(["openssl", *words, *subject, *files], check=True, capture_output=True)
    for suffix in ("key", "pem"):
        (folder / f"{name}.{suffix}").chmod(0o644)  # the server runs as another user


@pytest.fixture(scope="module")
def encrypting(certificates: Path) -> Iterator[Encrypting]:
    """A MariaDB that takes no connection without encryption but on its own socket."""
    port = free_row(1)
    server = Server(
        "--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}",
        "--ssl", f"--ssl-cert={certificates}/server.pem", f"--ssl-key={certificates}/server.key",
        f"--ssl-ca={certificates}/client.pem",
    )  # fmt: skip
    database = Database(server.url("mysql"))
    with database.engine.connect() as connection:
        for name, need in (("known", "REQUIRE SSL"), ("proven", "REQUIRE X509")):
            connection.exec_driver_sql(f"CREATE USER {name} IDENTIFIED BY 'secret' {need}")
            connection.exec_driver_sql(f"GRANT ALL ON *.* TO {name}")
    database.close()
    yield Encrypting(port, certificates)
    server.remove()


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """The server's certificate, a client's, and one that vouches for neither."""
    folder = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
    folder.chmod(0o755)
    for name in ("server", "client", "other"):
        make_certificate(folder, name)
    yield folder
    shutil.rmtree(folder)


def configuration(tmp_path: Path, port: int, words: str, user: str = "known") -> Configuration:
    """Return what slurmdbd runs with under a slurmdbd.conf with these StorageParameters."""
    path = tmp_path / "slurmdbd.conf"
    path.write_text(
        f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={port}\n"
        f"StorageUser={user}\nStoragePass=secret\nStorageLoc=acct_{user}\n"
        f'StorageParameters="{words}"\n'
    )
    path.chmod(0o600)
    return load_configuration(Options(conf_path=str(path)))


def opened(conf: Configuration) -> Database:
    """Open the database as slurmdbd does when it starts."""
    database = database_of(conf)
    Daemon(Options(), conf, DaemonLog("slurmdbd"))._open_database(database)
    return database


@pytest.mark.parametrize(
    ("words", "user"),
    [
        ("SSL_CA={0}/server.pem", "known"),
        ("SSL_CA={0}/server.pem,SSL_CERT={0}/client.pem,SSL_KEY={0}/client.key", "proven"),
        ("SSL_CA={0}/server.pem,SSL_CIPHER=ECDHE+AESGCM", "known"),
    ],
)
def test_the_connection_is_encrypted(
    encrypting: Encrypting, tmp_path: Path, words: str, user: str
) -> None:
    """Each word does its part; a user may have to prove with a certificate who it is."""
    conf = configuration(tmp_path, encrypting.port, words.format(encrypting.folder), user)
    database = opened(conf)
    try:
        with database.read() as connection:
            status = connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()
        assert status[1]
    finally:
        database.close()


def test_a_folder_of_authorities(encrypting: Encrypting, tmp_path: Path) -> None:
    """SSL_CAPATH holds certificates by the names that openssl rehash gives them."""
    shutil.copy(encrypting.folder / "server.pem", tmp_path)
    subprocess.run(["openssl", "rehash", str(tmp_path)], check=True, capture_output=True)
    database = opened(configuration(tmp_path, encrypting.port, f"SSL_CAPATH={tmp_path}"))
    with database.read() as connection:
        assert database.schema_version(connection) == LATEST
    database.close()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("SSL_CA={0}/other.pem", "certificate verify failed"),
        ("SSL_CA={0}/none.pem", "StorageParameters: SSL_CA={0}/none.pem: No such file"),
        ("SSL_CA={0}/server.key", "StorageParameters: SSL_CA={0}/server.key: no certificate or"),
        ("SSL_CAPATH={0}/none", "StorageParameters: SSL_CAPATH={0}/none: No such file"),
        ("SSL_CERT={0}/none.pem", "StorageParameters: SSL_CERT={0}/none.pem: No such file"),
        ("SSL_CERT={0}/server.pem,SSL_KEY={0}/client.key", "key values mismatch"),
        ("SSL_KEY={0}/server.key", "SSL_KEY={0}/server.key: SSL_CERT must be given, too"),
        ("SSL_CA={0}/server.pem,SSL_CIPHER=none", "SSL_CIPHER=none: no cipher can be"),
    ],
)
def test_a_wrong_certificate_is_refused_at_once(
    encrypting: Encrypting, tmp_path: Path, words: str, text: str
) -> None:
    """One line that says what is wrong, with no password in it."""
    conf = configuration(tmp_path, encrypting.port, words.format(encrypting.folder))
    with pytest.raises(CannotStart) as caught:
        opened(conf)
    said = str(caught.value)
    assert text.format(encrypting.folder) in said
    assert "\n" not in said
    assert "secret" not in said


def test_a_server_that_does_not_encrypt_is_refused(
    mariadb_socket: str, encrypting: Encrypting, tmp_path: Path
) -> None:
    """The password would go over the network as it is."""
    words = f"SSL_CA={encrypting.folder}/server.pem,SOCKET={mariadb_socket}"
    with pytest.raises(CannotStart, match="SSL is required"):
        opened(configuration(tmp_path, encrypting.port, words))


@pytest.mark.parametrize(
    ("is_there", "text"), [(False, "No such file or directory"), (True, "Permission denied")]
)
def test_a_password_script_that_cannot_run_is_said_at_once(
    tmp_path: Path, is_there: bool, text: str
) -> None:
    """It is not waited for, as for a database that does not answer yet."""
    script = tmp_path / "script"
    if is_there:
        script.write_text("password")
    conf = replace(configuration(tmp_path, 9, ""), pass_script=str(script))
    with pytest.raises(CannotStart) as caught:
        opened(conf)
    assert str(caught.value).endswith(f": StoragePassScript {script}: {text}")
