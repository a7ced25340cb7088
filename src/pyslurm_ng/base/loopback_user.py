"""Whose socket is at the other end of a TCP connection on this host: the kernel knows."""

import struct
from _socket import AF_INET, AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW, inet_aton, socket

NOBODY = -1
"""The user of a socket that is closed, or of which the kernel says nothing."""

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_TCP, _ANY_STATE, _NO_COOKIE = 6, 0xFFFFFFFF, b"\xff" * 8
_HEAD = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_ANSWER = struct.Struct("=4B48sIIIII")


def user_of_peer(local: "tuple[str, int]", peer: "tuple[str, int]") -> int:
    """Return the user id of the process that has the other end; NOBODY if there is none.

    Args:
        local, peer: our end's and the other end's IPv4 address and port.

    Source: sock_diag(7). One socket is asked for, so it costs the same however many there are.
    """
    ends = _PORTS.pack(peer[1], local[1])
    ends += inet_aton(peer[0]) + bytes(12) + inet_aton(local[0]) + bytes(12)
    ask = _ASK.pack(AF_INET, _TCP, 0, 0, _ANY_STATE) + ends + bytes(4) + _NO_COOKIE
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
        return NOBODY
    if len(answer) < _HEAD.size + _ANSWER.size:
        return NOBODY
    if _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return NOBODY
    *_, user, inode = _ANSWER.unpack_from(answer, _HEAD.size)
    return int(user) if inode else NOBODY  # a socket without a process shows the user 0
