"""The clocks of a step's GPUs, set by a process beside it; after the step the driver has them.

NVML may hang, so the process has a deadline, and the loop goes on while it runs.
"""

import os
import select
import time
from _signal import SIGKILL, pidfd_send_signal  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import ClocksSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_processes import StepProcesses

_LIMIT_S = 10.0
_MOST_BYTES = 65536


class StepClocks:
    """Sets what was asked for.

    Args:
        spec: None if the GPUs keep their clocks.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "ClocksSpec | None",
        processes: "StepProcesses",
        ending: "StepEnding",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._processes = processes
        self._ending = ending
        self._is_set = False

    def set(self) -> "tuple[list[str], list[str]]":
        """Set the clocks; return what the user is to be told: clocks, problems."""
        spec = self._spec
        shown: list[str] = []
        problems: list[str] = []
        if spec is None:
            return shown, problems
        self._is_set = True
        said = self._run(["set", spec["graphics"], spec["memory"]], is_start=True)
        for line in said.splitlines():
            if line.startswith("problem: "):
                if spec["is_asked"]:
                    problems.append(f"GPU frequency setting: {line.partition(': ')[2]}")
            elif spec["is_verbose"]:
                shown.append(_shown(line))
        return shown, problems

    def restore(self) -> None:
        """Let the driver choose the clocks again."""
        if self._is_set:
            self._is_set = False
            self._run(["reset"], is_start=False)

    def _run(self, words: "list[str]", *, is_start: bool) -> str:
        """Run the process, serving the step meanwhile; return what it has said by its deadline."""
        assert self._spec is not None
        command = self._spec["command"]
        gpus = ",".join(map(str, self._spec["gpus"]))
        argv = [*command, words[0], gpus, *words[1:]]
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            pid = os.posix_spawn(
                argv[0], argv, os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, theirs, 1),
                              (os.POSIX_SPAWN_DUP2, null, 2)],
            )  # fmt: skip
        except OSError as error:
            os.close(ours)
            return f"problem: {argv[0]}: {error.strerror}"
        finally:
            os.close(null)
            os.close(theirs)
        pidfd = _opened(pid)
        self._processes.beside.add(pid)
        try:
            return self._heard(ours, is_start=is_start)
        finally:
            os.close(ours)
            self._processes.beside.discard(pid)
            _end(pid, pidfd)

    def _heard(self, pipe: int, *, is_start: bool) -> str:
        parts: list[bytes] = []
        is_over: list[bool] = []

        def take(events: int) -> None:
            try:
                part = os.read(pipe, _MOST_BYTES)
            except BlockingIOError:
                return
            parts.append(part)
            if not part or sum(map(len, parts)) > _MOST_BYTES:
                is_over.append(True)

        self._loop.watch(pipe, select.POLLIN, take)
        give_up = time.monotonic() + _LIMIT_S
        try:
            while not is_over and not (is_start and self._ending.is_dying):
                left_s = give_up - time.monotonic()
                if left_s <= 0:
                    parts.append(f"problem: NVML did not answer within {_LIMIT_S:.0f} s\n".encode())
                    break
                self._loop.turn(left_s)
        finally:
            self._loop.drop(pipe)
        return b"".join(parts).decode("utf-8", "replace")


def _shown(line: str) -> str:
    """Return a line of the process as Slurm's `verbose` shows clocks."""
    pairs = dict(word.partition("=")[::2] for word in line.split())
    clocks = [f"memory_freq:{pairs['memory']}"] if pairs.get("memory", "0") != "0" else []
    clocks += [f"graphics_freq:{pairs['graphics']}"] if pairs.get("graphics", "0") != "0" else []
    return f"GpuFreq={','.join(clocks)}"


def _end(pid: int, pidfd: int) -> None:
    """End the process, which may be reaped already; one that hangs in a driver is left behind."""
    try:
        if pidfd >= 0:
            pidfd_send_signal(pidfd, SIGKILL)
            os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def _opened(pid: int) -> int:
    """Return a descriptor of our child, which nobody has reaped yet; -1 on an old kernel."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
