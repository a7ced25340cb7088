"""What `scontrol update job` gathers for one job, and keys that only write a field."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.base import units
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.orders.job_orders import comes_back
from pyslurm_ng.ctld.rules.permission import is_privileged
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, NodeAlloc
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.request.features import spelled


class Change:
    """What an update does to one job: `fields` of the Job, `request` fields of its request.

    A key's function returns 0 or an error number. `nodes` is what a running job keeps of its own.
    `licenses_taken` counts what running jobs get on top of theirs, in all of one request.
    """

    def __init__(
        self, cluster: Cluster, job: Job, context: Context, licenses_taken: dict[str, int]
    ) -> None:
        self.cluster = cluster
        self.job = job
        self.context = context
        self.is_privileged = is_privileged(cluster, job, context.caller)
        self.fields: dict[str, object] = {}
        self.request: dict[str, object] = {}
        self.nodes = job.nodes
        self.licenses_taken = licenses_taken

    @property
    def is_running(self) -> bool:
        """Whether the job has its nodes; a suspended job has them, too."""
        return self.job.state in (JobState.RUNNING, JobState.SUSPENDED)

    @property
    def is_pending(self) -> bool:
        """Whether the job has not started, or is about to wait again."""
        return self.job.state == JobState.PENDING or comes_back(self.job)

    def flag(self, set_bits: int, clear_bits: int) -> None:
        """Change bits of the request's flags."""
        flags = self.request.get("flags", self.job.request.flags)
        assert isinstance(flags, int)
        self.request["flags"] = flags & ~clear_bits | set_bits

    def keep(self, kept: tuple[NodeAlloc, ...] | int) -> int:
        """Let a running job give up the nodes that are not among those it keeps."""
        if isinstance(kept, int):
            return kept
        self.nodes = kept
        return 0


Setter = Callable[[Change, str], int]


def while_pending(setter: Setter) -> Setter:
    """Let a key be set only as long as the job waits, or is about to wait again."""

    def set_if_pending(change: Change, value: str) -> int:
        return setter(change, value) if change.is_pending else Errno.ESLURM_JOB_NOT_PENDING

    return set_if_pending


def text(name: str, *, pending: bool = True) -> Setter:
    """Return the setter of a field of the request that takes any text.

    Args:
        pending: only while the job waits.
    """

    def set_text(change: Change, value: str) -> int:
        if pending and not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        change.request[name] = value
        return 0

    return set_text


def features(name: str) -> Setter:
    """Return the setter of features that nodes are to have; a comma means `&` there."""

    @while_pending
    def set_features(change: Change, value: str) -> int:
        change.request[name] = spelled(value)
        return 0

    return set_features


@while_pending
def no_siblings(change: Change, value: str) -> int:
    """Refuse features of clusters, as Slurm does where a job has no siblings in other clusters."""
    return Errno.SLURM_ERROR


def count(name: str, *, flag: int = 0, invalid: int = Errno.ESLURM_INVALID_CPU_COUNT) -> Setter:
    """Return the setter of a count, with a bit of the request's flags that says it was given."""

    @while_pending
    def set_count(change: Change, value: str) -> int:
        try:
            change.request[name] = units.parse_count(value)
        except units.UnitError:
            return invalid
        if flag:
            change.flag(flag, 0)
        return 0

    return set_count


def moment(name: str) -> Setter:
    """Return the setter of a point in time, in microseconds."""

    @while_pending
    def set_moment(change: Change, value: str) -> int:
        moment_us = units.whole_number(value)
        if moment_us is None:
            return Errno.ESLURM_INVALID_TIME_VALUE
        change.request[name] = moment_us
        return 0

    return set_moment


def no_plugin(change: Change, value: str) -> int:
    """Refuse a key that only a plugin of Slurm's could carry out."""
    return Errno.ESLURM_NOT_SUPPORTED


_YES = {"yes": True, "1": True, "no": False, "0": False, "y": True, "n": False}


def yes_or_no(word: str) -> bool | None:
    """Return what a word says, None if it is neither."""
    return _YES.get(word.lower())


def by_operators(setter: Setter) -> Setter:
    """Let a key be set only by operators."""

    def set_by_operator(change: Change, value: str) -> int:
        if not change.context.caller.is_operator:
            return Errno.ESLURM_ACCESS_DENIED
        return setter(change, value)

    return set_by_operator


def by_administrators(setter: Setter) -> Setter:
    """Let a key be set only by administrators."""

    def set_by_administrator(change: Change, value: str) -> int:
        if not change.context.caller.is_admin:
            return Errno.ESLURM_ACCESS_DENIED
        return setter(change, value)

    return set_by_administrator


def yes_no(bit: int, *, yes_needs_operator: bool = False) -> Setter:
    """Return the setter of a flag of the request."""

    def set_flag(change: Change, value: str) -> int:
        is_yes = yes_or_no(value)
        if is_yes is None:
            return Errno.ESLURM_NOT_SUPPORTED
        if not change.is_pending:
            return Errno.ESLURM_JOB_NOT_PENDING
        if is_yes and yes_needs_operator and not change.context.caller.is_operator:
            return Errno.ESLURM_ACCESS_DENIED
        change.flag(bit if is_yes else 0, 0 if is_yes else bit)
        return 0

    return set_flag
