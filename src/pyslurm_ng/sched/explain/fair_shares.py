"""Which accounts' jobs go before a waiting job for no other reason than fair-share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyslurm_ng.sched.explain.probe import never_late
from pyslurm_ng.sched.fair_share.forecast import ShareForecast
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot

_MOST_ACCOUNTS = 3
_MOST_JOBS = 5_000


@dataclass(frozen=True, slots=True)
class Lead:
    """Jobs of one account that go first by fair-share.

    least, most: their factors. own: that of the job that waits. passed_in_s: when its own is the
    higher one if its user uses nothing more; 0 where that is far away, -1 where there was no time
    to find out.
    """

    account: str
    job_ids: tuple[int, ...]
    least: float
    most: float
    own: float
    passed_in_s: int


def leads(
    snapshot: Snapshot,
    policy: Policy,
    job_id: int,
    first: Sequence[int],
    forecast: ShareForecast,
    is_late: Callable[[], bool] = never_late,
) -> list[Lead]:
    """Return the accounts whose jobs would not go first without fair-share, most jobs first.

    Args:
        first: jobs that go before `job_id`.
        is_late: returns whether the answer is due.
    """
    factors = forecast.factors
    by_id = {job.job_id: job for job in snapshot.waiting}
    job = by_id.get(job_id)
    if job is None or job.assoc_id not in factors or not policy.weight_fairshare:
        return []
    own = factors[job.assoc_id]
    is_first_by_share = _Test(snapshot, policy, job, forecast)
    by_account: dict[str, list[Waiting]] = {}
    for other in (by_id[other_id] for other_id in first[:_MOST_JOBS] if other_id in by_id):
        if other.account != job.account and is_first_by_share(other):
            by_account.setdefault(other.account, []).append(other)
    largest = sorted(by_account.items(), key=lambda group: -len(group[1]))[:_MOST_ACCOUNTS]
    best = {
        account: max(others, key=lambda other: factors[other.assoc_id]).assoc_id
        for account, others in largest
    }
    passed = forecast.seconds_until_higher(job.assoc_id, list(best.values()), is_late)
    return [
        Lead(
            account=account,
            job_ids=tuple(other.job_id for other in others),
            least=min(factors[other.assoc_id] for other in others),
            most=factors[best[account]],
            own=own,
            passed_in_s=passed.get(best[account], -1),
        )
        for account, others in largest
    ]


class _Test:
    """Says whether jobs have more priority than one job, and the same or less without shares."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, job: Waiting, forecast: ShareForecast
    ) -> None:
        self._partitions = snapshot.partitions
        self._ranking = Ranking(snapshot, policy, forecast.factors)
        self._weight = policy.weight_fairshare
        self._own = self._standing(job)

    def __call__(self, other: Waiting) -> bool:
        own, theirs = self._own, self._standing(other)
        if own is None or theirs is None:
            return False
        ahead, shares = theirs[0] - own[0], theirs[1] - own[1]
        return 0 < ahead <= self._weight * shares + 1

    def _standing(self, job: Waiting) -> tuple[int, float] | None:
        """Return a job's priority and its factor; None where the priority was set by hand."""
        known = self._partitions
        partition = next((known[name] for name in job.partitions if name in known), None)
        if partition is None or self._ranking.fixed_part(job, partition)[1]:
            return None
        factors = self._ranking.factors(job, partition)
        return self._ranking.priority(job, partition), factors.fairshare
