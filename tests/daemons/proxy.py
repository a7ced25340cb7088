"""A way between two daemons that a test can break: whole, or in one direction."""

from __future__ import annotations

import contextlib
import socket
import threading

_BLOCK = 65536
_LOOK_S = 0.05


class Proxy:
    """Forwards connections to a port of this host; `there` and `back` say which way is open.

    What comes on a closed way is lost with its connection when the way opens again, as if the peer
    had been cut off: a stream cannot go on after a gap.
    """

    def __init__(self, port: int) -> None:
        self.there = True
        self.back = True
        self._target = port
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Forward nothing any more."""
        self._is_closed = True
        self._listener.close()

    def cut(self) -> None:
        """Close both ways."""
        self.there = self.back = False

    def heal(self) -> None:
        """Open both ways."""
        self.there = self.back = True

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for source, sink, way in ((client, other, "there"), (other, client, "back")):
                threading.Thread(
                    target=self._forward, args=(source, sink, way), daemon=True
                ).start()

    def _forward(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        was_lost = False
        with contextlib.suppress(OSError):  # the other direction may have ended both
            source.settimeout(_LOOK_S)
            while not self._is_closed:
                is_open = getattr(self, way)
                if is_open and was_lost:
                    break
                try:
                    block = source.recv(_BLOCK)
                except TimeoutError:
                    continue
                if not block:
                    break
                if is_open:
                    sink.sendall(block)
                else:
                    was_lost = True
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
