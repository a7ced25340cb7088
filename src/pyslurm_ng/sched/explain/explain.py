"""When a waiting job starts, which jobs are in its way, and what would let it start sooner.

The real planner answers on the current timeline: the jobs ahead keep their promises, and the job is
tried after them as it is and with one thing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyslurm_ng.base.numbers import (
    MINUTE_US,
)
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.cons_tres.obstacle import never_together, unplaceable
from pyslurm_ng.sched.demand.reason import ARRAY_LIMIT, minutes
from pyslurm_ng.sched.explain.changes import Change, changes
from pyslurm_ng.sched.explain.holders import Holder, holder_of, holders, license_holders
from pyslurm_ng.sched.explain.probe import OutOfTimeError, Probe, never_late, probe
from pyslurm_ng.sched.frame.job_records import NO_END_US, Claim, Waiting
from pyslurm_ng.sched.frame.plan import PastPromises, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.reserved import reservations_for
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.asks import least_ask
from pyslurm_ng.sched.reservation.het_reservations import NOTE, ids_across
from pyslurm_ng.sched.reservation.reservation_view import (
    named_nothing,
    reservation_view,
    terms,
    too_late,
)

# A start that is nearer by less is not worth a word: the timeline's slots are a minute wide.
_WORTH_US = MINUTE_US

# A job that waits for one of these, and for nothing out of service, has its turn some time.
_IN_TURN = (Reason.Priority, Reason.Resources)


@dataclass(frozen=True, slots=True)
class Sooner:
    """A change, when the job would start with it, and the jobs that would be preempted for that."""

    text: str
    start_us: int
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the timeline says of a waiting job; `start_us` is NO_END_US for not in the window.

    ahead: how many jobs go first and may use the same nodes. first: their ids. is_estimate: the
    start may not be kept for the job, others may come before it. limit: a limit because of which
    it is promised nothing. untried: changes for which there was no time; is_late: not even for
    the start.
    """

    partition: str
    ahead: int
    start_us: int
    node_ids: tuple[int, ...]
    holders: list[Holder] = field(default_factory=list)
    sooner: list[Sooner] = field(default_factory=list)
    untried: int = 0
    is_estimate: bool = False
    limit: Wait | None = None
    is_late: bool = False
    note: str = ""  # a sentence more
    first: tuple[int, ...] = ()


def outlook(
    snapshot: Snapshot,
    policy: Policy,
    job_id: int,
    partitions: Sequence[str] = (),
    fairshare: Mapping[int, float] | None = None,
    is_late: Callable[[], bool] = never_late,
    planner: Planner | None = None,
    qos: Sequence[str] = (),
    past_promises: PastPromises | None = None,
) -> Outlook | None:
    """Return a waiting job's outlook; None where no timeline decides (see `probe`).

    Args:
        partitions: others that its user may use.
        is_late: returns whether the answer is due; then it is what is known by then.
        planner: one kept for such questions.
        qos: others that its user may use.
        past_promises: where the last pass has promised room.
    """
    job = next((job for job in snapshot.waiting if job.job_id == job_id), None)
    if job is None:
        return None
    if not policy.backfills:
        note = "sched/builtin starts the jobs of a partition in order and plans no starts ahead"
        return Outlook(job.partitions[0], -1, 0, (), note=note)
    if job_id in snapshot.claims:
        return _claimed(snapshot, snapshot.claims[job_id])
    if job.het_job_id in ids_across(snapshot.waiting):
        return Outlook(job.partitions[0], -1, 0, (), note=NOTE)
    without: list[Sooner] = []
    is_inside = bool(job.request.reservation)
    placed: set[int] = set()
    views: Iterable[_View] = [_View(snapshot, job)]
    if is_inside:
        without = _without_reservation(snapshot, policy, job, fairshare, is_late)
        views = _inside(snapshot, policy, job, placed)
        # What is seen inside a reservation is another cluster: not for the planner that is kept.
        planner = past_promises = None
    probed: Probe | None = None
    tried: list[Change] = []
    try:
        for view in views:
            snapshot, job = view.snapshot, view.job
            tried = list(changes(job, snapshot, partitions, qos))
            others = [change.job for change in tried]
            probed = probe(
                snapshot, policy, job, others, fairshare, is_late, planner, past_promises
            )
            if probed is not None and (probed.start_us < NO_END_US or probed.limit is not None):
                break
            if probed is not None:
                placed.update(start.job_id for start in probed.plan.starts)
                placed.update(probed.plan.expected_start_us)
    except OutOfTimeError:
        return Outlook(job.partitions[0], -1, 0, (), untried=len(tried), is_late=True)
    if probed is None:
        return Outlook(job.partitions[0], -1, 0, (), sooner=without) if without else None
    is_estimate = not policy.promises_all
    return _outlook(
        snapshot, job, probed, tried, without, is_inside=is_inside, is_estimate=is_estimate
    )


