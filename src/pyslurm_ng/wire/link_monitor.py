"""What libzmq tells about the connections of a socket, for the watch over strangers."""

from __future__ import annotations

import asyncio
from collections import Counter
from struct import Struct

import zmq

from pyslurm_ng.wire.link_watch import LOOK_S, LinkWatch
from pyslurm_ng.wire.zmq_sockets import descriptor_of

_EVENTS_PER_TURN = 1_024
_LINK_EVENT = Struct("=Hi")
"""What libzmq's monitor tells: an event and a descriptor, in the machine's order."""


class LinkMonitor:
    """Hears which connections of a listening socket come and go.

    Attributes:
        watch: the connections that have proved nothing yet.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        loop: asyncio.AbstractEventLoop,
        refusals: Counter[str],
    ) -> None:
        """Have libzmq tell from now on, which is before `router` is bound."""
        self._router = router
        self._loop = loop
        self._refusals = refusals
        self._monitor = router.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
        )
        self.watch = LinkWatch(0)
        self._is_look_due = False
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of strangers."""
        return len(self.watch)

    def begin(self, port: int) -> None:
        """Listen to libzmq, for a socket that is bound to this port."""
        self.watch = LinkWatch(port)
        self._loop.add_reader(descriptor_of(self._monitor), self.hear)
        self._loop.call_soon(self.hear)

    def close(self) -> None:
        """Listen no longer."""
        self._is_closed = True
        self._loop.remove_reader(descriptor_of(self._monitor))
        self._router.disable_monitor()
        self._monitor.close(0)

    def hear(self) -> None:
        """Note connections that came and went, and look at what strangers have sent."""
        if self._is_closed:
            return
        watch = self.watch
        for _ in range(_EVENTS_PER_TURN):
            try:
                parts = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            event, descriptor = _LINK_EVENT.unpack_from(parts[0])
            if event == zmq.EVENT_ACCEPTED:
                watch.accepted(descriptor)
            else:
                watch.closed(descriptor)
        else:
            self._loop.call_soon(self.hear)
        self._refusals["strangers_cut"] = watch.cut
        if watch and not self._is_look_due:
            self._is_look_due = True
            self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._is_look_due = False
        if self._is_closed:
            return
        self.watch.look()
        # The monitor's descriptor is edge-triggered, too.
        self.hear()
