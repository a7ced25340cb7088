"""Control groups of jobs and steps, in either version of the kernel's interface.

v1: `<mount>/<controller>/slurm_<node>/uid_<uid>/job_<id>/step_<id>`, one directory per controller.
v2: `<mount>/system.slice/<node>_slurmstepd.scope/job_<id>/step_<id>`.

Only `os` is imported, since the step supervisors use this too. Every directory is made and removed
by root below a root-owned mount, so no path here is a user's.
"""

import os
import time
from abc import ABC, abstractmethod

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.d.host import device_filter
from pyslurm_ng.d.host.kernel_files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_KILL_ROUNDS = 50
_MAKE_ROUNDS = 100
_KILL_PAUSE_S = 0.01


class Limits:
    """What a job or step is confined to; zero or None does not confine.

    `swap_mib` is beside memory, -1 for no limit; `swappiness` is version 1's, -1 leaves it as it
    is; `cpus` are the kernel's CPU numbers, `denied` the devices of others.
    """

    __slots__ = ("cpus", "denied", "dies_whole", "mem_mib", "pids", "swap_mib", "swappiness")

    def __init__(
        self,
        mem_mib: int = 0,
        swap_mib: int = -1,
        cpus: "tuple[int, ...] | None" = None,
        denied: "tuple[device_filter.DeviceNode, ...]" = (),
        pids: int = 0,
        dies_whole: bool = False,
        swappiness: int = -1,
    ) -> None:
        self.swappiness = swappiness
        self.mem_mib = mem_mib
        self.dies_whole = dies_whole
        self.swap_mib = swap_mib
        self.cpus = cpus
        self.denied = denied
        self.pids = pids


class GroupUsage:
    """What a group's processes have used, dead ones included; KiB and microseconds."""

    __slots__ = ("current_kib", "oom_kills", "peak_kib", "system_us", "user_us")

    def __init__(
        self,
        user_us: int = 0,
        system_us: int = 0,
        peak_kib: int = 0,
        current_kib: int = 0,
        oom_kills: int = 0,
    ) -> None:
        self.user_us = user_us
        self.system_us = system_us
        self.peak_kib = peak_kib
        self.current_kib = current_kib
        self.oom_kills = oom_kills


def detect(mount: str, plugin: str, node_name: str) -> "Tree | None":
    """Return the tree to use, or None where control groups cannot be written.

    Args:
        plugin: CgroupPlugin: `cgroup/v1`, `cgroup/v2`, `autodetect` or `disabled`.
    """
    if plugin == "disabled":
        return None
    if plugin in ("autodetect", "cgroup/v2") and os.path.exists(f"{mount}/cgroup.controllers"):
        tree: Tree = TreeV2(mount, node_name)
        return tree if tree.is_usable() else None
    if plugin in ("autodetect", "cgroup/v1") and os.path.isdir(f"{mount}/freezer"):
        tree = TreeV1(mount, node_name)
        return tree if tree.is_usable() else None
    return None


