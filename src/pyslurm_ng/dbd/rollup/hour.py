"""What one hour of a cluster adds up to: seconds times amount, for each TRES.

Everything here is integers. The rows that come in may begin before the hour and end after it; an
end of 0 is one that has not come. The sum of allocated, down, planned down, idle and planned time
is the cluster's whole time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pyslurm_ng.dbd.rollup.spans import Span, covered

Key = TypeVar("Key")
Amounts = Mapping[str, int]
Seconds = dict[str, int]
"""Seconds times amount, by the name of the TRES."""

_NODE = "node"
"""Members of reservations do not pay for idle nodes, as in Slurm: they pay for what is on them."""
_CPU = "cpu"
"""Jobs that wait are counted with it only, and suspended jobs hold all but it, as in Slurm."""
_ENERGY = "energy"
"""Joules in place of seconds times amount. They are known when a job is over, and are spread evenly
over its time."""


class Job(NamedTuple):
    """A record of one job.

    Attributes:
        held: what it holds from its start to its end.
        waiting_cpus: what it asks for while it waits, for all its waiting tasks.
        suspended: when it held no CPUs; periods that overlap count once.
        reservation: the reservation in which it runs.
        energy_j: what its nodes took for it, in all.
    """

    association_id: int
    qos_id: int
    user: str
    wckey: str
    eligible_s: int
    start_s: int
    end_s: int
    held: Amounts
    waiting_cpus: int = 0
    suspended: tuple[Span, ...] = ()
    reservation: str = ""
    energy_j: int = 0


class JobSum(NamedTuple):
    """Jobs that were alike and ended in the hour, added up.

    Attributes:
        held: what each of them held.
        used_s: for how long, in all.
        waited_cpu_s: CPUs that they asked for times the seconds for which they waited.
    """

    association_id: int
    qos_id: int
    user: str
    wckey: str
    held: Amounts
    used_s: int
    waited_cpu_s: int


class Down(NamedTuple):
    """A time for which a node was out of service."""

    node: str
    start_s: int
    end_s: int
    held: Amounts


class Capacity(NamedTuple):
    """What the cluster had during a time."""

    start_s: int
    end_s: int
    held: Amounts


class Reserved(NamedTuple):
    """A time for which a reservation was the same.

    Attributes:
        associations: those that may use it, which pay for the time in which no job runs.
        is_maintenance: it has the flag MAINT: all of it is planned down time.
        ignores_jobs: it has the flag IGNORE_JOBS: it is no part of the cluster's time.
    """

    name: str
    start_s: int
    end_s: int
    held: Amounts
    associations: tuple[int, ...] = ()
    is_maintenance: bool = False
    ignores_jobs: bool = False


@dataclass(slots=True)
class ClusterTime:
    """The time of one TRES of the cluster, in seconds times amount.

    Attributes:
        count: the amount at the end of the hour.
        planned: idle time while jobs waited that could have started.
        over: the time for which such jobs waited beyond that.
    """

    count: int = 0
    allocated: int = 0
    down: int = 0
    planned_down: int = 0
    idle: int = 0
    planned: int = 0
    over: int = 0

    def settle(self, total: int) -> None:
        """Share out the whole time: what is left is idle, what is too much is cut.

        Planned time is cut first, then down time, then planned down time.
        """
        rest = total
        waited = self.planned
        for name in ("allocated", "planned_down", "down", "planned"):
            kept = min(getattr(self, name), rest)
            setattr(self, name, kept)
            rest -= kept
        self.over += waited - self.planned
        self.idle = rest


@dataclass(slots=True)
class Usage:
    """The usage of one hour.

    Attributes:
        by_association: by association and QOS, so that both can be added up.
        by_wckey: by wckey and user.
        cluster: by TRES.
    """

    by_association: dict[tuple[int, int], Seconds] = field(default_factory=dict)
    by_wckey: dict[tuple[str, str], Seconds] = field(default_factory=dict)
    cluster: dict[str, ClusterTime] = field(default_factory=dict)


def roll_up(
    hour: Span,
    capacities: Iterable[Capacity],
    jobs: Iterable[Job],
    downs: Iterable[Down] = (),
    reservations: Iterable[Reserved] = (),
    sums: Iterable[JobSum] = (),
) -> Usage:
    """Return what the rows of one hour add up to; jobs come one by one or in sums.

    Jobs that do not overlap the hour, and TRES that the cluster does not have, count nothing in
    the cluster's time.
    """
    usage = Usage()
    cluster: defaultdict[str, ClusterTime] = defaultdict(ClusterTime)
    in_reservations: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        used = _used(job, hour)
        if job.energy_j and (energy_j := _energy_j(job, hour)):
            used = {**used, _ENERGY: energy_j}
        _add_used(usage, cluster, job, used)
        if job.reservation:
            in_reservations[job.reservation].append(job)
        elif job.waiting_cpus:
            cluster[_CPU].planned += job.waiting_cpus * _waiting_s(job, hour)
    for alike in sums:
        _add_used(usage, cluster, alike, _times(alike.held, alike.used_s))
        cluster[_CPU].planned += alike.waited_cpu_s
    _add_reservations(usage, cluster, hour, reservations, in_reservations)
    for name, seconds in _down_times(downs, hour).items():
        cluster[name].down += seconds
    totals = _totals(cluster, capacities, hour)
    usage.cluster = {name: cluster[name] for name in totals}
    for name, total in totals.items():
        cluster[name].settle(total)
    if _ENERGY in cluster:  # no part of a whole
        usage.cluster[_ENERGY] = cluster[_ENERGY]
    return usage


def _add_used(
    usage: Usage, cluster: Mapping[str, ClusterTime], whose: Job | JobSum, used: Seconds
) -> None:
    """Add what one or more jobs have used."""
    _add(usage.by_association, (whose.association_id, whose.qos_id), used)
    if whose.wckey:
        _add(usage.by_wckey, (whose.wckey, whose.user), used)
    for name, seconds in used.items():
        cluster[name].allocated += seconds


def _part(start_s: int, end_s: int, hour: Span) -> Span:
    """Return the part of a period that lies in the hour."""
    return Span(start_s, end_s or hour.end_s).within(hour)


def _seconds(start_s: int, end_s: int, hour: Span) -> int:
    """Return the seconds of that part. It is called twice for each job, a million times."""
    first_s, last_s = hour
    return max(0, min(end_s or last_s, last_s) - max(start_s, first_s))


def _used(job: Job, hour: Span) -> Seconds:
    """Return what a job has used in the hour."""
    if not job.start_s:
        return {}
    used = _times(job.held, _seconds(job.start_s, job.end_s, hour))
    if job.suspended and _CPU in used:
        ran = _part(job.start_s, job.end_s, hour)
        used[_CPU] -= job.held[_CPU] * covered(span.within(ran) for span in job.suspended)
    return used


def _energy_j(job: Job, hour: Span) -> int:
    """Return the joules of a job in the hour; those of all its hours add up to the whole."""
    if not job.end_s:
        return 0
    start_s = min(job.start_s, job.end_s - 1)  # what took less than a second counts once
    first_s, last_s = (min(max(second, start_s), job.end_s) - start_s for second in hour)
    ran_s = job.end_s - start_s
    return job.energy_j * last_s // ran_s - job.energy_j * first_s // ran_s


def _waiting_s(job: Job, hour: Span) -> int:
    """Return for how many seconds of the hour a job could have started."""
    if not job.eligible_s:
        return 0
    return _seconds(job.eligible_s, job.start_s or job.end_s, hour)


def _times(amounts: Amounts, seconds: int) -> Seconds:
    if not seconds:
        return {}
    return {name: amount * seconds for name, amount in amounts.items() if amount}


def _add(table: dict[Key, Seconds], key: Key, more: Seconds) -> None:
    if not more:
        return
    sums = table.setdefault(key, {})
    for name, seconds in more.items():
        sums[name] = sums.get(name, 0) + seconds


def _add_reservations(
    usage: Usage,
    cluster: Mapping[str, ClusterTime],
    hour: Span,
    reservations: Iterable[Reserved],
    jobs: Mapping[str, list[Job]],
) -> None:
    """Count reservations, and charge their members for the time in which no job ran there.

    As measured with Slurm 22.05: a job uses all of each TRES of which it holds any while it runs,
    also while it is suspended; two jobs at once use it twice. Where jobs have run for as long as
    the reservation lasts, nothing is charged. A reservation that was changed comes in parts, which
    are charged one by one. Of one that ignores jobs the cluster has what its jobs hold, CPUs of
    suspended ones, too.
    """
    for reserved in reservations:
        part = _part(reserved.start_s, reserved.end_s, hour)
        if not part.seconds:
            continue
        used: defaultdict[str, int] = defaultdict(int)
        unused_s = dict.fromkeys(reserved.held, part.seconds)
        ran_s = 0
        for job in jobs.get(reserved.name, ()):
            used_by_job = _used(job, part)
            for name, seconds in used_by_job.items():
                used[name] += seconds
            job_s = _seconds(job.start_s, job.end_s, part) if job.start_s else 0
            ran_s += job_s
            if reserved.ignores_jobs and _CPU in job.held:
                suspended = job.held[_CPU] * job_s - used_by_job.get(_CPU, 0)
                cluster[_CPU].allocated += suspended
            for name in unused_s.keys() & job.held.keys():
                unused_s[name] -= job_s
        for name, seconds in _times(reserved.held, part.seconds).items():
            _count(cluster[name], reserved, seconds, min(seconds, used[name]))
        if ran_s < part.seconds:
            unused = {name: reserved.held[name] * free_s for name, free_s in unused_s.items()}
            unused.pop(_NODE, None)
            _share(usage, reserved.associations, unused)


def _count(times: ClusterTime, reserved: Reserved, whole: int, by_jobs: int) -> None:
    """Count a reservation in the cluster's time, which has its jobs as allocated already."""
    if reserved.ignores_jobs:
        return
    if reserved.is_maintenance:
        times.allocated = max(0, times.allocated - by_jobs)
        times.planned_down += whole
    else:
        times.allocated += whole - by_jobs


