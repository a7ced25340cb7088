"""One attacker: sends messages and bytes to daemons as the user it runs as.

Its arguments are a list of directories with our packages; it reads an attack as a Python literal.
It prints what it was told, a line for each message.
"""

from __future__ import annotations

import ast
import os
import socket
import sys
import time
from typing import Any

sys.path[:0] = sys.argv[1].split(":")

import msgspec  # noqa: E402

from pyslurm_ng.wire import frame, messages, table  # noqa: E402
from pyslurm_ng.wire.messages import ErrorReply  # noqa: E402

ANSWER_S = 12.0
HELD_S = 1.0
NEW = b"id of a request!"


def made(value: Any) -> Any:
    """Return a body with its long parts; ("*", what, times) stands for one."""
    if isinstance(value, tuple) and len(value) == 3 and value[0] == "*":
        what = made(value[1])
        return [what] * value[2] if isinstance(what, (dict, int)) else what * value[2]
    if isinstance(value, dict):
        return {made(key): made(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [made(inner) for inner in value]
    return os.urandom(16) if value == NEW else value


def connected(path: str) -> socket.socket:
    """Connect to a Unix socket, or to a port of this host, where we are a stranger."""
    if path.isdigit():
        return socket.create_connection(("127.0.0.1", int(path)), ANSWER_S)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_S)
    connection.connect(path)
    return connection


def tell(path: str, kind: str, body: Any) -> str:
    """Send a message and return the daemon's first answer."""
    said: list[str] = []

    def admit(kind: str, flags: int, sequence: int, credential: bytes, size: int) -> object:
        return credential

    def take(kind: str, flags: int, sequence: int, proof: object, body: bytes) -> None:
        # An answer that is given again has no kind of its own.
        if kind == "ErrorReply":
            answer = table.decode_reply(kind, body)
            assert isinstance(answer, ErrorReply)
            said.append(f"refused {answer.code}: {answer.text}")
        else:
            said.append(f"accepted: {kind} {msgspec.msgpack.decode(body)!r:.2000}")

    parser = frame.Parser(admit, take)
    with connected(path) as connection:
        try:
            connection.sendall(frame.pack_frame(kind, 1, msgspec.msgpack.encode(made(body))))
            while not said:
                data = connection.recv(1 << 16)
                if not data:
                    return "closed"
                parser.feed(data)
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return f"closed: {error.strerror}"
    return said[0]


def hold(path: str, data: bytes, connections: int) -> str:
    """Send bytes over some connections, and keep these open for a while."""
    opened = []
    for _ in range(connections):
        try:
            opened.append(connected(path))
            opened[-1].sendall(data)
        except OSError:
            break
    print(f"held {len(opened)}", flush=True)
    time.sleep(HELD_S)
    opened[0].settimeout(HELD_S)
    try:
        answer = opened[0].recv(1 << 16)
    except OSError as error:
        return f"nothing: {error}"
    return f"closed: {answer!r}" if answer else "closed"


def main() -> None:
    messages.rows()  # the table knows all kinds from now on
    attack = ast.literal_eval(sys.stdin.read())
    for path, kind, body in attack.get("messages", ()):
        print(tell(path, kind, body), flush=True)
    if attack.get("sent"):
        print(hold(*attack["sent"]), flush=True)


main()
