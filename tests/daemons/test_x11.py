"""srun --x11: X clients on the nodes reach the X server of the user, through srun."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.wire import xauthority
from tests.daemons.live import LiveCluster, missing_programs, start

pytestmark = pytest.mark.daemons
COOKIE = bytes(range(16))
CLIENT = """
import os, socket, struct, sys
number = int(os.environ["DISPLAY"].removeprefix("127.0.0.1:").removesuffix(".0"))
from pyslurm_ng.wire import xauthority
path = os.environ["XAUTHORITY"]
assert os.stat(path).st_mode & 0o777 == 0o600
cookie = xauthority.cookie_of(open(path, "rb").read(), b"", b"%d" % number)
if sys.argv[1:] == ["guess"]:
    cookie = bytes(16)
if sys.argv[1:] == ["other"]:
    os.setuid(65534)
name = xauthority.COOKIE
server = socket.create_connection(("127.0.0.1", 6000 + number))
server.sendall(struct.pack("<cxHHHHH", b"l", 11, 0, 18, 16, 0) + name + bytes(2) + cookie)
work = os.urandom(1 << 20)
answer = b""
try:
    server.sendall(work[:1000])
    while len(answer) < 1000 and (more := server.recv(65536)):
        answer += more
except ConnectionError:
    pass
print(os.environ["SLURM_PROCID"], "seen" if answer == work[:1000] else "refused")
"""


class XServer:
    """An X server that checks the cookie and sends everything behind it back."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.number = self._listener.getsockname()[1] - 6000
        self.cookies: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while len(data) < 48:
                data += connection.recv(48 - len(data)) or bytes(48)
            self.cookies.append(data[32:48])
            while more := connection.recv(65536):
                connection.sendall(more)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def x11_cluster() -> Iterator[LiveCluster]:
    """Two nodes that forward X11."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        (Path(name) / "more.conf").write_text(f"PrologFlags=X11\nTmpFS={name}\n")
        words = ("--nodes", "2", "--cpus", "2", "--memory", "512", "--conf", f"{name}/more.conf")
        cluster = start(Path(name) / "c", *words)
        try:
            yield cluster
        finally:
            cluster.down()


def test_clients_of_all_nodes_reach_the_server(x11_cluster: LiveCluster) -> None:
    """With the server's own cookie, which no node has seen; a client that guesses does not."""
    directory = x11_cluster.directory.parent
    server = XServer()
    if not 0 <= server.number < 59536:
        pytest.skip("this port is no display")
    (directory / "client.py").write_text(CLIENT)
    entry = xauthority.Entry(0, b"127.0.0.1", b"%d" % server.number, xauthority.COOKIE, COOKIE)
    (directory / "cookies").write_bytes(xauthority.pack_entry(entry))
    display = f"127.0.0.1:{server.number}.0"
    told: Any = {"DISPLAY": display, "XAUTHORITY": f"{directory}/cookies"}
    client = (sys.executable, str(directory / "client.py"))
    try:
        ran = x11_cluster.run("srun", "--x11", "-N2", "-n2", *client, **told)
        assert sorted(ran.stdout.splitlines()) == ["0 seen", "1 seen"], ran
        guessed = x11_cluster.run("srun", "--x11=last", "-n1", *client, "guess", **told)
        assert guessed.stdout == "0 refused\n", guessed
        if os.geteuid() == 0:
            other = x11_cluster.run("srun", "--x11", "-n1", *client, "other", **told)
            assert other.stdout == "0 refused\n", "a stolen cookie does not help another user"
        nested = x11_cluster.run("salloc", "-Q", "--x11=first", "srun", "-n1", *client, **told)
        assert nested.stdout == "0 seen\n", nested
        assert server.cookies == [COOKIE] * 3
        assert not list(directory.glob(".Xauthority-*"))
    finally:
        server.close()
    shown = "echo $SLURM_PROCID $DISPLAY"
    ran = x11_cluster.run("srun", "--x11=last", "-N2", "-n2", "sh", "-c", shown, **told)
    assert f"0 {display}" in ran.stdout.splitlines(), ran
    assert "1 127.0.0.1:" in ran.stdout


def test_where_it_is_not_allowed(x11_cluster: LiveCluster, tmp_path: Path) -> None:
    """Without PrologFlags=X11 commands refuse it, and so does slurmd what others may send."""
    text = Path(x11_cluster.environment["SLURM_CONF"]).read_text()
    (tmp_path / "slurm.conf").write_text(text.replace("PrologFlags=X11", ""))
    variables: Any = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "DISPLAY": "far:5"}
    for command in ("srun", "salloc"):
        ran = x11_cluster.run(command, "--x11", "true", **variables)
        assert ran.returncode == 1
        assert f"{command}: error: X11 forwarding not available" in ran.stderr
