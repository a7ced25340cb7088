"""Connections to a ZeroMQ socket that have proved nothing: how many, and how much they have sent.

libzmq shows a message only when all of it is there. It bounds neither its connections nor the parts
of a message. So its monitor reports each connection, the kernel reports how many bytes came over
it, and the first message with a good credential shows that it is no stranger's. When strangers have
sent more than `MOST_STRANGE_BYTES` together, the one that sent most is cut; when there are more
than `MOST_STRANGERS`, the oldest of the address with most.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter

MOST_STRANGERS = 1_024
MOST_STRANGE_BYTES = 64 << 20
LOOK_S = 0.05

_TCP_INFO_BYTES = 192
_BYTES_RECEIVED_AT = 128  # tcpi_bytes_received of struct tcp_info, since Linux 4.1


class LinkWatch:
    """The strangers among the connections accepted on one port.

    Attributes:
        cut: connections that were cut.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._strangers: dict[int, str] = {}
        self.cut = 0

    def __len__(self) -> int:
        return len(self._strangers)

    def accepted(self, descriptor: int) -> None:
        """Note a new connection, by libzmq's descriptor of it."""
        link = self._open(descriptor)
        if link is None:
            return
        try:
            address = str(link.getpeername()[0])
        except OSError:
            return
        finally:
            link.detach()
        self._strangers.pop(descriptor, None)
        self._strangers[descriptor] = address
        if len(self._strangers) > MOST_STRANGERS:
            crowd, _ = Counter(self._strangers.values()).most_common(1)[0]
            self._cut(next(stranger for stranger, at in self._strangers.items() if at == crowd))

    def proved(self, descriptor: int) -> None:
        """Note that a message with a good credential came over a connection."""
        self._strangers.pop(descriptor, None)

    def closed(self, descriptor: int) -> None:
        """Note that a connection has ended."""
        self._strangers.pop(descriptor, None)

    def look(self) -> int:
        """Cut the peers that sent most until the rest is in bounds; return what they sent."""
        sent: dict[int, int] = {}
        for descriptor in list(self._strangers):
            link = self._open(descriptor)
            if link is None:
                del self._strangers[descriptor]
                continue
            sent[descriptor] = _bytes_received(link)
            link.detach()
        total = sum(sent.values())
        while total > MOST_STRANGE_BYTES:
            most = max(sent, key=sent.__getitem__)
            total -= sent.pop(most)
            self._cut(most)
        return total

    def _cut(self, descriptor: int) -> None:
        self._strangers.pop(descriptor, None)
        link = self._open(descriptor)
        if link is None:
            return
        self.cut += 1
        try:
            # libzmq notices the end and closes its descriptor itself.
            link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            link.detach()

    def _open(self, descriptor: int) -> socket.socket | None:
        """Return a socket object for libzmq's descriptor, to be detached; None if it is another's.

        The number may belong to another file by now; then its port is not ours.
        """
        try:
            link = socket.socket(fileno=descriptor)
        except OSError:
            return None
        try:
            is_tcp = link.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and link.getsockname()[1] == self._port:
                return link
        except OSError:
            pass
        link.detach()
        return None


def _bytes_received(link: socket.socket) -> int:
    try:
        tcp_info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0
    if len(tcp_info) < _BYTES_RECEIVED_AT + 8:
        return 0
    received: int = struct.unpack_from("=Q", tcp_info, _BYTES_RECEIVED_AT)[0]
    return received
