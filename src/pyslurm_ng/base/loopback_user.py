"""Whose socket is at the other end of a TCP connection on this host: the kernel knows."""

import struct
from _socket import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    SOCK_CLOEXEC,
    SOCK_RAW,
    inet_pton,
    socket,
)

NOBODY = -1
"""The user of a socket that is closed, or of which the kernel says nothing."""

UNKNOWN = -2
"""The kernel does not tell users of sockets here."""

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_TCP, _ANY_STATE, _NO_COOKIE = 6, 0xFFFFFFFF, b"\xff" * 8
_NO_SUCH = -2  # ENOENT, as netlink says it
_HEAD = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_NUMBER = struct.Struct("=i")
_ANSWER = struct.Struct("=4B48sIIIII")


def user_of_peer(local: "tuple[str, int]", peer: "tuple[str, int]") -> int:
    """Return the user id of the process that has the other end; NOBODY if there is none.

    Args:
        local, peer: our end's and the other end's IPv4 address and port.

    Source: sock_diag(7). One socket is asked for, so it costs the same however many there are.
    """
    return max(NOBODY, _user(AF_INET, peer, local))


def user_of_server(local: "tuple[str, int]", server: "tuple[str, int]") -> int:
    """Return the user id of the process that answers at a port of this host.

    That is whose the other end is, or whose the listening socket while the connection waits there.
    NOBODY if there is none any more, UNKNOWN where the kernel does not tell.

    Args:
        local, server: our end's and the server's address and port, IPv4 or IPv6.
    """
    family = AF_INET6 if ":" in server[0] else AF_INET
    user = _user(family, server, local)
    if user != NOBODY:
        return user
    return _user(family, server, ("::" if family == AF_INET6 else "0.0.0.0", 0))


def _user(family: int, end: "tuple[str, int]", other: "tuple[str, int]") -> int:
    """Return the user of the socket at `end` that is connected to `other`, or listens there."""
    # Addresses of one link name their interface: fe80::1%eth0.
    hosts = (host.partition("%")[0] for host, _ in (end, other))
    addresses = b"".join(inet_pton(family, host).ljust(16, b"\0") for host in hosts)
    ask = _ASK.pack(family, _TCP, 0, 0, _ANY_STATE) + _PORTS.pack(end[1], other[1])
    ask += addresses + bytes(4) + _NO_COOKIE
    head = _HEAD.pack(_HEAD.size + len(ask), _BY_FAMILY, _REQUEST, 1, 0)
    try:
        asked = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, _SOCK_DIAG)
        try:
            asked.settimeout(1.0)
            asked.sendto(head + ask, (0, 0))
            answer = asked.recv(4096)
        finally:
            asked.close()
    except OSError:
        return UNKNOWN
    if len(answer) < _HEAD.size + _NUMBER.size:
        return UNKNOWN
    if _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return NOBODY if _NUMBER.unpack_from(answer, _HEAD.size)[0] == _NO_SUCH else UNKNOWN
    if len(answer) < _HEAD.size + _ANSWER.size:
        return UNKNOWN
    *_, user, inode = _ANSWER.unpack_from(answer, _HEAD.size)
    return int(user) if inode else NOBODY  # a socket without a process shows the user 0