class Group(ABC):
    """One job's or step's group; `directories` has one per controller (one in all for v2)."""

    def __init__(self, directories: dict[str, str]) -> None:
        self.directories = directories

    # What the versions do differently.

    @abstractmethod
    def make(self) -> None:
        """Make the group, and those above it, without limits; harmless if it exists."""

    @abstractmethod
    def limit(self, limits: Limits) -> None:
        """Set the limits of a group that is there; before that no process can join it."""

    @abstractmethod
    def set_frozen(self, frozen: bool) -> bool:
        """Stop or continue every process; return whether that is so now."""

    @abstractmethod
    def usage(self) -> GroupUsage:
        """Return what the group used so far."""

    # What they share.

    def create(self, limits: Limits) -> None:
        """Make the group with its limits; harmless if it exists."""
        self.make()
        self.limit(limits)

    def join_files(self) -> list[str]:
        """Return the files into which a process writes `0` to become a member."""
        return [f"{directory}/cgroup.procs" for directory in self.directories.values()]

    def add(self, pid: int) -> None:
        """Make a process a member; 0 is the caller."""
        for path in self.join_files():
            _write(path, str(pid))

    def pids(self) -> list[int]:
        """Return all processes of the group and the groups below it."""
        pids: dict[int, None] = {}
        for directory in _with_groups_below(next(iter(self.directories.values()))):
            for word in read_text(f"{directory}/cgroup.procs").split():
                pids[int(word)] = None
        return list(pids)

    def signal(self, number: int) -> int:
        """Send a signal to every process; return how many there were."""
        pids = self.pids()
        for pid in pids:
            _signal(pid, number)
        return len(pids)

    def kill(self) -> bool:
        """Kill every process; return whether all are gone."""
        for _ in range(_KILL_ROUNDS):
            if not self.kill_once():
                return True
            time.sleep(_KILL_PAUSE_S)
        return not self.pids()

    def kill_once(self) -> int:
        """Kill what is there now; return how many there were.

        A frozen process of v1 dies only when thawed, so freeze, kill, thaw: nothing can fork away.
        """
        if not self.pids():
            return 0
        self.set_frozen(True)
        count = self.signal(9)
        self.set_frozen(False)
        return count

    def remove(self) -> bool:
        """Remove the group and all below it; return whether it is gone."""
        gone = True
        for directory in self.directories.values():
            for below in reversed(_with_groups_below(directory)):
                try:
                    os.rmdir(below)
                except FileNotFoundError:
                    continue
                except OSError:
                    gone = False
        return gone


class Tree(ABC):
    """All groups of one node daemon."""

    version = 0

    @abstractmethod
    def is_usable(self) -> bool:
        """Return whether groups can be made here."""

    @abstractmethod
    def bases(self) -> "list[str]":
        """Return the directories that all groups of this daemon are in."""

    def remove_empty(self, running_jobs: "Collection[int]" = ()) -> None:
        """Remove every group that nothing is in, except those of jobs that run.

        A step that begins has an empty group until its first task has joined.
        """
        kept = {f"job_{job_id}" for job_id in running_jobs}
        for base in self.bases():
            for directory in reversed(_with_groups_below(base)):
                if not kept.isdisjoint(directory.split("/")):
                    continue
                try:
                    os.rmdir(directory)
                except OSError:
                    continue

    @abstractmethod
    def job(self, job_id: int, uid: int) -> Group:
        """Return a job's group, made or not."""

    @abstractmethod
    def step(self, job_id: int, uid: int, step: str) -> Group:
        """Return a step's group; `step` is `0`, `batch`, `extern`."""


# Version 1 ------------------------------------------------------------------------------------


