"""The process that opens a step's files and starts its tasks, and the supervisor's hold on it.

It is forked for each step, works through the tasks (`step_tasks`) and ends. Working directories,
files, programs and their interpreters are the user's: whatever they do to the one who touches them,
the supervisor still hears cancellation and the time limit. The tasks it starts are children of the
supervisor from the beginning (CLONE_PARENT).

Messages to the supervisor, msgpack maps with descriptors beside:

    {file}              a file to be written with labels: its number
    {stderr}            a copy of the step's stderr, for notices
    {task, pid, status, is_over, inlet (0: none, 1: a pipe, 2: a terminal), outlets (stream, file
     number or -1), has_stderr, notes}
                        with descriptors of inlet, outlets and stderr
    {failed, text, notes, trace}    the step cannot start; trace only of a bug
    {done, notes}
"""

import os
import struct
import time
from _signal import SIGKILL  # type: ignore[import-not-found]
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socketpair

from pyslurm_ng._records import pack, unpack
from pyslurm_ng.d.stepd.own_process import fork_own
from pyslurm_ng.d.stepd.step_faults import trace_of
from pyslurm_ng.d.stepd.step_tasks import FILES_STATUS, CannotStart, TaskStarter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from typing import Any

_MESSAGE_BYTES = 1 << 18
_MOST_PASSED = 64
_FORK_LIMIT_S = 60.0
_FORK_PAUSE_S = 0.1


class Launch:
    """The supervisor's side.

    Args:
        spec: of the step.
        joins: descriptors of the step's control groups.
        is_routed: whether streams without a file go to srun.
    """

    def __init__(self, spec: "dict[str, Any]", joins: "list[int]", *, is_routed: bool) -> None:
        """Begin. Raises OSError."""
        self._channel, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._channel.setblocking(False)

        def work() -> None:
            _work(spec, joins, theirs, is_routed=is_routed)

        try:
            self.pid = fork_own(work, [theirs.fileno(), *joins])
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()

    def fileno(self) -> int:
        """Return what is ready to read when there is a message."""
        return self._channel.fileno()

    def take(self) -> "tuple[dict[str, Any] | None, list[int]]":
        """Return the next message and its descriptors: {} at the end, None if there is none yet."""
        room = _MOST_PASSED * 4 + 64
        try:
            body, ancillary, _, _ = self._channel.recvmsg(_MESSAGE_BYTES, room, MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return None, []
        except OSError:
            return {}, []
        passed: list[int] = []
        for level, kind, content in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                passed += struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4])
        return (unpack(body) if body else {}), passed

    def kill(self) -> None:
        """Start nothing more. Only before the supervisor reaps: it may be another process then."""
        os.kill(self.pid, SIGKILL)

    def close(self) -> None:
        """Let go; the process ends by itself, or was killed."""
        self._channel.close()


def launch(
    spec: "dict[str, Any]",
    joins: "list[int]",
    goes_on: "Callable[[float], bool]",
    *,
    is_routed: bool,
) -> Launch:
    """Return a launch that has begun; another job may have all processes there are for a while.

    Args:
        goes_on: serves for so many seconds and returns whether the step is still to start.

    Raises:
        CannotStart: no process was to be had in a minute.
    """
    give_up = time.monotonic() + _FORK_LIMIT_S
    while True:
        try:
            return Launch(spec, joins, is_routed=is_routed)
        except OSError as error:
            if time.monotonic() > give_up or not goes_on(_FORK_PAUSE_S):
                raise CannotStart(FILES_STATUS, f"fork: {error.strerror}") from None


def _work(
    spec: "dict[str, Any]", joins: "list[int]", channel: "socket", *, is_routed: bool
) -> None:
    def tell(fields: "dict[str, Any]", passed: "Sequence[int]" = ()) -> None:
        rights = struct.pack(f"{len(passed)}i", *passed)
        beside = [(SOL_SOCKET, SCM_RIGHTS, rights)] if passed else []
        channel.sendmsg([pack(fields)], beside)

    channel.setblocking(True)
    starter = TaskStarter(spec, joins, tell, is_routed=is_routed)
    try:
        starter.run()
    except CannotStart as problem:
        fields = {"failed": problem.status, "text": problem.text}
        tell({**fields, "notes": starter.notes_for_srun()})
    except Exception as error:  # noqa: BLE001 - the supervisor tells of it
        text = f"start: {type(error).__name__}: {error}"[:1000]
        tell({"failed": FILES_STATUS, "text": text, "notes": [], "trace": trace_of(error)})
    else:
        tell({"done": True, "notes": starter.notes_for_srun()})
