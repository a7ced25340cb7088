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

_ROUTE, _GET_ROUTE, _NEW_ROUTE = 0, 26, 24
_LOCAL, _TO = 2, 1  # RTN_LOCAL, RTA_DST
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_TCP, _ANY_STATE, _NO_COOKIE = 6, 0xFFFFFFFF, b"\xff" * 8
_NO_SUCH = -2  # ENOENT, as netlink says it
_HEAD = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_NUMBER = struct.Struct("=i")
_WAY = struct.Struct("=8BI")
_ATTRIBUTE = struct.Struct("=HH")
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


def is_of_this_host(address: str) -> bool:
    """Return whether an IPv4 or IPv6 address is one of this host's own.

    A host may connect to itself from another address than the one that it connects to, as to
    127.0.1.1, so the addresses of both ends do not say. Source: rtnetlink(7).
    """
    family, packed = _packed(address)
    ask = _WAY.pack(family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
    ask += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _TO) + packed
    answer = _asked(_ROUTE, _GET_ROUTE, ask)
    if len(answer) < _HEAD.size + _WAY.size or _HEAD.unpack_from(answer)[1] != _NEW_ROUTE:
        return False
    return bool(_WAY.unpack_from(answer, _HEAD.size)[7] == _LOCAL)


def _packed(address: str) -> "tuple[int, bytes]":
    """Return family and bytes; addresses of one link name their interface: fe80::1%eth0."""
    family = AF_INET6 if ":" in address else AF_INET
    return family, inet_pton(family, address.partition("%")[0])


def _user(family: int, end: "tuple[str, int]", other: "tuple[str, int]") -> int:
    """Return the user of the socket at `end` that is connected to `other`, or listens there."""
    addresses = b"".join(_packed(host)[1].ljust(16, b"\0") for host, _ in (end, other))
    ask = _ASK.pack(family, _TCP, 0, 0, _ANY_STATE) + _PORTS.pack(end[1], other[1])
    answer = _asked(_SOCK_DIAG, _BY_FAMILY, ask + addresses + bytes(4) + _NO_COOKIE)
    if len(answer) < _HEAD.size + _NUMBER.size:
        return UNKNOWN
    if _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return NOBODY if _NUMBER.unpack_from(answer, _HEAD.size)[0] == _NO_SUCH else UNKNOWN
    if len(answer) < _HEAD.size + _ANSWER.size:
        return UNKNOWN
    *_, user, inode = _ANSWER.unpack_from(answer, _HEAD.size)
    return int(user) if inode else NOBODY  # a socket without a process shows the user 0


def _asked(protocol: int, kind: int, ask: bytes) -> bytes:
    """Return the kernel's answer to a question by netlink; b"" if there is none."""
    head = _HEAD.pack(_HEAD.size + len(ask), kind, _REQUEST, 1, 0)
    try:
        asked = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)
        try:
            asked.settimeout(1.0)
            asked.sendto(head + ask, (0, 0))
            return asked.recv(4096)
        finally:
            asked.close()
    except OSError:
        return b""
