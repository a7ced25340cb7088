"""Control groups of a step, version 1 and 2: limits, devices, counting, and ending what is inside.

The node daemon decides what is confined (`cgroup_plan`) and hands the supervisor a plain plan:

    version     1 or 2
    root        where the hierarchy is mounted (for 1: the directory of the controllers)
    job, step   paths of the groups below root, the step's inside the job's
    controllers for 1: names of the hierarchies to be in; for 2: controllers to enable
    memory      bytes for the job, `step_memory` for the step; 0: no limit
    swap        bytes of memory and swap together; -1: not limited
    cpus        list text of host CPUs, "" for all; `step_cpus` likewise
    deny        devices `c 195:1 rwm` that the step must not open

Groups are shared: several steps of a job, several slurmds of a host; a directory is removed by
whoever leaves it last, and that it cannot be removed is then no error.
"""

import errno
import os

from pyslurm_ng.d.process_tree import signal_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KILL_ROUNDS = 20


class CgroupError(Exception):
    """A group could not be made as configured; the text names file and cause."""


def _write(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CgroupError(f"{path}: {error.strerror}") from None
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise CgroupError(f"{path}: cannot write {text!r}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError:
        return ""


def _make(directory: str) -> bool:
    """Make a directory; return whether it is new."""
    try:
        os.mkdir(directory, 0o755)
    except FileExistsError:
        return False
    except OSError as error:
        raise CgroupError(f"{directory}: {error.strerror}") from None
    return True


def _counter(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


class StepCgroup:
    """The groups of one step; made by `enter`, gone after `leave`."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        self._plan = plan
        self._is_v2 = plan["version"] == 2
        self._job_paths: list[str] = []
        self._step_paths: list[str] = []
        self._oom_before = 0

    def _place(self, controller: str, path: str) -> str:
        root = self._plan["root"]
        return f"{root}/{path}" if self._is_v2 else f"{root}/{controller}/{path}"

    def make(self) -> "list[int]":
        """Make the groups and set their limits; return descriptors for tasks to join by.

        Raises:
            CgroupError: a limit that the configuration asks for cannot be set.
        """
        if self._is_v2:
            self._make_v2()
        else:
            for controller in self._plan["controllers"]:
                self._make_v1(controller)
        self._oom_before = self.oom_kills()
        joins = []
        for path in self._step_paths:
            try:
                joins.append(os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            except OSError as error:
                raise CgroupError(f"{path}/cgroup.procs: {error.strerror}") from None
        return joins

    def _make_v1(self, controller: str) -> None:
        plan = self._plan
        parts = plan["job"].split("/")
        for depth in range(1, len(parts) + 1):
            directory = self._place(controller, "/".join(parts[:depth]))
            if _make(directory) and controller == "cpuset":
                self._inherit_cpuset(directory)
        job, step = self._place(controller, plan["job"]), self._place(controller, plan["step"])
        if _make(step) and controller == "cpuset":
            self._inherit_cpuset(step)
        self._job_paths.append(job)
        self._step_paths.append(step)
        if controller == "memory":
            for path, limit in ((job, plan["memory"]), (step, plan["step_memory"])):
                self._limit_memory_v1(path, limit)
        elif controller == "cpuset":
            for path, cpus in ((job, plan["cpus"]), (step, plan["step_cpus"])):
                if cpus:
                    _write(f"{path}/cpuset.cpus", cpus)
        elif controller == "devices":
            for device in plan["deny"]:
                _write(f"{step}/devices.deny", device)

    def _limit_memory_v1(self, path: str, limit: int) -> None:
        if not limit:
            return
        _write(f"{path}/memory.limit_in_bytes", str(limit))
        swap = self._plan["swap"]
        if swap >= 0 and os.path.exists(f"{path}/memory.memsw.limit_in_bytes"):
            _write(f"{path}/memory.memsw.limit_in_bytes", str(max(limit, swap)))

    @staticmethod
    def _inherit_cpuset(directory: str) -> None:
        parent = os.path.dirname(directory)
        for name in ("cpuset.cpus", "cpuset.mems"):
            text = _read(f"{parent}/{name}").strip()
            if text and not _read(f"{directory}/{name}").strip():
                _write(f"{directory}/{name}", text)

    def _make_v2(self) -> None:
        plan = self._plan
        parts = plan["step"].split("/")
        wanted = [name for name in plan["controllers"] if name in self._enabled_at_root()]
        for depth in range(len(parts)):
            directory = self._place("", "/".join(parts[:depth])) if depth else plan["root"]
            if depth:
                _make(directory)
            for name in wanted:
                if name not in _read(f"{directory}/cgroup.subtree_control").split():
                    _write(f"{directory}/cgroup.subtree_control", f"+{name}")
        job, step = self._place("", plan["job"]), self._place("", plan["step"])
        _make(step)
        self._job_paths.append(job)
        self._step_paths.append(step)
        for path, limit, cpus in (
            (job, plan["memory"], plan["cpus"]),
            (step, plan["step_memory"], plan["step_cpus"]),
        ):
            if limit:
                _write(f"{path}/memory.max", str(limit))
                if plan["swap"] >= 0:
                    _write(f"{path}/memory.swap.max", str(max(0, plan["swap"] - limit)))
            if cpus:
                _write(f"{path}/cpuset.cpus", cpus)
        if plan["deny"]:
            from pyslurm_ng.d.device_filter import deny_devices

            deny_devices(step, plan["deny"])

    def _enabled_at_root(self) -> "list[str]":
        return _read(f"{self._plan['root']}/cgroup.controllers").split()

    # While it runs ----------------------------------------------------------------------------

    def pids(self) -> "list[int]":
        """Return the processes in the step's groups."""
        found: dict[int, None] = {}
        for path in self._step_paths:
            for word in _read(f"{path}/cgroup.procs").split():
                found[int(word)] = None
        return list(found)

    def oom_kills(self) -> int:
        """Return how many processes of the step the kernel has killed for their memory."""
        for path in self._step_paths:
            text = _read(f"{path}/memory.events" if self._is_v2 else f"{path}/memory.oom_control")
            if text:
                return _counter(text, "oom_kill") - self._oom_before
        return 0

    def freeze(self, *, frozen: bool) -> bool:
        """Stop or continue everything inside at once; return whether that is possible here."""
        for path in self._step_paths:
            name, words = "cgroup.freeze", ("1", "0")
            if not self._is_v2:
                name, words = "freezer.state", ("FROZEN", "THAWED")
            if os.path.exists(f"{path}/{name}"):
                _write(f"{path}/{name}", words[0] if frozen else words[1])
                return True
        return False

    def kill(self) -> None:
        """Send SIGKILL to everything inside; those who fork meanwhile are caught by repetition."""
        if self._is_v2:
            for path in self._step_paths:
                try:
                    _write(f"{path}/cgroup.kill", "1")
                    return
                except CgroupError:
                    continue
        for _ in range(_KILL_ROUNDS):
            pids = self.pids()
            if not pids or not signal_all(pids, 9):
                return

    def leave(self) -> None:
        """Remove the groups; the job's too when this was its last step here."""
        for path in self._step_paths + self._job_paths:
            try:
                os.rmdir(path)
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOENT, errno.ENOTEMPTY):
                    continue
