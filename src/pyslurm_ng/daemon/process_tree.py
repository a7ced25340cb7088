"""The processes below one process: which they are, what they use, how to signal them all.

The supervisor is a subreaper: a task's descendants stay below it in the process tree, even after a
double fork, setsid or nohup. So its descendants are the step's processes, with or without a control
group.
"""

import os
import time
from _signal import pidfd_send_signal  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import SECOND_US

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_ENOSYS = 38
_TRIES = 3
_DEEPEST = 100_000
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def read_proc(path: str) -> bytes:
    """Return a file of /proc, at most 64 KiB, without the six more system calls of `open`.

    Raises:
        OSError: there is no such process.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536)
    finally:
        os.close(descriptor)


def children(pid: int) -> "list[int]":
    """Return the children of a process, those of all its threads."""
    pids: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return pids
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
        except OSError:
            continue
    return pids


def own_children() -> "list[int]":
    """Return our own children; if there are none, this takes one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    return children(os.getpid())


def own_descendants() -> "list[int]":
    """Return every process below this one, parents before children."""
    pids: list[int] = []
    for pid in own_children():
        pids += [pid, *descendants(pid)]
    return pids


def descendants(pid: int) -> "list[int]":
    """Return every process below another, parents before children."""
    pids: list[int] = []
    seen = {pid}
    unread_pids = [pid]
    while unread_pids:
        for child in children(unread_pids.pop()):
            if child not in seen:
                seen.add(child)
                pids.append(child)
                unread_pids.append(child)
    return pids


def is_below(pid: int, root: int) -> bool:
    """Return whether a process descends from another at this moment."""
    for _ in range(_TRIES):
        ancestor = pid
        for _ in range(_DEEPEST):
            ancestor = parent(ancestor)
            if ancestor == root:
                return True
            if ancestor <= 1:
                break
        if ancestor:  # 0: a process on the way has ended, and its children have another parent now
            return False
    return False


def parent(pid: int) -> int:
    """Return a process's parent, 0 if there is no such process."""
    try:
        stat = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def name_of(pid: int) -> bytes:
    """Return a process's name, at most 15 bytes of it; b"" if there is no such process."""
    try:
        return read_proc(f"/proc/{pid}/comm").removesuffix(b"\n")
    except OSError:
        return b""


def signal_below(
    root: int, pids: "list[int]", number: int, belongs: "Callable[[int], bool] | None" = None
) -> int:
    """Signal processes that descend from `root` or for which `belongs` is true; return how many.

    A moment after it was listed, a process id may belong to another process. So the process is
    opened first (pidfd), and looked at then.
    """
    signalled_count = 0
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno != _ENOSYS:
                continue
            pidfd = -1  # an old kernel; the time between the look and the signal is short
        try:
            if is_below(pid, root) or (belongs is not None and belongs(pid)):
                if pidfd >= 0:
                    pidfd_send_signal(pidfd, number)
                else:
                    os.kill(pid, number)
                signalled_count += 1
        except (ProcessLookupError, PermissionError):
            # It has ended, or it runs as another user and this process may not signal it.
            continue
        finally:
            if pidfd >= 0:
                os.close(pidfd)
    return signalled_count


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not reaped it yet."""
    try:
        stat = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return True
    return stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] in (b"Z", b"X")


class Sample:
    """What some processes use at one moment: sizes in KiB, times in microseconds, bytes."""

    __slots__ = ("cpu_us", "pages", "read_bytes", "rss_kib", "virtual_kib", "written_bytes")

    def __init__(self) -> None:
        self.rss_kib = self.virtual_kib = self.pages = self.cpu_us = 0
        self.read_bytes = self.written_bytes = 0

    def add(self, pid: int, *, counts_shared: bool = True) -> None:
        """Count one process, if it exists; with or without memory that it may share."""
        try:
            stat = read_proc(f"/proc/{pid}/stat")
        except OSError:
            return
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pages += int(fields[9])
        self.cpu_us += (int(fields[11]) + int(fields[12])) * SECOND_US // _CLOCK_TICKS
        self.virtual_kib += int(fields[20]) // 1024
        shared = 0 if counts_shared else _shared_pages(pid)
        self.rss_kib += max(0, int(fields[21]) - shared) * _PAGE_KIB
        try:
            with open(f"/proc/{pid}/io", "rb") as file:
                for line in file:
                    name, _, value = line.partition(b":")
                    if name == b"rchar":
                        self.read_bytes += int(value)
                    elif name == b"wchar":
                        self.written_bytes += int(value)
        except OSError:
            return


def _shared_pages(pid: int) -> int:
    """Return how many of a process's pages are of files or shared memory.

    /proc/PID/statm takes no lock of the process, unlike smaps_rollup, which would tell its part of
    them: a process could keep its reader waiting for as long as it likes.
    """
    try:
        return int(read_proc(f"/proc/{pid}/statm").split()[2])
    except (OSError, IndexError):
        return 0


def sample(pids: "list[int]", *, counts_shared: bool = True) -> Sample:
    """Return what processes use together; a shared page counts for each, as in Slurm, or none."""
    total = Sample()
    for pid in pids:
        total.add(pid, counts_shared=counts_shared)
    return total


def own_peak_kib() -> int:
    """Return the largest memory that this process has had, and 1 MiB more, in KiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + 1024


def stamp(now: "float | None" = None) -> str:
    """Return a local time as `2026-11-20T12:09:30.022`, as in lines in a job's output."""
    now = time.time() if now is None else now
    second = int(now)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(second))
    return f"{text}.{int(now * 1000) % 1000:03d}"
