"""StorageBackupHost: a second server is used while the first does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd.daemon import database_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.migrations import LATEST
from pyslurm_ng.dbd.options import Options, load_configuration
from pyslurm_ng.up.ports import free_row
from tests.dbd.mariadb import Server

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A MariaDB that listens at 127.0.0.1 alone."""
    port = free_row(1)
    server = Server("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={port}")
    with server.connection() as connection:
        connection.exec_driver_sql("CREATE USER acct IDENTIFIED BY 'secret'")
        connection.exec_driver_sql("GRANT ALL ON *.* TO acct")
    yield port
    server.remove()


def database_with(tmp_path: Path, port: int, hosts: str, password: str = "secret") -> Database:
    """Return the database of a slurmdbd.conf with these hosts."""
    path = tmp_path / "slurmdbd.conf"
    path.write_text(
        f"StorageType=accounting_storage/mysql\n{hosts}\nStoragePort={port}\n"
        f"StorageUser=acct\nStoragePass={password}\nStorageLoc=acct\n"
    )
    path.chmod(0o600)
    return database_of(load_configuration(Options(conf_path=str(path))))


def test_the_backup_is_used_while_the_first_is_silent(tmp_path: Path, port: int) -> None:
    """And for as long as it answers: what is stored there is not on the first yet."""
    asked: list[int] = []
    with socket.create_server(("127.0.0.2", port)) as first:

        def refuse() -> None:
            while True:
                try:
                    first.accept()[0].close()
                except OSError:
                    return
                asked.append(1)

        refuser = threading.Thread(target=refuse)
        refuser.start()
        hosts = "StorageHost=127.0.0.2\nStorageBackupHost=127.0.0.1"
        with closing(database_with(tmp_path, port, hosts)) as database:
            database.open()
            with database.read() as connection, database.read() as other:
                for each in (connection, other):
                    assert database.schema_version(each) == LATEST
        first.shutdown(socket.SHUT_RDWR)
        refuser.join()
    assert len(asked) == 1


def test_the_first_is_used_while_it_answers(tmp_path: Path, port: int) -> None:
    """A host that does not exist costs nothing then."""
    hosts = "StorageHost=127.0.0.1\nStorageBackupHost=127.0.0.2"
    with closing(database_with(tmp_path, port, hosts)) as database:
        database.open()
        with database.read() as connection:
            assert database.schema_version(connection) == LATEST


def test_a_wrong_password_is_not_tried_elsewhere(tmp_path: Path, port: int) -> None:
    """The server has answered; another would be the wrong one to ask."""
    hosts = "StorageHost=127.0.0.1\nStorageBackupHost=127.0.0.2"
    with (
        closing(database_with(tmp_path, port, hosts, "wrong")) as database,
        pytest.raises(sa.exc.OperationalError, match="Access denied"),
    ):
        database.open()
