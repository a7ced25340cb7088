"""The process that starts the tasks of a step for which programs have to run before them.

Task prologs and login shells are waited for, and may take for ever; the supervisor still hears
cancellation and the time limit. It is forked for such a step, works through the tasks
(`step_tasks`, whose messages it passes on) and ends. The tasks it starts are children of the
supervisor from the beginning (CLONE_PARENT).
"""

import os
import select
import struct
import time
from _signal import SIGKILL  # type: ignore[import-not-found]
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socketpair

from pyslurm_ng.d.stepd.own_process import fork_own
from pyslurm_ng.d.stepd.step_faults import trace_of
from pyslurm_ng.d.stepd.step_tasks import (
    FILES_STATUS,
    FORK_LIMIT_S,
    FORK_PAUSE_S,
    CannotStart,
    TaskStarter,
)
from pyslurm_ng.d.stepd.task_programs import TaskPrograms
from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import StepSpec

_MESSAGE_BYTES = 1 << 18
_MOST_PASSED = 64


class Launcher:
    """The supervisor's side, used as a `TaskStarter`.

    Args:
        spec: of the step.
        joins: descriptors of the step's control groups.
        is_routed: whether streams without a file go to srun.
    """

    def __init__(self, spec: "StepSpec", joins: "list[int]", *, is_routed: bool) -> None:
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

    next_task_pid = 0  # as `TaskStarter` knows it

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
        """Close the channel; the process ends by itself, or was killed."""
        self._channel.close()


def launch(
    spec: "StepSpec",
    joins: "list[int]",
    goes_on: "Callable[[float], bool]",
    *,
    is_routed: bool,
) -> "Launcher | TaskStarter":
    """Return a launch that has begun; another job may have all processes there are for a while.

    Args:
        goes_on: serves for so many seconds and returns whether the step is still to start.

    Raises:
        CannotStart: no process was to be had in a minute.
    """
    begin = Launcher if spec["task_prologs"] or spec["login"] else TaskStarter
    give_up = time.monotonic() + FORK_LIMIT_S
    while True:
        try:
            return begin(spec, joins, is_routed=is_routed)
        except OSError as error:
            if time.monotonic() > give_up or not goes_on(FORK_PAUSE_S):
                raise CannotStart(FILES_STATUS, f"fork: {error.strerror}") from None


def _work(spec: "StepSpec", joins: "list[int]", channel: "socket", *, is_routed: bool) -> None:
    """In the process: start the tasks and pass on reports about them."""

    def tell(fields: "dict[str, Any]", passed: "Sequence[int]" = ()) -> None:
        rights = struct.pack(f"{len(passed)}i", *passed)
        beside = [(SOL_SOCKET, SCM_RIGHTS, rights)] if passed else []
        channel.sendmsg([pack(fields)], beside)
        for descriptor in passed:
            os.close(descriptor)

    channel.setblocking(True)
    try:
        starter = TaskStarter(spec, joins, is_routed=is_routed, programs=TaskPrograms(spec, joins))
        ready = select.poll()
        ready.register(starter, select.POLLIN)
        fields: dict[str, Any] | None = None
        while fields is None or not ("done" in fields or "failed" in fields):
            fields, passed = starter.take()
            if fields is None:
                ready.poll(int(FORK_PAUSE_S * 1000))
            else:
                tell(fields, passed)
    except Exception as error:  # noqa: BLE001 - the supervisor tells of it
        text = f"start: {type(error).__name__}: {error}"[:1000]
        tell({"failed": FILES_STATUS, "text": text, "notes": [], "trace": trace_of(error)})
