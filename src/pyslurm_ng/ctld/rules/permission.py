"""What users may do to jobs of others, and what only administrators and operators may do."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job


def has_level(owner_rule: str, caller: Caller) -> bool:
    """Return whether a message with this owner rule is for users of the caller's admin level.

    Operators look at what is private and keep reservations and jobs in order. What the cluster is
    (nodes, partitions, configuration, logs) is for administrators, as in Slurm.
    """
    if owner_rule == "admin":
        return caller.is_admin
    return owner_rule != "operator" or caller.is_operator


def coordinates(cluster: Cluster, caller: Caller, account: str) -> bool:
    """Return whether the caller is a coordinator of an account, or of one above it."""
    user = cluster.users.get(caller.user_name)
    if user is None or not user.coordinator_of:
        return False
    return cluster.assoc_index.is_within(account, user.coordinator_of)


def may_change(cluster: Cluster, job: Job, caller: Caller) -> bool:
    """Return whether the caller may change or end a job: owner, coordinator, operator."""
    return job.uid == caller.uid or caller.is_operator or coordinates(cluster, caller, job.account)


def is_privileged(cluster: Cluster, job: Job, caller: Caller) -> bool:
    """Return whether the caller may do to this job what its owner may not."""
    return caller.is_operator or coordinates(cluster, caller, job.account)