def _outlook(
    snapshot: Snapshot,
    job: Waiting,
    probed: Probe,
    tried: list[Change],
    without: list[Sooner],
    *,
    is_inside: bool,
    is_estimate: bool,
) -> Outlook:
    """Return what was found about a job, with the changes tried that would bring its start nearer.

    Args:
        without: what it gains without its reservation.
    """
    partition = probed.demand.partition.name
    if not job.tasks_left:
        # What was found is when it would start if its array let more tasks run at once.
        freed = [Sooner("a higher ArrayTaskThrottle", max(probed.start_us, snapshot.now_us))]
        best = freed if probed.start_us < NO_END_US and probed.limit is None else []
        return Outlook(partition, -1, 0, (), sooner=best, limit=ARRAY_LIMIT)
    untried = sum(start_us is None for start_us in probed.others_us)
    if probed.limit is not None:
        best = _best(tried, probed, snapshot.now_us)
        start_us = NO_END_US if _is_limited_for_good(snapshot, job, probed) else 0
        return Outlook(
            partition, -1, start_us, (), sooner=best, untried=untried, limit=probed.limit
        )
    first = () if (hopeless := _is_hopeless(snapshot, job, probed, is_inside)) else _first(probed)
    return Outlook(
        partition=partition,
        ahead=-1 if hopeless else len(first),
        first=first,
        start_us=probed.start_us,
        node_ids=probed.nodes,
        holders=(
            license_holders(snapshot, probed, lacking)
            if (lacking := _lacking_licenses(tried, probed, snapshot.now_us))
            else holders(snapshot, probed)
        ),
        sooner=sorted(
            _best(tried, probed, snapshot.now_us)
            + [change for change in without if change.start_us < probed.start_us - _WORTH_US],
            key=lambda change: change.start_us,
        ),
        untried=untried,
        is_estimate=is_estimate,
        note=_exempt_note(probed, snapshot.now_us),
    )


def _exempt_note(probed: Probe, now_us: int) -> str:
    """Return that others make room for a job, or may do so when they are no longer exempt."""
    is_sooner = now_us < probed.exempt_us < probed.start_us
    if not is_sooner and not probed.is_vacated:
        return ""
    duration = minutes(probed.exempt_us - now_us)
    then = "they are to leave for it" if probed.is_vacated else "it may start"
    return f"jobs that it may preempt are exempt for {duration} more; {then} then"


def _claimed(snapshot: Snapshot, claim: Claim) -> Outlook:
    """Return the answer about a job for which others are leaving: it starts when they have left."""
    node_ids = frozenset(alloc.node_id for alloc in claim.nodes)
    leaving_holders = [
        holder_of(job, tuple(alloc.node_id for alloc in job.nodes if alloc.node_id in node_ids))
        for job in snapshot.leaving(claim)
    ]
    return Outlook(
        partition=claim.partition,
        ahead=-1,
        start_us=max(snapshot.vacated_us(claim), snapshot.now_us),
        node_ids=tuple(sorted(node_ids)),
        holders=sorted(leaving_holders, key=lambda holder: (-holder.until_us, holder.job_id)),
    )


def _is_hopeless(snapshot: Snapshot, job: Waiting, probed: Probe, is_inside: bool) -> bool:
    """Return whether a job cannot start however long it waits, as nodes and partitions are."""
    demand = probed.demand
    if demand.verdict is not None:
        return True
    if probed.start_us < NO_END_US:
        return False
    # The room inside a reservation ends with it, and a deadline comes nearer.
    if is_inside or job.request.deadline_us:
        return True
    if any(count > snapshot.licenses.get(name, 0) for name, count in demand.licenses):
        return True
    if probed.parts:
        return bool(never_together(snapshot, probed.parts))
    return unplaceable(snapshot, demand.partition, job.request, demand.need) is not None


def _is_limited_for_good(snapshot: Snapshot, job: Waiting, probed: Probe) -> bool:
    """Return whether a job, or its components together, ask for more than limits ever let have."""
    if snapshot.limits is None:
        return False
    components = [(part.job, least_ask(part.demands[0])) for part in probed.parts]
    asked = components or [(job, least_ask(probed.demand))]
    return snapshot.limits.unused().may_start_all(asked) is not None


