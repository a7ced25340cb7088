"""Databases for the tests: SQLite always, MariaDB where its server is installed."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket as socket_module
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.dbd.database import Database, mysql_url, sqlite_url

_numbers = itertools.count()


def _answers(path: str) -> bool:
    with socket_module.socket(socket_module.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def unprivileged(place: Path) -> list[str]:
    """Return the server's option for its user, who owns `place`; it refuses to run as root."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam("nobody")
    os.chown(place, account.pw_uid, account.pw_gid)
    return ["--user=nobody"]


@pytest.fixture(scope="session")
def mariadb_socket() -> Iterator[str]:
    """A private MariaDB server; skips where none can be started."""
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if not server or not install:
        pytest.skip("mariadbd is not installed")
    # Not below pytest's directory, which every session closes to other users.
    place = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
    place.chmod(0o755)
    as_user: list[str] = []
    if os.geteuid() == 0:
        # The server refuses to run as root; any unprivileged account will do.
        account = pwd.getpwnam("nobody")
        for path in (place, *place.parents):
            if path == Path(tempfile.gettempdir()) or path.stat().st_mode & stat.S_ISVTX:
                break
            path.chmod(0o755)
        os.chown(place, account.pw_uid, account.pw_gid)
        as_user = ["--user=nobody"]
    socket = f"{place}/socket"
    data = place / "data"
    subprocess.run(
        [install, "--no-defaults", *as_user, f"--datadir={data}",
         "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    process = subprocess.Popen(
        [server, "--no-defaults", *as_user, f"--datadir={data}", f"--socket={socket}",
         "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
         "--innodb-flush-method=nosync"],  # nobody pulls the plug: a busy disk does not stop it
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(1200):
            if _answers(socket):
                break
            time.sleep(0.05)
        else:
            pytest.skip("mariadbd does not start here")
        yield socket
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(place)


@pytest.fixture(params=["sqlite", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An open, empty store of either kind."""
    if request.param == "sqlite":
        url = sqlite_url(f"{tmp_path}/accounting.sqlite")
    else:
        socket = request.getfixturevalue("mariadb_socket")
        url = mysql_url("localhost", 0, "root", None, f"acct_{next(_numbers)}", socket)
        # The driver's own ten seconds are too few where the machine stands still for a while.
        url = url.update_query_dict({"connect_timeout": "120"})
    found = Database(url)
    found.open()
    yield found
    found.close()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    """An open, empty SQLite store, for what does not depend on the dialect."""
    found = Database(sqlite_url(f"{tmp_path}/accounting.sqlite"))
    found.open()
    yield found
    found.close()
