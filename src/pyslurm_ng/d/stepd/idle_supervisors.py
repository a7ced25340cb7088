"""Supervisors that have seen their step end and wait for the next one of the same user.

Most of what a short step costs on its node is not its tasks: it is the fork of a supervisor, the
copies of the pages that it then writes to, and its end. So a supervisor whose step ended well asks
the template for another one. It serves one step at a time and one user only, so the death of a
supervisor still costs one step, and no step's secrets meet another user's.

It must be as if it were new: its step was a plain one, told by nobody to end and without faults, no
process is left below it, and all that the step had open is closed. Otherwise it ends as before.

A supervisor that is killed while it waits costs no step: it says when it takes one, and the
template keeps the step's channel until then. Its socket alone does not tell, because the kernel
closes it only with the last thread of the process, and a step sent before that would be lost.
"""

import gc
import os
import struct
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGTERM,
    set_wakeup_fd,
    signal,
)
from _socket import (
    AF_UNIX,
    MSG_DONTWAIT,
    SCM_RIGHTS,
    SOCK_CLOEXEC,
    SOCK_SEQPACKET,
    SOL_SOCKET,
    socket,
    socketpair,
)

from pyslurm_ng.d.stepd.own_process import close_all_but
from pyslurm_ng.daemon.process_tree import own_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_IDLE = 32
"""So many wait on one node at most: as many as ran at once before, some 3 MiB each.

When all places are taken, the user who has most makes room for others.
"""
IDLE_S = 5.0
"""One that nobody needs for so long ends; a user's next burst of jobs pays for new ones."""
_MOST_STEPS = 256
"""Then a supervisor ends, so that nothing in it can grow for ever."""
_REQUEST_BYTES = 8192
_NEXT = b"next"
_TAKEN = b"taken"

STAYS = 1
"""Its step is over, and it waits for another one."""
TAKES = 2
"""It has taken the step that it was given."""
ENDS = 3
"""It serves no further step."""


class IdleSupervisors:
    """The template's side: a socket to each supervisor that may serve another step."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket] = {}  # by process id
        self._idle: list[tuple[int, int, float]] = []  # pid, uid, until when; the oldest first
        self._leaving: list[int] = []  # those that made room
        self._given: dict[int, int] = {}  # channels of steps that are not taken yet, by process id

    def pair(self) -> "tuple[socket, socket]":
        """Return the two ends for a supervisor that is about to be forked."""
        return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)

    def add(self, pid: int, ours: socket) -> int:
        """Keep our end; return the descriptor that is ready to read when there is news."""
        self._sockets[pid] = ours
        return ours.fileno()

    def news_of(self, pid: int, uid: int, now_s: float) -> int:
        """Take what a supervisor says: STAYS, TAKES or ENDS."""
        try:
            said = self._sockets[pid].recv(16, MSG_DONTWAIT)
        except OSError:
            said = b""
        if said == _TAKEN:
            os.close(self._given.pop(pid))
            return TAKES
        if said != _NEXT or not self._make_room(uid):
            return ENDS
        self._idle.append((pid, uid, now_s + IDLE_S))
        return STAYS

    def _make_room(self, uid: int) -> bool:
        """Return whether one more of this user may wait; the user who has most makes room."""
        if len(self._idle) < MOST_IDLE:
            return True
        owners = [owner for _, owner, _ in self._idle]
        most = max(owners, key=owners.count)
        if owners.count(most) <= owners.count(uid) + 1:
            return False
        self._leaving.append(self._idle.pop(owners.index(most))[0])
        return True

    def not_taken(self, pid: int) -> int:
        """Return the channel of the step that a supervisor that has ended did not take, or -1."""
        if pid in self._given and pid in self._sockets:
            self.news_of(pid, -1, 0.0)  # it may have said so with its last breath
        return self._given.pop(pid, -1)

    def forget(self, pid: int) -> int:
        """Let a supervisor end, or forget one that has; return the descriptor that is closed."""
        self._idle = [entry for entry in self._idle if entry[0] != pid]
        self._leaving = [other for other in self._leaving if other != pid]
        ours = self._sockets.pop(pid, None)
        if ours is None:
            return -1
        descriptor = ours.fileno()
        ours.close()
        return descriptor

    def choose(self, uid: int) -> int:
        """Return a supervisor of this user that waited until now; 0 if there is none."""
        pid = next((pid for pid, owner, _ in reversed(self._idle) if owner == uid), 0)
        self._idle = [entry for entry in self._idle if entry[0] != pid]
        return pid

    def give(self, pid: int, path: str, channel: int) -> bool:
        """Have a chosen supervisor serve a step; return whether it can.

        The channel is closed here when the supervisor has taken the step.
        """
        rights = [(SOL_SOCKET, SCM_RIGHTS, struct.pack("i", channel))]
        try:
            self._sockets[pid].sendmsg([os.fsencode(path)], rights, MSG_DONTWAIT)
        except OSError:
            return False  # it was killed
        self._given[pid] = channel
        return True

    def wait_ms(self, now_s: float) -> int:
        """Return the milliseconds until the first has waited for too long; -1 if none waits."""
        if self._leaving:
            return 0
        return max(0, int((self._idle[0][2] - now_s) * 1000) + 1) if self._idle else -1

    def overdue(self, now_s: float) -> "list[int]":
        """Return the processes that have waited for too long, or made room for others."""
        return self._leaving + [pid for pid, _, until_s in self._idle if until_s <= now_s]

    def all(self) -> "list[int]":
        """Return every supervisor that has a socket here."""
        return list(self._sockets)


class NextSteps:
    """The supervisor's side: asks for the next step, and gets it or is to end.

    Args:
        theirs: its end of the socket to the template.
        say_idle: shows that it has no step now.
    """

    def __init__(self, theirs: socket, say_idle: "Callable[[], None]") -> None:
        self._theirs = theirs
        self._say_idle = say_idle
        self._steps = 0

    def wait(self, *, is_as_new: bool) -> "tuple[str, int]":
        """Return the next step's file and its channel; "" when this process is to end.

        Args:
            is_as_new: whether the last step has left nothing but garbage in this process.
        """
        self._steps += 1
        if not is_as_new or own_children() or self._steps >= _MOST_STEPS or os.geteuid() != 0:
            return "", -1
        set_wakeup_fd(-1)
        signal(SIGCHLD, SIG_DFL)
        signal(SIGTERM, SIG_IGN)
        # Sockets are closed by their objects: no object may close a number that is used again.
        gc.collect()
        close_all_but([self._theirs.fileno()])
        self._say_idle()
        try:
            self._theirs.send(_NEXT)
        except OSError:
            return "", -1
        path, channel = receive_request(self._theirs)
        if path:
            try:
                self._theirs.send(_TAKEN)
            except OSError:
                pass  # the template has let everything go, and no longer asks
        return path, channel


def receive_request(source: socket) -> "tuple[str, int]":
    """Return what is to be done and the channel of who does it; "" when nothing more comes."""
    while True:
        try:
            body, ancillary, _, _ = source.recvmsg(_REQUEST_BYTES, 64)
        except InterruptedError:
            continue
        except OSError:
            return "", -1
        if not body:
            return "", -1
        channel = -1
        for level, kind, content in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                (channel,) = struct.unpack("i", content[:4])
        if channel >= 0:
            os.set_inheritable(channel, False)
            return os.fsdecode(body), channel
