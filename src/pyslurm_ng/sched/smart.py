"""An order of the queue that lets short work go first without making anybody wait too long.

`SchedulerParameters=bf_smart`. Run times are foreseen from the limit and the user's own history
(see `history`); limits go on to bound jobs, and room is kept by limits, so a wrong guess costs
order, never a promise. Each pass asks first when each job would start if from now on the order of
submission were kept and jobs ran as foreseen. From that follow three groups, in this order:

1. jobs in danger: what they have waited and would still wait comes to half of the longest wait
   foreseen for any job at its arrival. They and all older jobs keep the order of submission, each
   with a reservation. The oldest comes first of all;
2. express jobs: while some are in danger, the shortest and smallest may pass them, with a
   hundredth of the machine's time at most;
3. all others, those first that have waited long for how short they are (largest expansion
   factor). The first of a partition gets a reservation, as in EASY backfilling.

So the slowdown falls, which is made by short jobs behind long ones, and the longest wait stays
what the order of submission makes it. Jobs of higher PriorityTier, or of higher priority apart
from its age factor, stay before the others.

Sources: Tang, Lan, Desai, Buettner, "Fault-aware, Utility-based Job Scheduling on Blue Gene/P
Systems" (WFP3, UNICEF), Cluster 2009, for ranking by waiting over run time; Tsafrir, Etsion,
Feitelson, IEEE TPDS 18(6), 2007, for shortest first among predictions; the measure of danger and
the express share are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched.demand import Demand
from pyslurm_ng.sched.plan import Plan, Start
from pyslurm_ng.sched.policy import EVERY_JOB, Policy
from pyslurm_ng.sched.snapshot import NO_END_US, Running, Snapshot, Waiting

Entry = tuple[int, Waiting, Demand]

_DANGER = 0.5  # of the longest wait foreseen
_EXPRESS = 0.01  # of the machine's time
_MOST_EXPRESS_S = 12 * 3600 * _EXPRESS
_MEMORY_S = 180 * 86400  # in which the longest wait foreseen is half forgotten
_LEAST_RUN_S = 10.0  # as in the bounded slowdown
_MINUTE_US = 60_000_000
_SOON_US = 60_000_000
_WITHOUT_LIMIT_S = 14 * 86400.0

# Groups of a queue.
_OLDEST, _EXPRESSED, _ENDANGERED, _OTHER = range(4)


class Smart:
    """What the policy remembers from pass to pass; all soft, a restart begins anew."""

    def __init__(self, foresee: Callable[[Snapshot, Policy], Plan]) -> None:
        self._foresee = foresee
        self._policies: tuple[Policy, Policy] | None = None
        self._foreseen: dict[int, tuple[Waiting, Waiting]] = {}
        self._longest_s: dict[str, float] = {}  # by partition
        self._express_s = 0.0  # of the whole machine
        self._now_us = 0
        self._kinds: dict[int, int] = {}  # group by job
        self._shares: dict[int, float] = {}  # machine seconds of express jobs
        self._known: frozenset[int] = frozenset()  # jobs whose wait was foreseen at arrival

    def order(self, snapshot: Snapshot, policy: Policy, queue: Sequence[Entry]) -> list[Entry]:
        """Return the queue of a pass, each entry led by its rank, in the order to walk it."""
        self._pass_time(snapshot.now_us)
        expected = self._expected(snapshot, policy)
        self._kinds, self._shares = {}, {}
        groups: dict[tuple[int, str], list[Entry]] = {}
        for entry in queue:
            groups.setdefault((entry[0], entry[2].partition.name), []).append(entry)
        keyed: list[tuple[tuple[int, int, float, int, int], Entry]] = []
        for (rank, name), entries in groups.items():
            oldest, last = self._endangered(snapshot, name, entries, expected)
            if last >= 0:
                self._choose_express(snapshot, entries, oldest)
            for place, entry in enumerate(entries):
                job = entry[1]
                kind = self._kinds.get(job.job_id, _OTHER)
                if place == oldest:
                    kind = _OLDEST
                elif place <= last and kind == _OTHER:
                    kind = _ENDANGERED
                self._kinds[job.job_id] = min(kind, self._kinds.get(job.job_id, _OTHER))
                value = 0.0
                if kind == _OTHER:
                    value = -_expansion(job, entry[2], snapshot.now_us)
                elif kind == _EXPRESSED:
                    value = _cost(job, entry[2], snapshot)
                keyed.append(((rank, kind, value, job.submit_us, job.job_id), entry))
        keyed.sort(key=lambda item: item[0])
        self._seen(snapshot)
        return [entry for _, entry in keyed]

    def may_reserve(self, job_id: int, reserved: int) -> bool:
        """Return whether a job that cannot start is promised room; `reserved` others have been."""
        kind = self._kinds.get(job_id, _OTHER)
        return kind in (_OLDEST, _ENDANGERED) or (kind == _OTHER and not reserved)

    def started(self, starts: Sequence[Start]) -> None:
        """Charge the express jobs that a pass starts."""
        for start in starts:
            self._express_s -= self._shares.pop(start.job_id, 0.0)

    def _pass_time(self, now_us: int) -> None:
        passed_s = (now_us - self._now_us) / 1e6 if self._now_us else 0.0
        self._now_us = now_us
        if passed_s > 0:
            self._express_s = min(_MOST_EXPRESS_S, self._express_s + passed_s * _EXPRESS)
            fading = 0.5 ** (passed_s / _MEMORY_S)
            self._longest_s = {name: wait * fading for name, wait in self._longest_s.items()}

    def _expected(self, snapshot: Snapshot, policy: Policy) -> dict[int, int]:
        """Return when each job would start in order of submission, running as foreseen."""
        if self._policies is None or self._policies[0] is not policy:
            calm = replace(policy, is_smart=False, reserve_depth=EVERY_JOB, preempt_by="")
            self._policies = policy, replace(calm, weight_age=0)
        waiting = [self._as_foreseen(job) for job in snapshot.waiting]
        running = [_until_foreseen(item, snapshot.now_us) for item in snapshot.running]
        world = replace(
            snapshot,
            waiting=waiting,
            running=running,
            licenses_free=dict(snapshot.licenses_free),
            limits=None,  # they count starts, and this pass starts nothing
        )
        plan = self._foresee(world, self._policies[1])
        expected = dict.fromkeys((start.job_id for start in plan.starts), snapshot.now_us)
        return plan.expected_start_us | expected

    def _as_foreseen(self, job: Waiting) -> Waiting:
        """Return a job with the limit that it will probably need; the same object each time."""
        found = self._foreseen.get(job.job_id)
        if found is None or found[0] is not job:
            copy = job
            if job.foreseen_us:
                copy = replace(job, time_limit_min=max(1, -(-job.foreseen_us // _MINUTE_US)))
            found = self._foreseen[job.job_id] = job, copy
        return found[1]

    def _endangered(
        self, snapshot: Snapshot, name: str, entries: list[Entry], expected: dict[int, int]
    ) -> tuple[int, int]:
        """Sort entries by submission; return the places of the first and last in danger, or -1."""
        entries.sort(key=lambda entry: (entry[1].submit_us, entry[1].job_id))
        now_us = snapshot.now_us
        longest_s = self._longest_s.get(name, 0.0)
        last = -1
        for place, (_, job, _) in enumerate(entries):
            start_us = expected.get(job.job_id, NEVER)
            if start_us == NEVER:
                continue
            left_s = (start_us - now_us) / 1e6
            if job.job_id not in self._known:
                longest_s = max(longest_s, left_s)
            if _waited_s(job, now_us) + left_s > _DANGER * longest_s:
                last = place
        self._longest_s[name] = longest_s
        return (0 if last >= 0 else -1), last

    def _seen(self, snapshot: Snapshot) -> None:
        """Remember whose wait has been foreseen at arrival."""
        self._known = frozenset(job.job_id for job in snapshot.waiting)
        if len(self._foreseen) > 2 * len(self._known) + 1000:
            self._foreseen = {}

    def _choose_express(self, snapshot: Snapshot, entries: list[Entry], oldest: int) -> None:
        """Let the cheapest jobs pass those in danger, as long as their share lasts."""
        left_s = self._express_s - sum(self._shares.values())
        if left_s <= 0:
            return
        candidates = [
            (_cost(job, demand, snapshot), job.job_id, job, demand)
            for place, (_, job, demand) in enumerate(entries)
            if place != oldest and not job.array_pending and demand.verdict is None
        ]
        for _, job_id, job, demand in sorted(candidates, key=lambda item: item[:2]):
            share_s = _run_s(job, demand) * _width(demand, snapshot)
            if share_s <= left_s:
                left_s -= share_s
                self._shares[job_id] = share_s
                self._kinds[job_id] = _EXPRESSED


def _until_foreseen(item: Running, now_us: int) -> Running:
    """Return what a job holds as if it ended when foreseen, soon at the earliest."""
    if not item.foreseen_us or not item.end_us:
        return item
    return item._replace(end_us=min(item.end_us, max(item.foreseen_us, now_us + _SOON_US)))


def _waited_s(job: Waiting, now_us: int) -> float:
    return max(0, now_us - (job.accrue_us or job.submit_us)) / 1e6


def _run_s(job: Waiting, demand: Demand) -> float:
    """Return how long a job will probably run."""
    if job.foreseen_us:
        return job.foreseen_us / 1e6
    return _WITHOUT_LIMIT_S if demand.duration_us >= NO_END_US else demand.duration_us / 1e6


def _width(demand: Demand, snapshot: Snapshot) -> float:
    """Return the share of the machine that a job takes."""
    need = demand.need
    share = need.tasks * need.cpus_per_task / max(1, snapshot.total_cpus)
    if need.is_exclusive:
        share = max(share, need.nodes_min / max(1, snapshot.total_nodes))
    return min(1.0, share)


def _expansion(job: Waiting, demand: Demand, now_us: int) -> float:
    """Return how many times its own run time a job would have been here if it started now."""
    run_s = _run_s(job, demand)
    return (_waited_s(job, now_us) + run_s) / max(run_s, _LEAST_RUN_S)


def _cost(job: Waiting, demand: Demand, snapshot: Snapshot) -> float:
    """Return what to sort express jobs by: work, weighted by what slowdown a second makes."""
    run_s = _run_s(job, demand)
    return run_s * run_s * _width(demand, snapshot)
