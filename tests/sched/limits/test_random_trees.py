"""Random trees of accounts, random limits and jobs: a job starts when, and only when, it may.

What it may is worked out anew here for each start, as Slurm's manual says it, without what the
scheduler keeps and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from tests.world.examples import drawn
from tests.world.site import Site

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=limits,qos
SelectTypeParameters=CR_Core
NodeName=n[1-4] CPUs=64 RealMemory=64000
PartitionName=open Nodes=ALL Default=YES QOS=gate
PartitionName=plain Nodes=ALL
"""
ACCOUNTS, USERS, QOS = 5, 4, ("normal", "high", "gate")
COUNTS = st.one_of(st.just(INFINITE), st.just(INFINITE), st.integers(0, 5))
CPUS = st.one_of(st.just({}), st.just({}), st.builds(lambda n: {"cpu": n}, st.integers(0, 12)))
MINUTES = st.one_of(st.just({}), st.builds(lambda n: {"cpu": n * 30}, st.integers(0, 12)))
ASSOC_LIMITS = st.builds(
    Limits,
    grp_jobs=COUNTS,
    grp_tres=CPUS,
    grp_tres_run_mins=MINUTES,
    max_jobs=COUNTS,
    max_tres_per_job=CPUS,
    max_tres_mins_per_job=MINUTES,
    max_wall_min=st.sampled_from([INFINITE, INFINITE, 30]),
)
QOS_LIMITS = st.builds(
    replace,
    ASSOC_LIMITS,
    max_jobs_per_account=COUNTS,
    max_tres_per_user=CPUS,
    max_tres_per_account=CPUS,
    min_tres_per_job=st.sampled_from([{}, {}, {"cpu": 2}]),
    max_tres_run_mins=MINUTES,
)


class Wish(NamedTuple):
    """A job that a user asks for."""

    user: int
    qos: str
    partition: str
    cpus: int
    limit_min: int


WISHES = st.builds(
    Wish,
    st.integers(0, USERS - 1),
    st.sampled_from(QOS[:2]),
    st.sampled_from(["open", "plain"]),
    st.integers(1, 4),
    st.sampled_from([30, 60]),
)
PARENTS = st.tuples(*(st.integers(0, at) for at in range(ACCOUNTS - 1)))  # of accounts but the root
HOMES = st.tuples(*(st.integers(0, ACCOUNTS - 1) for _ in range(USERS)))


def first(values: Sequence[int]) -> int:
    return next((value for value in values if value != INFINITE), INFINITE)


