"""X11 forwarding on srun's side: which connections reach the user's X server, and with what."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pyslurm_ng.cli.step.x11 import NoX11, X11Forward, XServer
from pyslurm_ng.wire import step_io, xauthority

REAL = bytes(range(16))


def variables(directory: Path, display: str = "far:5.0", cookie: bytes = REAL) -> dict[str, str]:
    """Return what a user has whose X server is display 5 of the host `far`."""
    entry = xauthority.Entry(0, b"far", b"5", xauthority.COOKIE, cookie)
    (directory / ".Xauthority").write_bytes(xauthority.pack_entry(entry))
    return {"DISPLAY": display, "HOME": str(directory)}


def setup(cookie: bytes, order: str = "<", name: bytes = xauthority.COOKIE) -> bytes:
    """Return a client's first bytes."""
    head = struct.pack(f"{order}cxHHHHH", b"l" if order == "<" else b"B", 11, 0, len(name),
                       len(cookie), 0)  # fmt: skip
    return head + name + bytes(-len(name) % 4) + cookie + bytes(-len(cookie) % 4)


class Room:
    """A forward whose connections to the X server are only noted."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.forward = X11Forward(XServer(variables(directory)), "all")
        self.sent: list[bytes] = []
        self.begun: list[bytes] = []
        patch.setattr(self.forward, "_connect", lambda key, first: self.begun.append(first))
        self.forward._send_to = lambda node, frame: self.sent.append(frame) or True  # type: ignore[func-returns-value]

    def say(self, data: bytes, number: int = 1, node: int = 0) -> None:
        self.forward.take(node, step_io.X11, number, data)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(tmp_path, monkeypatch)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_real_cookie_takes_the_place_of_ours(room: Room, order: str) -> None:
    """However the first bytes come, and in either order of bytes; the rest is kept."""
    for byte in setup(room.forward.cookie, order) + b"rest":
        room.say(bytes([byte]))
        if room.begun:
            break
    assert room.begun == [setup(REAL, order)]
    room.say(setup(room.forward.cookie, order) + b"rest", number=2)
    assert room.begun[1] == setup(REAL, order) + b"rest"
    assert room.sent == []


@pytest.mark.parametrize(
    "first",
    [
        setup(b"x" * 16),
        setup(REAL),
        setup(b""),
        setup(b"", name=b""),
        setup(b"x" * 16, name=b"XDM-AUTHORIZATION1"),
        b"GET / HTTP/1.1\r\n\r\n",
        b"l" + bytes([0, 11, 0, 0, 0, 255, 255, 255, 255, 0, 0]),
    ],
)
def test_a_connection_without_the_cookie_is_ended(room: Room, first: bytes) -> None:
    """Other users of the node can connect; the X server never hears of them."""
    room.say(first)
    assert (room.begun, room.sent) == ([], [step_io.pack(step_io.X11, 1)])
    room.say(setup(room.forward.cookie))  # late bytes of the same connection
    assert room.begun == []


def test_one_that_ends_early_leaves_nothing(room: Room) -> None:
    """Port scans do that."""
    room.say(b"l")
    room.say(b"")
    room.say(setup(room.forward.cookie), number=1)
    assert (room.begun, room.sent, room.forward._beginning) == ([], [], {})


def test_no_more_than_some_connections(room: Room) -> None:
    """A node cannot fill srun's memory with connections that say nothing."""
    for number in range(1, 400):
        room.say(b"l", number=number)
    assert len(room.forward._beginning) == 256
    assert len(room.sent) == 400 - 1 - 256


def test_what_the_user_has_to_have(tmp_path: Path) -> None:
    """A DISPLAY, and a cookie for it."""
    for display, words in (
        ("", "No DISPLAY variable set, cannot setup x11 forwarding."),
        ("far", "Cannot parse DISPLAY=far"),
        ("far:x", "Cannot parse DISPLAY=far:x"),
        ("far:99999", "Cannot parse DISPLAY=far:99999"),
        ("far:6", "Could not retrieve magic cookie. Cannot use X11 forwarding."),
        ("near:5", "Could not retrieve magic cookie. Cannot use X11 forwarding."),
    ):
        with pytest.raises(NoX11, match=words):
            XServer(variables(tmp_path, display))
    assert XServer(variables(tmp_path)).cookie == REAL


def test_a_file_of_cookies_may_be_broken() -> None:
    """What is cut off ends the list, and the entries before it count."""
    whole = xauthority.pack_entry(xauthority.Entry(256, b"h", b"1", xauthority.COOKIE, REAL))
    for end in range(len(whole)):
        assert xauthority.cookie_of(whole + whole[:end], b"h", b"1") == REAL
        assert xauthority.cookie_of(whole[:end], b"h", b"1") == b""


LISTEN = """
import os, socket, sys
os.setuid(65534)
server = socket.create_server(("::1", int(sys.argv[1])), family=socket.AF_INET6)
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_nobody_else_is_shown_the_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sshd may have 127.0.0.1 alone, and another user of the host ::1, which is tried first."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    rows = [row for host in ("::1", "127.0.0.1")
            for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]  # fmt: skip
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: rows)
    words = [sys.executable, "-c", LISTEN, str(port)]
    with server, subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"there\n"
        entry = xauthority.Entry(0, b"far", b"", xauthority.COOKIE, REAL)
        (tmp_path / ".Xauthority").write_bytes(xauthority.pack_entry(entry))
        shown = XServer({"DISPLAY": f"far:{port - 6000}.0", "HOME": str(tmp_path)})
        connection = shown.connect()
        assert connection.getpeername() == ("127.0.0.1", port)
        connection.close()
        del rows[1:]
        with pytest.raises(ConnectionRefusedError):
            shown.connect()
        other.communicate(b"")
