"""Which waiting connection is begun next: users take turns, however many each one opens.

The kernel's queue is first come, first served. To take a connection out of it is cheap, to begin it
is not. So connections are taken out at once and sorted by the user that they come from, on TCP by
the address. Users are then served in turn (RELIABILITY 46).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from pyslurm_ng.wire import auth
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.shares import ShareLimits

BEGUN_A_TURN = 4
"""A connection takes about five turns of the loop from its beginning to its answer. In each of them
as many of a crowd are begun, read, answered and closed, at 0.2 ms; fewer gain little."""
TAKEN_A_TURN = 128
_PAUSE_S = 1.0
_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """Takes connections from one listening socket and begins them, user by user.

    Args:
        listener: a bound socket that does not block.
        limits: bounds; half of the waiting connections may be one user's, further ones are closed.
        lane_of: returns whose turn a uid takes.
        protocol: makes the protocol of a connection.
        refused: is told of a connection that was closed because too many of its user wait.
    """

    def __init__(
        self,
        listener: socket.socket,
        limits: ShareLimits,
        lane_of: Callable[[int], int],
        protocol: Callable[[], asyncio.BaseProtocol],
        refused: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._lane_of = lane_of
        self._protocol = protocol
        self._refused = refused
        self._most_waiting = limits.connections_waiting
        self._most_of_one = min(limits.connections_per_uid, limits.connections_waiting // 2)
        self._is_unix = listener.family == socket.AF_UNIX
        self._lanes: Lanes[socket.socket] = Lanes()
        self._beginning: set[asyncio.Task[object]] = set()
        self._is_due = self._is_listening = False
        self._timer: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Stop accepting connections and close those that have not begun."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        self._listener.close()
        while self._lanes:
            self._lanes.pop()[1].close()

    def _listen(self) -> None:
        self._timer = None
        if not self._is_listening and self._listener.fileno() >= 0:
            self._is_listening = True
            self._loop.add_reader(self._listener, self._take)

    def _stop_listening(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(self._listener)

    def _take(self) -> None:
        """Take what waits in the kernel, some in each turn of the loop."""
        for _ in range(min(TAKEN_A_TURN, self._most_waiting - len(self._lanes))):
            try:
                taken, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._stop_listening()
                self._timer = self._loop.call_later(_PAUSE_S, self._listen)
                break
            self._sort(taken)
        if len(self._lanes) >= self._most_waiting:
            self._stop_listening()
        if self._lanes and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._begin_some)

    def _sort(self, taken: socket.socket) -> None:
        try:
            taken.setblocking(False)
            if self._is_unix:
                lane = self._lane_of(auth.socket_peer(taken, "").uid)
            else:
                lane = hash(taken.getpeername()[0])
        except OSError:
            taken.close()  # it has gone
            return
        if self._lanes.waiting(lane) >= self._most_of_one:
            taken.close()
            self._refused()
        else:
            self._lanes.push(lane, taken)

    def _begin_some(self) -> None:
        self._is_due = False
        for _ in range(BEGUN_A_TURN):
            if not self._lanes:
                break
            _, taken = self._lanes.pop()
            task = self._loop.create_task(self._begin(taken))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
        if self._timer is None and len(self._lanes) < self._most_waiting // 2:
            self._listen()
        if self._lanes:
            self._is_due = True
            self._loop.call_soon(self._begin_some)

    async def _begin(self, taken: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, taken)
        except OSError:
            taken.close()
