"""Who has a TCP port of this host, for the line of a daemon that cannot have it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"


def port_in_use(port: int) -> str:
    """Return a sentence that names the process and user who have a port, as far as Linux tells.

    Processes of other users are named to root only. A socket that is bound, but neither listens
    nor is connected, is in no table.
    """
    socket_row = _socket_at(port)
    if socket_row is None:
        return f"port {port} is in use: another process has it"
    uid, inode = socket_row
    process = _process_with(inode)
    return f"port {port} is in use: {process} of user {_user_text(uid)} has it"


def _socket_at(port: int) -> tuple[int, int] | None:
    """Return uid and inode of a socket with a local port, one that listens before others."""
    rows = []
    for table in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, _, _, _, uid, _, inode, *_ = line.split()
            if int(local.rpartition(":")[2], 16) == port and int(inode):
                rows.append((state != _LISTENS, int(uid), int(inode)))
    return min(rows)[1:] if rows else None


def _process_with(inode: int) -> str:
    """Return the process that holds a socket: its number and name, if we may see them."""
    link = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            with os.scandir(process / "fd") as entries:
                if any(_target(entry.path) == link for entry in entries):
                    return f"process {process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            continue  # it has ended, or is another user's
    return "a process"


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _user_text(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name}({uid})"
    except KeyError:
        return str(uid)
