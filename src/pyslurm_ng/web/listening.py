"""Sockets to listen on: `host:port`, `:port`, `unix:/path`; or a connection on standard input."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from pyslurm_ng.web.options import BadOptions
from pyslurm_ng.wire.port_holder import port_in_use

BACKLOG = 4096


def listeners(addresses: list[str]) -> list[socket.socket]:
    """Return a listening socket for each address.

    Raises:
        BadOptions: an address is none, or is in use.
    """
    sockets: list[socket.socket] = []
    for address in addresses:
        try:
            if address.startswith("unix:"):
                sockets.append(_unix(address.removeprefix("unix:").replace("//", "/", 1)))
            else:
                sockets += _tcp(address)
        except OSError as error:
            raise BadOptions(f"{address}: {error.strerror or error}") from None
    return sockets


def _unix(path: str) -> socket.socket:
    if not path.startswith("/"):
        raise BadOptions(f"unix:{path}: an absolute path is needed")
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode) and not _answers(path):
            os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listener.bind(path)
    # Who may use it is decided by the kernel's word on the other end.
    os.chmod(path, 0o666)
    listener.listen(BACKLOG)
    return listener


@dataclass(frozen=True)
class SocketFile:
    """The file of a Unix socket that this process listens on, as it was made."""

    path: str
    device: int
    inode: int

    def remove(self) -> None:
        """Remove the file, unless it has become another's, or the directory is not this user's."""
        try:
            status = os.lstat(self.path)
            if (status.st_dev, status.st_ino) == (self.device, self.inode):
                os.unlink(self.path)
        except OSError:
            pass  # the next one that listens there replaces it


def socket_files(sockets: Iterable[socket.socket]) -> list[SocketFile]:
    """Return the files of those that are Unix sockets."""
    paths = [
        str(listener.getsockname()) for listener in sockets if listener.family == socket.AF_UNIX
    ]
    states = [(path, os.lstat(path)) for path in paths]
    return [SocketFile(path, status.st_dev, status.st_ino) for path, status in states]


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _tcp(address: str) -> list[socket.socket]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise BadOptions(f"{address}: HOST:PORT or unix:PATH is expected")
    host = host.strip("[]")
    rows = socket.getaddrinfo(
        host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets = []
    for family, kind, protocol, _, where in rows:
        listener = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind(where)
        except OSError as error:
            listener.close()
            if len(rows) > 1 and family == socket.AF_INET6:
                continue
            if error.errno == errno.EADDRINUSE:
                raise OSError(error.errno, port_in_use(int(port))) from None
            raise
        listener.listen(BACKLOG)
        sockets.append(listener)
    return sockets


def is_connection(descriptor: int) -> bool:
    """Return whether a descriptor is a socket."""
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


def is_pipe_or_file(descriptor: int) -> bool:
    """Return whether a descriptor can be read like a connection, as from a shell."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
