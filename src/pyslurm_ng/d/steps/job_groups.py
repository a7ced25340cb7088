"""Control groups of jobs, kept from a job's first step or file on this node until its end here.

What a job leaves in file systems of memory is charged to its group for as long as the group is
there. If the last step removed the group, the next step of an allocation began with nothing
charged, and the job could fill the node's memory through /dev/shm, a step at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyslurm_ng.d.stepd.step_cgroup import cgroup_error, job_group, leave_job, limits_of

if TYPE_CHECKING:
    from pyslurm_ng.d.core.node_core import NodeCore
    from pyslurm_ng.d.host.cgroup import Group
    from pyslurm_ng.d.spool.step_contract import CgroupPlan
    from pyslurm_ng.wire import node_messages as nm

_HELD = "held"
"""A group below the job's, without processes: supervisors that leave cannot remove the job's."""


class JobGroups:
    """The groups of jobs with a memory limit.

    Args:
        core: knows which jobs are over here.
        plan_of: the control groups of a credential, None where they are not used.
    """

    def __init__(
        self, core: NodeCore, plan_of: Callable[[nm.JobCredential], CgroupPlan | None]
    ) -> None:
        self._core = core
        self._plan_of = plan_of
        self._held: dict[tuple[int, int], tuple[nm.JobCredential, Group]] = {}

    def hold(self, credential: nm.JobCredential) -> Group | None:
        """Make a job's group, if it is limited, and keep it until the job is over here.

        Raises:
            CgroupError: it cannot be made.
        """
        plan = self._plan_of(credential)
        if plan is None:
            return None
        group = job_group(plan)
        if not plan["job_limits"].get("mem_mib"):
            return group
        try:
            group.create(limits_of(plan["job_limits"]))
            for directory in group.directories.values():
                os.makedirs(f"{directory}/{_HELD}", mode=0o755, exist_ok=True)
        except OSError as error:
            raise cgroup_error(error, group) from None
        self._held[credential.job_id, credential.attempt] = (credential, group)
        return group

    def release_ended(self) -> None:
        """Remove the groups of jobs of which nothing is left."""
        for key, (credential, group) in list(self._held.items()):
            if self._core.attempt(*key) is None and self._core.is_over(credential):
                del self._held[key]
                release(group)


def release(group: Group) -> None:
    """Let a job's group be removed by the last that leaves it, now if nothing is in it."""
    for directory in group.directories.values():
        try:
            os.rmdir(f"{directory}/{_HELD}")
        except OSError:
            continue
    leave_job(group)
