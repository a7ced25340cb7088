"""`-q high,low`: a waiting job has the first QOS of its list whose limits let it start."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from tests.world.callers import ALICE
from tests.world.site import Site

TREE = (
    Association(1, "root"),
    Association(2, "physics", parent_id=1),
    Association(3, "physics", "alice", parent_id=2, qos=("normal", "high", "low")),
)


def site_of(high: Limits, low: Limits | None = None, more: str = "") -> Site:
    """alice may use high, which is above low, and both have limits."""
    site = Site(
        "AccountingStorageType=accounting_storage/slurmdbd\n"
        f"AccountingStorageEnforce=limits,qos\n{more}"
    )
    set_qos(site, high, low or Limits())
    users = (UserRecord("alice", "physics"),)
    site.apply([ev.AssocChanged(site.now_us, changed=TREE, users=users, version=1)])
    return site


def set_qos(site: Site, high: Limits, low: Limits) -> None:
    qualities = (
        Qos(1, "normal"),
        Qos(2, "high", priority=100, limits=high),
        Qos(3, "low", priority=10, limits=low),
        Qos(4, "other", priority=1000),
    )
    site.apply([ev.QosChanged(site.now_us, qualities)])


def ask(site: Site, qos: str = "low,high", **more: object) -> Job:
    fields: dict[str, object] = {"nodes_min": 1, "ntasks": 2, "time_limit_min": 60, **more}
    return site.job(ALICE, qos=qos, **fields)


def test_the_list_is_in_the_order_of_priorities() -> None:
    """Whatever its order as typed; the job keeps the list, and has its first QOS."""
    job = ask(site_of(Limits()))
    assert (job.qos, job.request.qos) == ("high", "high,low")


def test_a_job_over_the_limits_of_one_qos_starts_with_the_next() -> None:
    site = site_of(Limits(grp_jobs=1))
    first, second = ask(site), ask(site)
    site.run_pass()
    assert (first.qos, second.qos) == ("high", "low")
    site.run_pass()
    assert second.state == JobState.RUNNING


def test_a_job_goes_back_to_the_higher_qos_when_that_lets_it_start() -> None:
    site = site_of(Limits(grp_jobs=1), Limits(grp_jobs=1))
    jobs = [ask(site) for _ in range(3)]
    for _ in range(3):
        site.run_pass()
    running, beside, third = jobs
    assert (running.qos, beside.qos, third.state) == ("high", "low", JobState.PENDING)
    site.end(running)
    for _ in range(2):
        site.run_pass()
    assert (third.qos, third.state) == ("high", JobState.RUNNING)


def test_a_job_that_no_qos_lets_start_stays_as_it_is() -> None:
    """Otherwise each pass would change it, and make the next one due."""
    site = site_of(Limits(grp_jobs=0), Limits(grp_jobs=0))
    job = ask(site)
    seen: list[ev.AnyEvent] = []
    site.follow(seen.extend)
    for _ in range(3):
        site.run_pass()
    assert (job.qos, seen) == ("high", [])


def test_raising_a_limit_lets_the_job_go_on_with_the_higher_qos() -> None:
    site = site_of(Limits(max_wall_min=30), Limits(grp_jobs=0))
    job = ask(site)
    site.run_pass()
    assert job.state == JobState.PENDING
    set_qos(site, Limits(max_wall_min=60), Limits(grp_jobs=0))
    site.run_pass()
    assert (job.qos, job.state) == ("high", JobState.RUNNING)


def test_tasks_of_an_array_run_under_each_qos() -> None:
    site = site_of(Limits(grp_jobs=1), Limits(grp_jobs=2))
    ask(site, array="0-4")
    for _ in range(4):
        site.run_pass()
    running = [job.qos for job in site.cluster.jobs.values() if job.state == JobState.RUNNING]
    assert sorted(running) == ["high", "low", "low"]


def test_a_qos_that_the_partition_does_not_take_is_left_out() -> None:
    site = site_of(Limits(grp_jobs=1))
    job = ask(site)
    ask(site)
    main = replace(site.cluster.partitions["main"], deny_qos=("low",))
    site.apply([ev.PartitionUpdated(site.now_us, main)])
    for _ in range(2):
        site.run_pass()
    assert job.state == JobState.RUNNING
    (waiting,) = site.cluster.job_index.pending
    assert site.cluster.jobs[waiting].qos == "high"


def test_a_list_with_a_qos_that_the_user_may_not_have() -> None:
    """It is left out; a list of only such ones is refused."""
    site = site_of(Limits(grp_jobs=1))
    job = ask(site, qos="other,low")
    site.run_pass()
    assert (job.qos, job.state) == ("low", JobState.RUNNING)
    assert site.refused(ALICE, qos="other,other") == Errno.ESLURM_INVALID_QOS
