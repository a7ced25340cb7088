"""Which job made a pass raise: that job alone is to be held or left out.

A pass that ends with an exception is thrown away, since what it booked may be half done. Before it
is run again, the job to leave out has to be known. Where planning deals with one job at a time the
exception names it: `JobFaults`. Kernels plan many jobs together. Then the jobs are planned again in
smaller and smaller groups, until one job is left without which the planning succeeds.

A job is at fault by itself if planning raises for it on a cluster without others; such jobs are
held. Others are only left out for a while: something beside them, as a node's record, may be the
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.frame.plan import JobFaults, Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot

_MOST_TRIED_ALONE = 64


class View(Protocol):
    """Plans a snapshot; `sched.backfill.Planner` is one."""

    def __call__(self, snapshot: Snapshot, policy: Policy, /) -> Plan:
        """Return a plan."""


@dataclass(slots=True)
class Blame:
    """The jobs about which planning raised, and with what.

    Attributes:
        own: waiting jobs that are at fault by themselves.
        others: waiting jobs without which the pass might end well.
        running: active jobs whose records make planning raise even if no job waits.
    """

    own: dict[int, Exception] = field(default_factory=dict)
    others: dict[int, Exception] = field(default_factory=dict)
    running: dict[int, Exception] = field(default_factory=dict)


def blame(make: Callable[[], View], snapshot: Snapshot, policy: Policy, error: Exception) -> Blame:
    """Return which jobs a pass over `snapshot` has failed about; none: it was not a job.

    Args:
        make: returns a planner that remembers nothing.
        error: what the pass has raised.
    """
    blame = Blame()
    # What is used and promised under limits was counted on by the failed pass.
    bare = replace(snapshot, limits=None, claims={})
    named: Mapping[int, Exception]
    if isinstance(error, JobFaults):
        named = error.errors
    else:
        named = _search(make, bare, policy)
        if not named:
            blame.running = _search_running(make, bare, policy)
    blame.own = _own(make, bare, policy, named)
    blame.others = {job_id: why for job_id, why in named.items() if job_id not in blame.own}
    return blame


def _own(
    make: Callable[[], View],
    snapshot: Snapshot,
    policy: Policy,
    named: Mapping[int, Exception],
) -> dict[int, Exception]:
    """Return those of some jobs for which planning raises on a cluster without any others."""
    suspects = set(named)
    leaders = {job.het_job_id for job in snapshot.waiting if job.job_id in suspects} - {0}
    jobs = [job for job in snapshot.waiting if job.job_id in suspects or job.het_job_id in leaders]
    own: dict[int, Exception] = {}
    for _ in range(_MOST_TRIED_ALONE):
        error = _raises(make, replace(snapshot, waiting=jobs, running=[]), policy)
        if error is None:
            break
        # Of one job alone there is no doubt which it is; else the exception has to say so.
        blamed = set(error.errors) & suspects if isinstance(error, JobFaults) else suspects
        if not blamed or (len(blamed) > 1 and not isinstance(error, JobFaults)):
            break
        own.update((job_id, named[job_id]) for job_id in named if job_id in blamed)
        suspects -= blamed
        gone = {job.het_job_id for job in jobs if job.job_id in blamed} - {0}
        jobs = [job for job in jobs if job.job_id in suspects and job.het_job_id not in gone]
        if not jobs:
            break
    return own


def _raises(make: Callable[[], View], snapshot: Snapshot, policy: Policy) -> Exception | None:
    try:
        make()(snapshot, policy)
    except Exception as error:  # noqa: BLE001 - whatever it is, that is the question
        return error
    return None


def _search(make: Callable[[], View], snapshot: Snapshot, policy: Policy) -> dict[int, Exception]:
    """Return a waiting job with which planning raises, and without which it does not.

    The first so many of the queue do well, the first so many do not: the two are brought together.
    """
    jobs = snapshot.waiting

    def tried(count: int) -> Exception | None:
        return _raises(make, replace(snapshot, waiting=jobs[:count]), policy)

    first = _first_with(len(jobs), tried)
    if first is None:
        return {}
    index, error = first
    if isinstance(error, JobFaults):
        return dict(error.errors)
    return {jobs[index].job_id: error}


def _search_running(
    make: Callable[[], View], snapshot: Snapshot, policy: Policy
) -> dict[int, Exception]:
    """Return an active job whose record makes planning raise though no job waits."""
    jobs: list[Running] = snapshot.running

    def tried(count: int) -> Exception | None:
        return _raises(make, replace(snapshot, waiting=[], running=jobs[:count]), policy)

    first = _first_with(len(jobs), tried)
    return {abs(jobs[first[0]].job_id): first[1]} if first is not None else {}


def _first_with(
    most: int, tried: Callable[[int], Exception | None]
) -> tuple[int, Exception] | None:
    """Return a place such that planning raises up to it but not before it; None: it is not there.

    Args:
        tried: returns what planning the first so many raises.
    """
    error = tried(most)
    if error is None or tried(0) is not None:
        return None
    good, bad = 0, most
    while bad - good > 1:
        middle = (good + bad) // 2
        now = tried(middle)
        if now is None:
            good = middle
        else:
            bad, error = middle, now
    return good, error
