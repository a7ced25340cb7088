"""Listening sockets of stream servers."""

from __future__ import annotations

import errno
import os
import socket

from pyslurm_ng.wire.port_holder import port_in_use

QUEUE = 4_096
"""Connections that the kernel keeps until they are accepted."""


def bind_unix(path: str, mode: int) -> socket.socket:
    """Return a bound Unix socket; it replaces that of a process that has ended.

    Raises:
        OSError: EADDRINUSE when another process answers there, or as bind and mkdir do.
    """
    directory, name = os.path.split(path)
    os.makedirs(directory or ".", mode=0o755, exist_ok=True)
    folder = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Addresses have at most 107 bytes; with the directory's descriptor only the name counts.
        short = f"/proc/self/fd/{folder}/{name}"
        if os.path.lexists(path):
            _unlink_dead(short, path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(short)
            os.chmod(path, mode)
        except OSError:
            listener.close()
            raise
    finally:
        os.close(folder)
    listener.setblocking(False)
    return listener


def _unlink_dead(short: str, path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(short)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(98, f"{path}: another daemon answers there")


def bind_tcp(address: str | None, port: int) -> socket.socket:
    """Return a bound TCP socket, on IPv6 and IPv4 for no address.

    Raises:
        OSError: as bind does; with the process and user that have the port.
    """
    try:
        listener = _bound(address, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(error.errno, port_in_use(port)) from None
    listener.setblocking(False)
    return listener


def _bound(address: str | None, port: int) -> socket.socket:
    if address is None:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=QUEUE
            )
        return socket.create_server(("", port), backlog=QUEUE)
    family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where[:2], family=family, backlog=QUEUE)