class GroupV1(Group):
    """A directory in each controller's own hierarchy."""

    def make(self) -> None:
        for directory in self.directories.values():
            _make(directory)

    def limit(self, limits: Limits) -> None:
        cpuset = self.directories.get("cpuset")
        if cpuset:
            self._set_cpus(cpuset, limits.cpus)
        memory = self.directories.get("memory")
        if memory and limits.mem_mib:
            _write(f"{memory}/memory.limit_in_bytes", str(limits.mem_mib << 20))
            if limits.swap_mib >= 0:
                limit_bytes = (limits.mem_mib + limits.swap_mib) << 20
                _write(f"{memory}/memory.memsw.limit_in_bytes", str(limit_bytes), optional=True)
            if limits.swappiness >= 0:
                _write(f"{memory}/memory.swappiness", str(limits.swappiness), optional=True)
        pids = self.directories.get("pids")
        if pids and limits.pids:
            _write(f"{pids}/pids.max", str(limits.pids))
        devices = self.directories.get("devices")
        if devices:
            for kind, major, minor in limits.denied:
                _write(f"{devices}/devices.deny", f"{kind} {major}:{minor} rwm")

    def _set_cpus(self, directory: str, cpus: "tuple[int, ...] | None") -> None:
        """A cpuset takes no process before it has CPUs and memory nodes; inherit from above."""
        above = os.path.dirname(directory)
        for name in ("cpuset.mems", "cpuset.cpus"):
            if not read_text(f"{above}/{name}").strip():
                self._set_cpus(above, None)
            if not read_text(f"{directory}/{name}").strip():
                _write(f"{directory}/{name}", read_text(f"{above}/{name}").strip())
        if cpus:
            _write(f"{directory}/cpuset.cpus", ",".join(map(str, cpus)))

    def set_frozen(self, frozen: bool) -> bool:
        path = f"{self.directories.get('freezer')}/freezer.state"
        if not os.path.exists(path):
            return False
        state = "FROZEN" if frozen else "THAWED"
        for _ in range(_KILL_ROUNDS):
            _write(path, state, optional=True)
            if read_text(path).strip() == state:
                return True
            time.sleep(_KILL_PAUSE_S)
        return False

    def usage(self) -> GroupUsage:
        user = system = 0
        cpu = self.directories.get("cpuacct")
        if cpu:
            ticks_us = SECOND_US // os.sysconf("SC_CLK_TCK")
            stat = _pairs(f"{cpu}/cpuacct.stat")
            user, system = stat.get("user", 0) * ticks_us, stat.get("system", 0) * ticks_us
        memory = self.directories.get("memory")
        if not memory:
            return GroupUsage(user, system)
        control = _pairs(f"{memory}/memory.oom_control")
        return GroupUsage(
            user_us=user,
            system_us=system,
            peak_kib=_number(f"{memory}/memory.max_usage_in_bytes") >> 10,
            current_kib=_number(f"{memory}/memory.usage_in_bytes") >> 10,
            oom_kills=control.get("oom_kill", 0),
        )


class TreeV1(Tree):
    """`<mount>/<controller>/slurm_<node>/...`."""

    version = 1
    CONTROLLERS = ("freezer", "memory", "cpuset", "devices", "cpuacct", "pids")

    def __init__(self, mount: str, node_name: str) -> None:
        self._bases = {
            controller: f"{mount}/{controller}/slurm_{node_name}"
            for controller in self.CONTROLLERS
            if os.path.isdir(f"{mount}/{controller}")
        }

    def is_usable(self) -> bool:
        try:
            GroupV1(dict(self._bases)).create(Limits())
        except OSError:
            return False
        for name in ("memory.use_hierarchy",):
            base = self._bases.get("memory")
            if base and os.path.exists(f"{base}/{name}"):
                _write(f"{base}/{name}", "1", optional=True)
        return True

    def bases(self) -> "list[str]":
        return list(self._bases.values())

    def _group(self, tail: str) -> Group:
        return GroupV1({name: f"{base}/{tail}" for name, base in self._bases.items()})

    def job(self, job_id: int, uid: int) -> Group:
        return self._group(f"uid_{uid}/job_{job_id}")

    def step(self, job_id: int, uid: int, step: str) -> Group:
        return self._group(f"uid_{uid}/job_{job_id}/step_{step}")


# Version 2 ------------------------------------------------------------------------------------


