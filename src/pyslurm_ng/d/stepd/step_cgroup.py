"""The supervisor's side of control groups: make, join, watch and leave those of one step.

slurmd decides where they are and what they limit (`job_spec.cgroup_plan`). The plan is a map:

    version          1 or 2
    job, step        directories by controller (v2: one, `unified`)
    job_limits,      map of `mem_mib`, `swap_mib`, `cpus`, `denied` (kind, major, minor), and
                     `dies_whole`: out of memory ends every process
    step_limits

The steps of a job share its group, and the last step on the node removes it.
"""

import errno
import os

from pyslurm_ng.d.host.cgroup import Group, GroupUsage, GroupV1, GroupV2, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import CgroupPlan, GroupLimits


NO_GROUPS = "control groups cannot be made"
"""Why a node is drained."""
_OF_THE_NODE = (errno.EACCES, errno.ENODEV, errno.ENOENT, errno.EPERM, errno.EROFS)


class CgroupError(OSError):
    """A group cannot be made as configured; `strerror` names the file and the cause."""

    @property
    def drain(self) -> str:
        """Why the node should take no further jobs; "" where the job may be the cause."""
        return NO_GROUPS if self.errno in _OF_THE_NODE else ""


def cgroup_error(error: OSError, group: Group) -> CgroupError:
    """Return what to raise for an error about a group."""
    path = os.fsdecode(error.filename or next(iter(group.directories.values())))
    return CgroupError(error.errno, f"control group {path}: {error.strerror}")


def limits_of(fields: "GroupLimits") -> Limits:
    """Return the limits of a job or step from the map of its plan."""
    cpus = fields.get("cpus")
    return Limits(
        mem_mib=fields.get("mem_mib", 0),
        swap_mib=fields.get("swap_mib", -1),
        swappiness=fields.get("swappiness", -1),
        cpus=tuple(cpus) if cpus else None,
        dies_whole=fields.get("dies_whole", False),
        denied=tuple((kind, major, minor) for kind, major, minor in fields.get("denied", ())),
    )


class StepCgroup:
    """The groups of one step."""

    def __init__(self, plan: "CgroupPlan") -> None:
        kind = GroupV1 if plan["version"] == 1 else GroupV2
        self._job = job_group(plan)
        self._step: Group = kind(plan["step"])
        self._job_limits = limits_of(plan["job_limits"])
        self._step_limits = limits_of(plan["step_limits"])
        self._oom_before = 0

    def make(self) -> "list[int]":
        """Make the groups with their limits; return the descriptors by which tasks join.

        Raises:
            CgroupError: a configured limit cannot be set.
        """
        try:
            # With this step's group in it, the job's stays, even if the job's other step ends now.
            self._step.make()
            self._job.create(self._job_limits)
            self._step.limit(self._step_limits)
            joins = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in self._step.join_files()]
        except OSError as error:
            raise cgroup_error(error, self._step) from None
        self._oom_before = self._step.usage().oom_kills if self._step_limits.mem_mib else 0
        return joins

    def add(self, pid: int) -> None:
        """Take in a process from outside; raises OSError."""
        self._step.add(pid)

    def usage(self) -> GroupUsage:
        """Return what the kernel has counted for the step's group."""
        return self._step.usage()

    def pids(self) -> "list[int]":
        """Return the processes that the kernel has in the step's group."""
        return self._step.pids()

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed for the step's memory limit."""
        if not self._step_limits.mem_mib:
            return 0
        return self._step.usage().oom_kills - self._oom_before

    def freeze(self, *, frozen: bool) -> bool:
        """Stop or continue all processes of the group at once; return whether that is so now."""
        try:
            return self._step.set_frozen(frozen)
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the processes that are in the group now. Call again until there are none."""
        self._step.kill_once()

    def leave(self) -> None:
        """Remove the step's groups, and those of the job if no other step uses them."""
        self._step.remove()
        leave_job(self._job)


def job_group(plan: "CgroupPlan") -> Group:
    """Return the group of a step's job."""
    return GroupV1(plan["job"]) if plan["version"] == 1 else GroupV2(plan["job"])


def leave_job(group: Group) -> None:
    """Remove a job's group if it is empty."""
    for directory in group.directories.values():
        for path in (f"{directory}/user", directory):
            try:
                os.rmdir(path)
            except OSError:
                continue  # it does not exist, or another step uses it