def _first(probed: Probe) -> tuple[int, ...]:
    """Return the jobs that go first, do not start at once, and may use the same nodes.

    Not those for which no room is kept: behind a limit, late for their deadline, never to start.
    """
    plan = probed.plan
    never_first = {start.job_id for start in plan.starts}
    never_first.update(
        job_id
        for job_id, wait in plan.waits.items()
        if job_id not in plan.expected_start_us and (wait.reason not in _IN_TURN or wait.shown)
    )
    own = int.from_bytes(probed.demand.mask, "little")
    competes: dict[int, bool] = {}
    ahead: dict[int, None] = {}
    for job_id, demand in probed.before:
        if id(demand) not in competes:
            shares = bool(own & int.from_bytes(demand.mask, "little"))
            competes[id(demand)] = shares and demand.verdict is None
        if competes[id(demand)] and job_id not in never_first:
            ahead[job_id] = None
    return tuple(ahead)


def _best(tried: Sequence[Change], probed: Probe, now_us: int) -> list[Sooner]:
    """Return the mildest change of each kind among those that bring the start nearest."""
    best: dict[str, Sooner] = {}
    for at, (change, start_us) in enumerate(zip(tried, probed.others_us, strict=True)):
        if start_us is None or start_us >= NO_END_US or start_us > probed.start_us - _WORTH_US:
            continue
        known = best.get(change.kind)
        if known is None or start_us < known.start_us - _WORTH_US:
            victims = probed.victims.get(at, ())
            best[change.kind] = Sooner(change.text, max(start_us, now_us), victims)
    fewer, sized = best.get("nodes"), best.get("size")
    if fewer is not None and sized is not None and sized.start_us > fewer.start_us - _WORTH_US:
        del best["size"]  # asks for less and gains nothing
    return sorted(best.values(), key=lambda sooner: sooner.start_us)


# Inside reservations --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _View:
    """A job, and the cluster as it sees it."""

    snapshot: Snapshot
    job: Waiting


def _inside(
    snapshot: Snapshot, policy: Policy, job: Waiting, placed: Container[int]
) -> Iterator[_View]:
    """Yield a job in a reservation: nodes and times, and other waiting jobs, by occurrence.

    The first of those it names counts. Nothing where none takes it. See `reservation_plans`.

    Args:
        placed: jobs that have room in an occurrence yielded before.
    """
    names = reservations_for(snapshot.reservations, job, job.partitions)
    by_name = {reservation.name: reservation for reservation in snapshot.reservations}
    reservation = by_name.get(names[0]) if names else None
    if reservation is None:
        return
    waiting = [other for other in snapshot.waiting if reservation.name in _named(other)]
    ahead = [] if "FLEX" in reservation.flags else terms(reservation, snapshot.now_us, policy)
    for term in ahead:
        hopeful = [
            named_nothing(other)
            for other in waiting
            if other.job_id not in placed and too_late(snapshot, reservation, other, term) is None
        ]
        yield _View(reservation_view(snapshot, reservation, hopeful, term), named_nothing(job))
    if not ahead:
        jobs = [named_nothing(other) for other in waiting]
        yield _View(reservation_view(snapshot, reservation, jobs), named_nothing(job))


def _named(job: Waiting) -> list[str]:
    return job.request.reservation.split(",") if job.request.reservation else []


def _without_reservation(
    snapshot: Snapshot,
    policy: Policy,
    job: Waiting,
    fairshare: Mapping[int, float] | None,
    is_late: Callable[[], bool],
) -> list[Sooner]:
    """Return when a job would start if it had not asked for its reservation."""
    free = named_nothing(job)
    # Limits count what a walk starts, and the walk inside is still to come.
    limits = None if snapshot.limits is None else snapshot.limits.fork()
    snapshot = replace(snapshot, limits=limits)
    waiting = [
        free if waiting_job.job_id == job.job_id else waiting_job
        for waiting_job in snapshot.waiting
    ]
    try:
        probed = probe(replace(snapshot, waiting=waiting), policy, free, (), fairshare, is_late)
    except OutOfTimeError:
        return []
    if probed is None or probed.limit is not None or probed.start_us >= NO_END_US:
        return []
    text = f"without --reservation={job.request.reservation}"
    return [Sooner(text, max(probed.start_us, snapshot.now_us))]


def _lacking_licenses(tried: Sequence[Change], probed: Probe, now_us: int) -> frozenset[str]:
    """Return the licences that a job waits for, if without them it would start now."""
    for change, start_us in zip(tried, probed.others_us, strict=True):
        if change.kind == "licenses" and start_us is not None and start_us <= now_us:
            return frozenset(name for name, _ in probed.demand.licenses)
    return frozenset()