class GroupV2(Group):
    """One directory; its processes live in `user` below it, as inner nodes may hold none."""

    @property
    def _directory(self) -> str:
        return self.directories["unified"]

    def join_files(self) -> list[str]:
        return [f"{self._directory}/user/cgroup.procs"]

    def make(self) -> None:
        _make(f"{self._directory}/user")

    def limit(self, limits: Limits) -> None:
        directory = self._directory
        for level in (os.path.dirname(directory), directory):
            _enable_controllers(level)
        if limits.mem_mib:
            _write(f"{directory}/memory.max", str(limits.mem_mib << 20))
            if limits.swap_mib >= 0:
                _write(f"{directory}/memory.swap.max", str(limits.swap_mib << 20), optional=True)
            if limits.dies_whole:
                _write(f"{directory}/memory.oom.group", "1", optional=True)
        if limits.cpus:
            _write(f"{directory}/cpuset.cpus", ",".join(map(str, limits.cpus)))
        if limits.pids:
            _write(f"{directory}/pids.max", str(limits.pids))
        if limits.denied:
            device_filter.deny(directory, limits.denied)

    def set_frozen(self, frozen: bool) -> bool:
        path, state = f"{self._directory}/cgroup.freeze", int(frozen)
        if not os.path.exists(path):
            return False
        _write(path, str(state), optional=True)
        for _ in range(_KILL_ROUNDS):
            if _pairs(f"{self._directory}/cgroup.events").get("frozen", 0) == state:
                return True
            time.sleep(_KILL_PAUSE_S)
        return False

    def kill_once(self) -> int:
        """Kill what is there now; return how many there were."""
        count = len(self.pids())
        if count:
            path = f"{self._directory}/cgroup.kill"
            if os.path.exists(path):
                _write(path, "1", optional=True)
            else:
                self.signal(9)
        return count

    def usage(self) -> GroupUsage:
        directory = self._directory
        stat = _pairs(f"{directory}/cpu.stat")
        return GroupUsage(
            user_us=stat.get("user_usec", 0),
            system_us=stat.get("system_usec", 0),
            peak_kib=_number(f"{directory}/memory.peak") >> 10,
            current_kib=_number(f"{directory}/memory.current") >> 10,
            oom_kills=_pairs(f"{directory}/memory.events").get("oom_kill", 0),
        )


class TreeV2(Tree):
    """`<mount>/system.slice/<node>_slurmstepd.scope/...`."""

    version = 2

    def __init__(self, mount: str, node_name: str) -> None:
        self._mount = mount
        self._scope = f"{mount}/system.slice/{node_name}_slurmstepd.scope"

    def is_usable(self) -> bool:
        try:
            _make(self._scope)
            for level in (self._mount, os.path.dirname(self._scope), self._scope):
                _enable_controllers(level)
        except OSError:
            return False
        controllers = {"memory", "cpuset", "cpu"}
        return controllers <= set(read_text(f"{self._scope}/cgroup.controllers").split())

    def bases(self) -> "list[str]":
        return [self._scope]

    def job(self, job_id: int, uid: int) -> Group:
        return GroupV2({"unified": f"{self._scope}/job_{job_id}"})

    def step(self, job_id: int, uid: int, step: str) -> Group:
        return GroupV2({"unified": f"{self._scope}/job_{job_id}/step_{step}"})


def _enable_controllers(directory: str) -> None:
    """Let the groups below have every controller that this one has."""
    have = read_text(f"{directory}/cgroup.controllers").split()
    enabled = read_text(f"{directory}/cgroup.subtree_control").split()
    for name in have:
        if name not in enabled and name in ("cpu", "cpuset", "memory", "pids", "io"):
            _write(f"{directory}/cgroup.subtree_control", f"+{name}", optional=True)


# Files ----------------------------------------------------------------------------------------


def _make(directory: str) -> None:
    """Make a directory and those above it, which others may remove as long as they are empty."""
    for _ in range(_MAKE_ROUNDS):
        try:
            os.makedirs(directory, 0o755, exist_ok=True)
        except FileNotFoundError:
            continue
        return
    os.makedirs(directory, 0o755, exist_ok=True)


def _with_groups_below(directory: str) -> "list[str]":
    """Return a group's directory and all below it, each before those that it holds.

    A directory's links count the directories in it, so a group without any need not be listed.
    """
    directories = [directory]
    for above in directories:
        try:
            if os.stat(above).st_nlink > 2:
                with os.scandir(above) as entries:
                    directories += [
                        entry.path for entry in entries if entry.is_dir(follow_symlinks=False)
                    ]
        except OSError:
            continue  # it is gone
    return directories


def _write(path: str, text: str, *, optional: bool = False) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        if optional:
            return
        raise
    try:
        os.write(handle, text.encode())
    except OSError:
        if not optional:
            raise
    finally:
        os.close(handle)


def _number(path: str) -> int:
    text = read_text(path).strip()
    return int(text) if text.isdecimal() else 0


def _pairs(path: str) -> dict[str, int]:
    pairs = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdecimal():
            pairs[name] = int(value)
    return pairs


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
