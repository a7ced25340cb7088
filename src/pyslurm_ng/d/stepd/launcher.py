"""The process that starts the tasks of a step if programs have to run before them.

Task prologs and login shells may never end, and the supervisor must still obey scancel and the time
limit. So it forks this process for such a step. The process starts the tasks one after the other,
passes the messages of `step_tasks` on, and ends. The tasks are children of the supervisor from the
beginning (CLONE_PARENT). With plugins (plugstack.conf) it stays: they run in it, see `plugin_host`.
With UsePAM it stays, too: a session is open in it until its channel closes, see `pam_session`.
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
    PLUGIN_STATUS,
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
    from pyslurm_ng.d.stepd.pam_session import PamSession
    from pyslurm_ng.d.stepd.plugin_host import PluginHost

_MESSAGE_BYTES = 1 << 18
_MOST_DESCRIPTORS = 64


class Launcher:
    """The supervisor's side, used as a `TaskStarter`.

    Args:
        spec: the step's specification.
        joins: descriptors of the step's control groups.
        is_routed: whether streams without a file go to srun.
    """

    def __init__(self, spec: "StepSpec", joins: "list[int]", *, is_routed: bool) -> None:
        """Fork the process. Raises OSError."""
        self._channel, process_end = socketpair(AF_UNIX, SOCK_SEQPACKET)
        self._channel.setblocking(False)

        def work() -> None:
            _work(spec, joins, process_end, is_routed=is_routed)

        try:
            self.pid = fork_own(work, [process_end.fileno(), *joins])
        except OSError:
            self._channel.close()
            raise
        finally:
            process_end.close()

    next_task_pid = 0  # `TaskStarter` has it; here it is not known

    def fileno(self) -> int:
        """Return the descriptor that is ready to read when there is a message."""
        return self._channel.fileno()

    def take(self) -> "tuple[dict[str, Any] | None, list[int]]":
        """Return the next message and its descriptors: {} at the end, None if there is none yet."""
        room = _MOST_DESCRIPTORS * 4 + 64
        try:
            body, ancillary, _, _ = self._channel.recvmsg(_MESSAGE_BYTES, room, MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return None, []
        except OSError:
            return {}, []
        descriptors: list[int] = []
        for level, kind, content in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                descriptors += struct.unpack(
                    f"{len(content) // 4}i", content[: len(content) // 4 * 4]
                )
        return (unpack(body) if body else {}), descriptors

    def send(self, words: "dict[str, Any]") -> bool:
        """Tell the process of plugins something; return whether it takes it now."""
        try:
            self._channel.send(pack(words))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True  # it has gone, which `take` tells
        return True

    def kill(self) -> None:
        """Kill the process, which must not be reaped yet: after that another may have its id."""
        os.kill(self.pid, SIGKILL)

    def close(self) -> None:
        """Close the channel; the process has ended, or ends by itself."""
        self._channel.close()


def launch(
    spec: "StepSpec",
    joins: "list[int]",
    goes_on: "Callable[[float], bool]",
    *,
    is_routed: bool,
) -> "Launcher | TaskStarter":
    """Begin to start the tasks, and return what starts them.

    A fork may fail for a while, because another job has taken all processes that the host allows.

    Args:
        goes_on: serves for so many seconds, then returns whether the step is still to start.

    Raises:
        CannotStart: no process could be forked in a minute.
    """
    has_programs = spec["task_prologs"] or spec["login"] or spec.get("plugins") or spec.get("pam")
    begin = Launcher if has_programs else TaskStarter
    give_up = time.monotonic() + FORK_LIMIT_S
    while True:
        try:
            return begin(spec, joins, is_routed=is_routed)
        except OSError as error:
            if time.monotonic() > give_up or not goes_on(FORK_PAUSE_S):
                raise CannotStart(FILES_STATUS, f"fork: {error.strerror}") from None


def _work(spec: "StepSpec", joins: "list[int]", channel: "socket", *, is_routed: bool) -> None:
    """Start the tasks and report about them; this runs in the forked process."""

    def tell(fields: "dict[str, Any]", descriptors: "Sequence[int]" = ()) -> None:
        rights = struct.pack(f"{len(descriptors)}i", *descriptors)
        ancillary = [(SOL_SOCKET, SCM_RIGHTS, rights)] if descriptors else []
        channel.sendmsg([pack(fields)], ancillary)
        for descriptor in descriptors:
            os.close(descriptor)

    channel.setblocking(True)
    plugins = _plugin_host(spec, joins)
    session: PamSession | None = None
    try:
        session = _pam_session(spec)
        if plugins is not None:
            _begin_plugins(plugins, tell)
        programs = TaskPrograms(spec, joins)
        starter = TaskStarter(spec, joins, is_routed=is_routed, programs=programs, plugins=plugins)
        ready = select.poll()
        ready.register(starter, select.POLLIN)
        fields: dict[str, Any] | None = None
        while fields is None or not ("done" in fields or "failed" in fields):
            fields, descriptors = starter.take()
            if fields is None:
                ready.poll(int(FORK_PAUSE_S * 1000))
            else:
                if plugins is not None:
                    tell(plugins.taken_lines())
                tell(fields, descriptors)
    except CannotStart as problem:
        tell({"failed": problem.status, "text": problem.text, "notes": []})
    except Exception as error:  # noqa: BLE001 - the supervisor reports it
        text = f"start: {type(error).__name__}: {error}"[:1000]
        tell({"failed": FILES_STATUS, "text": text, "notes": [], "trace": trace_of(error)})
    if plugins is not None:
        _serve_plugins(plugins, session, channel, tell)
    elif session is not None:
        channel.recv(_MESSAGE_BYTES)  # nothing comes until the supervisor closes its end
        session.close()


def _pam_session(spec: "StepSpec") -> "PamSession | None":
    """Open the session whose limits tasks get from us. Raises CannotStart."""
    user = spec.get("pam")
    if not user:
        return None
    from pyslurm_ng.d.stepd.pam_session import PamError, PamSession

    try:
        return PamSession(user)
    except PamError as problem:
        raise CannotStart(FILES_STATUS, str(problem)) from None


# Plugins ------------------------------------------------------------------------------------------


def _plugin_host(spec: "StepSpec", joins: "list[int]") -> "PluginHost | None":
    plugins = spec.get("plugins")
    if plugins is None:
        return None
    from pyslurm_ng.d.stepd.plugin_host import PluginHost

    return PluginHost(spec, plugins, joins)


def _begin_plugins(plugins: "PluginHost", tell: "Callable[[dict[str, Any]], None]") -> None:
    """Call what comes before all tasks. Raises CannotStart."""
    from pyslurm_ng.policy.spank_stack import PluginFailed

    try:
        changes = plugins.begin()
    except PluginFailed as problem:
        tell(plugins.taken_lines())
        raise CannotStart(PLUGIN_STATUS, str(problem)) from None
    tell({**plugins.taken_lines(), **changes})


def _serve_plugins(
    plugins: "PluginHost",
    session: "PamSession | None",
    channel: "socket",
    tell: "Callable[[dict[str, Any]], None]",
) -> None:
    """Call what comes after tasks when the supervisor says so, until it has called `exit`."""
    while True:
        body = channel.recv(_MESSAGE_BYTES)
        if not body:
            return
        words = unpack(body)
        if "exit" in words:
            plugins.exit()
            if session is not None:
                session.close()
        else:
            plugins.task_exit(words["over"], words["pid"], words["status"])
        tell(plugins.taken_lines())
