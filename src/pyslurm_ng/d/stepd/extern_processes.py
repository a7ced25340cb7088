"""Processes from outside that belong to an extern step: logins, and what they start.

They are not children of the supervisor. Where control groups are used, the step's group has them
and all that they start. Without one they are known by their numbers, by descent, and, after their
session has gone, by the variable SSH_CONNECTION, which is another one for each login. A user who
clears that variable of a process that has left its session keeps it: only control groups are proof
against that.
"""

import os

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.spool.step_record import start_ticks
from pyslurm_ng.daemon.process_tree import descendants, read_proc, sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.host.cgroup import GroupUsage

_MARK = b"SSH_CONNECTION="
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_MARKS = 1000


class Outside:
    """The processes from outside.

    Args:
        uid: the user whose processes are looked for by their variables.
    """

    def __init__(self, uid: int) -> None:
        self._uid = uid
        self._known: dict[int, int] = {}  # when each began, by process id
        self._marks: dict[bytes, None] = {}
        self._times: dict[tuple[int, int], tuple[int, int]] = {}
        self._peaks: dict[str, int] = {}

    def add(self, pid: int, start: int) -> None:
        """Take a process in."""
        self._known[pid] = start

    def has(self, pid: int) -> bool:
        """Return whether a process is one of them, and not another with its number."""
        return self._known.get(pid, 0) == start_ticks(pid) != 0

    def known(self) -> "list[tuple[int, int]]":
        """Return process ids and when each began."""
        return list(self._known.items())

    def pids(self) -> "list[int]":
        """Return the processes that there are now, with what they have started."""
        starts = {pid: start for pid, start in self._known.items() if start_ticks(pid) == start}
        if not starts and not self._marks:
            return []
        for pid in list(starts):
            _note(starts, descendants(pid))
        for pid in starts:
            mark = _mark_of(pid, self._uid)
            if mark and len(self._marks) < _MOST_MARKS:
                self._marks[mark] = None
        if self._marks:
            _note(starts, [pid for pid in _all() if _mark_of(pid, self._uid) in self._marks])
        self._known = starts
        return list(starts)

    def measure(self, pids: "list[int]") -> None:
        """Note what processes use now; their peaks and their times stay."""
        use = sample(pids)
        for name in ("rss_kib", "virtual_kib", "pages", "read_bytes", "written_bytes"):
            self._peaks[name] = max(self._peaks.get(name, 0), getattr(use, name))
        ended: dict[tuple[int, int], tuple[int, int]] = {}
        total_user = total_system = 0
        for pid in pids:
            key, times = _times(pid)
            if key[1]:
                ended[key] = times
        for key, (user, system) in self._times.items():
            if key not in ended and key != (0, 0):
                total_user, total_system = total_user + user, total_system + system
        gone = self._times.get((0, 0), (0, 0))
        ended[0, 0] = gone[0] + total_user, gone[1] + total_system
        self._times = ended

    def counts(self, group: "GroupUsage | None") -> "dict[str, int]":
        """Return the usage so far; `group` is what the kernel has counted, if it did."""
        user_us = sum(user for user, _ in self._times.values())
        system_us = sum(system for _, system in self._times.values())
        peaks = dict(self._peaks)
        if group is not None:
            user_us, system_us = max(user_us, group.user_us), max(system_us, group.system_us)
            peaks["rss_kib"] = max(peaks.get("rss_kib", 0), group.peak_kib)
        return {**peaks, "user_us": user_us, "system_us": system_us, "cpu_us": user_us + system_us}


def _note(starts: "dict[int, int]", pids: "list[int]") -> None:
    for pid in pids:
        if pid not in starts:
            start = start_ticks(pid)
            if start:
                starts[pid] = start


def _all() -> "list[int]":
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _mark_of(pid: int, uid: int) -> bytes:
    """Return a process's SSH_CONNECTION, b"" where it has none or is another user's."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != uid:
            return b""
        entries = read_proc(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return b""
    return next((entry for entry in entries if entry.startswith(_MARK)), b"")


def _times(pid: int) -> "tuple[tuple[int, int], tuple[int, int]]":
    """Return a process's number and start, and its user and system times in microseconds."""
    try:
        stat = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return (pid, 0), (0, 0)
    fields = stat[stat.rindex(b")") + 2 :].split()
    user, system = (int(fields[column]) * SECOND_US // _CLOCK_TICKS for column in (11, 12))
    return (pid, int(fields[19])), (user, system)