def _share(usage: Usage, associations: tuple[int, ...], unused: Seconds) -> None:
    """Charge associations in equal whole parts; less than a second each is charged to none."""
    if associations:
        shares = {name: seconds // len(associations) for name, seconds in unused.items()}
        part = {name: seconds for name, seconds in shares.items() if seconds}
        for association_id in associations:
            _add(usage.by_association, (association_id, 0), part)


def _down_times(downs: Iterable[Down], hour: Span) -> Seconds:
    """Return the time for which nodes were down; events of one node may overlap."""
    spans: defaultdict[tuple[str, str, int], list[Span]] = defaultdict(list)
    for down in downs:
        part = _part(down.start_s, down.end_s, hour)
        if part.seconds:
            for name, amount in down.held.items():
                spans[down.node, name, amount].append(part)
    times: defaultdict[str, int] = defaultdict(int)
    for (_, name, amount), parts in spans.items():
        times[name] += amount * covered(parts)
    return times


def _totals(
    cluster: Mapping[str, ClusterTime], capacities: Iterable[Capacity], hour: Span
) -> Seconds:
    """Return the whole time of each TRES, and note how much of it there is at the end."""
    totals: Seconds = {}
    latest_s = 0
    for capacity in sorted(capacities, key=lambda capacity: capacity.start_s):
        part = _part(capacity.start_s, capacity.end_s, hour)
        if not part.seconds:
            continue
        for name, amount in capacity.held.items():
            totals[name] = totals.get(name, 0) + amount * part.seconds
        if part.end_s > latest_s:
            latest_s = part.end_s
            for name in totals:
                cluster[name].count = capacity.held.get(name, 0)
    return totals