class Oracle:
    """Says whether a job may start beside others."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def qos_of(self, job: Job, partition: str) -> list[Qos]:
        cluster = self.site.cluster
        own, gate = cluster.qos[job.qos], cluster.qos.get(cluster.partitions[partition].qos)
        pair = [own, gate] if "OverPartQOS" in own.flags else [gate, own]
        return [qos for qos in pair if qos is not None]

    def above(self, assoc_id: int) -> Iterator[Association]:
        assoc = self.site.cluster.assocs.get(assoc_id)
        while assoc is not None:
            yield assoc
            assoc = self.site.cluster.assocs.get(assoc.parent_id)

    def may_start(self, job: Job, running: Sequence[Job]) -> bool:
        qualities = self.qos_of(job, job.partition)
        tree = list(self.above(job.assoc_id))
        cpus = job.request.ntasks
        minutes = cpus * job.time_limit_min

        def in_qos(qos: Qos) -> list[Job]:
            return [other for other in running if qos in self.qos_of(other, other.partition)]

        def below(assoc: Association) -> list[Job]:
            return [other for other in running if assoc in self.above(other.assoc_id)]

        own = [other for other in running if other.assoc_id == job.assoc_id]

        def groups(of: str) -> Iterator[tuple[int, list[Job]]]:
            """Yield each limit on groups that holds, with the jobs that count."""
            for qos in qualities:
                if number(qos.limits, of) != INFINITE:
                    yield number(qos.limits, of), in_qos(qos)
                    return
            for assoc in tree:
                yield number(assoc.limits, of), below(assoc)

        def job_limit(of: str) -> int:
            return first([number(level.limits, of) for level in (*qualities, *tree)])

        for most, jobs in groups("grp_jobs"):
            if len(jobs) >= most:
                return False
        for most, jobs in groups("grp_tres"):
            if held(jobs) + cpus > most:
                return False
        for most, jobs in groups("grp_tres_run_mins"):
            if left(jobs) + minutes > most:
                return False
        for of, amount in (
            ("max_tres_per_job", cpus),
            ("max_tres_mins_per_job", minutes),
            ("max_wall_min", job.time_limit_min),
        ):
            if amount > job_limit(of):
                return False
        return self.has_own_room(job, qualities, tree, own, in_qos)

    def has_own_room(self, job, qualities, tree, own, in_qos) -> bool:  # type: ignore[no-untyped-def]
        """Return whether limits on users and accounts leave room."""
        cpus, minutes = job.request.ntasks, job.request.ntasks * job.time_limit_min
        limits = [qos.limits for qos in qualities]
        for qos in qualities:
            if qos.limits.max_jobs != INFINITE:
                users = [other for other in in_qos(qos) if other.uid == job.uid]
                if len(users) >= qos.limits.max_jobs:
                    return False
                break
        else:
            if len(own) >= first([assoc.limits.max_jobs for assoc in tree]):
                return False
        least = first([number(each, "min_tres_per_job") for each in limits])
        if least != INFINITE and cpus < least:
            return False
        for of, measure, more, key in (
            ("max_jobs_per_account", len, 1, "account"),
            ("max_tres_per_account", held, cpus, "account"),
            ("max_tres_per_user", held, cpus, "uid"),
            ("max_tres_run_mins", left, minutes, "uid"),
        ):
            for qos in qualities:
                most = number(qos.limits, of)
                if most != INFINITE:
                    same = getattr(job, key)
                    jobs = [other for other in in_qos(qos) if getattr(other, key) == same]
                    if measure(jobs) + more > most:
                        return False
                    break
        return True


def number(limits: Limits, field: str) -> int:
    value = getattr(limits, field)
    return value.get("cpu", INFINITE) if isinstance(value, dict) else value


def held(jobs: Sequence[Job]) -> int:
    return sum(job.request.ntasks for job in jobs)


def left(jobs: Sequence[Job]) -> int:
    return sum(job.request.ntasks * job.time_limit_min for job in jobs)


def site_of(parents: Sequence[int], homes: Sequence[int], limits: Sequence[Limits],
            qualities: Sequence[Limits], *, is_over: bool) -> Site:  # fmt: skip
    """Return a site with accounts a0 (the root) to a4, and users below some of them."""
    site = Site(text=CONF)
    tree = [Association(1, "root", limits=limits[0])]
    for at, parent in enumerate(parents, 1):
        tree.append(Association(at + 1, f"a{at}", parent_id=parent + 1, limits=limits[at]))
    records = []
    for user, home in enumerate(homes):
        account = tree[home].account
        own = Association(100 + user, account, f"u{user}", parent_id=home + 1, qos=QOS[:2],
                          limits=limits[ACCOUNTS + user])  # fmt: skip
        tree.append(own)
        records.append(UserRecord(f"u{user}", account))
    flags = ("OverPartQOS",) if is_over else ()
    qos = tuple(
        Qos(at, name, flags=flags if name == "high" else (), limits=each)
        for at, (name, each) in enumerate(zip(QOS, qualities, strict=True), 1)
    )
    site.apply([ev.QosChanged(site.now_us, qos),
                ev.AssocChanged(site.now_us, changed=tuple(tree), users=tuple(records),
                                version=1)])  # fmt: skip
    return site


@settings(deadline=None, max_examples=drawn(50))
@given(
    PARENTS,
    HOMES,
    st.lists(ASSOC_LIMITS, min_size=ACCOUNTS + USERS, max_size=ACCOUNTS + USERS),
    st.lists(QOS_LIMITS, min_size=3, max_size=3),
    st.booleans(),
    st.lists(st.lists(WISHES, max_size=8), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_jobs_start_when_and_only_when_they_may(
    parents: Sequence[int],
    homes: Sequence[int],
    limits: list[Limits],
    qualities: list[Limits],
    is_over: bool,
    rounds: list[list[Wish]],
    random: st.DrawFn,
) -> None:
    """No limit is ever exceeded, and no job waits for one that it keeps."""
    site = site_of(parents, homes, limits, qualities, is_over=is_over)
    oracle = Oracle(site)
    running: list[Job] = []
    for wishes in rounds:
        for wish in wishes:
            who = Caller(uid=1000 + wish.user, gid=1000, user_name=f"u{wish.user}")
            site.job(who, qos=wish.qos, partition=wish.partition, ntasks=wish.cpus,
                     time_limit_min=wish.limit_min)  # fmt: skip
        plan = site.run_pass()
        for start in plan.starts:
            job = site.cluster.jobs[start.job_id]
            assert oracle.may_start(job, running)
            running.append(job)
        waiting = [site.cluster.jobs[job_id] for job_id in site.cluster.job_index.pending]
        assert not any(oracle.may_start(job, running) for job in waiting)
        random.shuffle(running)  # type: ignore[attr-defined]
        while len(running) > 2:
            site.end(running.pop())
        assert all(job.state == JobState.RUNNING for job in running)
