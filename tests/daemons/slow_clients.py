"""A program that keeps very many connections: slow_clients.py SOCKET SLOW IDLE REQUEST QUESTION.

SLOW of them send REQUEST at a byte a second. Of the IDLE ones half say nothing at all, and half
have asked QUESTION once, so that a daemon has to keep them for long; both are in hexadecimal.
Connections that were cut are made again. Each second a line says how many slow, silent
and idle connections there are, and how many of each the daemon has cut so far. Any user may start
the program: it imports nothing of ours.
"""

from __future__ import annotations

import select
import socket
import sys
import time

MOST_A_SECOND = 100
"""New connections of one crowd: slow clients are the fault here, not a flood of connections."""


class Crowd:
    """Connections that are made again when they are cut.

    Args:
        path: the Unix socket.
        size: how many there should be.
        first: what each of them sends at once.
        slowly: what each of them sends at a byte a second.

    Attributes:
        cut: how many the daemon has cut so far.
    """

    def __init__(self, path: str, size: int, first: bytes = b"", slowly: bytes = b"") -> None:
        self._path = path
        self._size = size
        self._first = first
        self._slowly = slowly
        self._poll = select.poll()
        self._held: dict[int, socket.socket] = {}
        self._sent: dict[int, int] = {}
        self.cut = 0

    def __len__(self) -> int:
        return len(self._held)

    def fill(self) -> None:
        """Connect until there are enough, or enough for this second, or the queue is full."""
        for _ in range(min(self._size - len(self._held), MOST_A_SECOND)):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            try:
                client.connect(self._path)
                client.send(self._first)
            except BlockingIOError:
                client.close()
                return
            except OSError:
                client.close()
                self.cut += 1
                continue
            self._held[client.fileno()] = client
            self._sent[client.fileno()] = 0
            self._poll.register(client, select.POLLIN)

    def drip(self) -> None:
        """Send the next byte on each connection."""
        for descriptor, client in list(self._held.items()):
            at = self._sent[descriptor]
            try:
                self._sent[descriptor] += client.send(self._slowly[at : at + 1])
            except BlockingIOError:
                pass
            except OSError:
                self._lose(descriptor)

    def look(self) -> None:
        """Read what was said, and drop the connections that were cut."""
        for descriptor, _ in self._poll.poll(0):
            try:
                is_cut = not self._held[descriptor].recv(65536)
            except BlockingIOError:
                is_cut = False
            except OSError:
                is_cut = True
            if is_cut:
                self._lose(descriptor)

    def _lose(self, descriptor: int) -> None:
        self.cut += 1
        self._poll.unregister(descriptor)
        self._held.pop(descriptor).close()


def main() -> None:
    path, slow_size, idle_size, request, question = sys.argv[1:]
    slow = Crowd(path, int(slow_size), slowly=bytes.fromhex(request))
    silent = Crowd(path, int(idle_size) // 2)
    idle = Crowd(path, int(idle_size) - int(idle_size) // 2, first=bytes.fromhex(question))
    crowds = (slow, silent, idle)
    while True:
        began = time.monotonic()
        for crowd in crowds:
            crowd.look()
            crowd.fill()
        slow.drip()
        print(*map(len, crowds), *(crowd.cut for crowd in crowds), flush=True)
        time.sleep(max(0.0, began + 1 - time.monotonic()))


if __name__ == "__main__":
    main()
