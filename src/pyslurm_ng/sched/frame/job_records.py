"""Waiting and active jobs as a pass sees them: frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.sched.request.sharing import NOBODY, Tenant

NO_END_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Waiting:
    """One pending record as the pass sees it; for an array `tasks_left` bounds its starts now."""

    job_id: int
    request: JobRequest
    partitions: tuple[str, ...]
    time_limit_min: int
    submit_us: int
    accrue_us: int
    priority: int  # set by hand, or NO_VAL
    nice: int
    site_factor: int
    qos: str
    account: str
    assoc_id: int
    uid: int
    array_pending: tuple[tuple[int, int, int], ...]
    tasks_left: int
    user_name: str = ""
    switches: int = 0  # at most so many leaf switches; 0 once it has waited long enough
    patience_us: int = 0  # when that will be
    het_job_id: int = 0  # the leader of a heterogeneous job, itself included
    het_size: int = 0  # how many components that job has
    foreseen_us: int = 0  # how long it will probably run; 0: not known
    is_guest: bool = False  # in a reservation that draws it: takes what is free, is kept no room
    foreseen_cost: float = 0.0  # see `history`; 0: not known
    throttled_by: int = 0  # the array that bounds how many of its tasks run at once; 0: none


class Victim(NamedTuple):
    """What decides whether a running job may be preempted; `job` is its record as if it waited.

    `is_leaving`: it has been preempted already. `preemptor` is the job that suspended it, 0 for
    none, negative while other jobs have their time slice.
    """

    job: Waiting
    partition: str
    start_us: int
    het_job_id: int
    is_leaving: bool
    preemptor: int


class Claim(NamedTuple):
    """The nodes that a waiting job has preempted others for.

    `leaving` has the ids of those jobs; some may be gone. `is_free`: nothing keeps the job from
    starting.
    """

    job_id: int
    partition: str
    nodes: tuple[NodeAlloc, ...]
    total_tasks: int
    leaving: tuple[int, ...]
    is_free: bool


class Running(NamedTuple):
    """What a job holds, and when it reaches its limit; `end_us` is 0 while its nodes clean up."""

    job_id: int
    end_us: int
    nodes: tuple[NodeAlloc, ...]
    licenses: str
    is_suspended: bool = False
    victim: Victim | None = None  # None: no job can preempt it
    foreseen_us: int = 0  # when it will probably end; 0: not known
    tenant: Tenant = NOBODY
    rows: int = 1  # so many jobs of its partition may have each of its cores
    array_job_id: int = 0  # the array whose task it is
