"""Every limit at every level: the job waits with Slurm's reason, and goes on when it may."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.queue import accrual
from pyslurm_ng.dbd.limits import ASSOCIATION_LIMITS, QOS_LIMITS
from pyslurm_ng.model.assoc import Limits
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from tests.sched.limits.limited_site import (
    ASKED,
    ASSOC_LEVELS,
    JOB_QOS,
    PARTITION_QOS,
    QOS_LEVELS,
    LimitedSite,
)
from tests.world.callers import ALICE

ENFORCED = "AccountingStorageEnforce=limits,qos"
GPU, MATLAB = "gres/gpu", "license/matlab"
SCHEDULERS = ["sched/backfill", "sched/builtin"]


class Row(NamedTuple):
    """One limit: too little for a second job (or the only one), enough, and both reasons."""

    field: str
    tight: Any
    loose: Any
    of_assoc: str = ""
    of_qos: str = ""
    request: dict[str, object] = {}


WHOLE: dict[str, object] = {"flags": REQ_EXCLUSIVE}
WHOLE_NODES = {**WHOLE, "gres": "", "licenses": ""}
BESIDE = [
    Row("grp_jobs", 1, 2, "AssocGrpJobsLimit", "QOSGrpJobsLimit"),
    Row("grp_tres", {"cpu": 3}, {"cpu": 4}, "AssocGrpCpuLimit", "QOSGrpCpuLimit"),
    Row("grp_tres", {"mem": 3999}, {"mem": 4000}, "AssocGrpMemLimit", "QOSGrpMemLimit"),
    Row("grp_tres", {"node": 1}, {"node": 2}, "AssocGrpNodeLimit", "QOSGrpNodeLimit",
        WHOLE_NODES),
    Row("grp_tres", {GPU: 1}, {GPU: 2}, "AssocGrpGRES", "QOSGrpGRES"),
    Row("grp_tres", {MATLAB: 1}, {MATLAB: 2}, "AssocGrpLicense", "QOSGrpLicense"),
    Row("grp_tres", {"billing": 3}, {"billing": 4}, "AssocGrpBilling", "QOSGrpBilling"),
    Row("grp_tres_run_mins", {"cpu": 239}, {"cpu": 240}, "AssocGrpCPURunMinutesLimit",
        "QOSGrpCPURunMinutesLimit"),
    Row("max_jobs", 1, 2, "AssocMaxJobsLimit", "QOSMaxJobsPerUserLimit"),
    Row("max_jobs_per_account", 1, 2, "", "MaxJobsPerAccount"),
    Row("max_tres_per_user", {"cpu": 3}, {"cpu": 4}, "", "QOSMaxCpuPerUserLimit"),
    Row("max_tres_per_user", {"node": 1}, {"node": 2}, "", "QOSMaxNodePerUserLimit",
        WHOLE_NODES),
    Row("max_tres_per_user", {GPU: 1}, {GPU: 2}, "", "QOSMaxGRESPerUser"),
    Row("max_tres_per_account", {"cpu": 3}, {"cpu": 4}, "", "MaxCpuPerAccount"),
    Row("max_tres_per_account", {GPU: 1}, {GPU: 2}, "", "MaxGRESPerAccount"),
    Row("max_tres_run_mins", {"cpu": 239}, {"cpu": 240}, "AssocMaxCpuMinutesPerJobLimit",
        "MaxCpuRunMinsPerUser"),
    Row("max_tres_run_mins_per_account", {"cpu": 239}, {"cpu": 240}, "",
        "MaxCpuRunMinsPerAccount"),
]  # fmt: skip
ALONE = [
    Row("max_tres_per_job", {"cpu": 1}, {"cpu": 2}, "AssocMaxCpuPerJobLimit",
        "QOSMaxCpuPerJobLimit"),
    Row("max_tres_per_job", {"node": 0}, {"node": 1}, "AssocMaxNodePerJobLimit",
        "QOSMaxNodePerJobLimit"),
    Row("max_tres_per_job", {GPU: 0}, {GPU: 1}, "AssocMaxGRESPerJob", "QOSMaxGRESPerJob"),
    Row("max_tres_per_node", {"cpu": 1}, {"cpu": 2}, "AssocMaxCpuPerNode", "QOSMaxCpuPerNode"),
    Row("max_tres_per_node", {GPU: 0}, {GPU: 1}, "AssocMaxGRESPerNode", "QOSMaxGRESPerNode"),
    Row("max_tres_mins_per_job", {"cpu": 119}, {"cpu": 120}, "AssocMaxCpuMinutesPerJobLimit",
        "QOSMaxCpuMinutesPerJobLimit"),
    Row("max_wall_min", 59, 60, "AssocMaxWallDurationPerJobLimit",
        "QOSMaxWallDurationPerJobLimit"),
    Row("min_tres_per_job", {"cpu": 3}, {"cpu": 2}, "", "QOSMinCpuNotSatisfied"),
    Row("min_tres_per_job", {GPU: 2}, {GPU: 1}, "", "QOSMinGRES"),
]  # fmt: skip
SPENT = [
    Row("grp_tres_mins", {"cpu": 120}, {"cpu": 121}, "AssocGrpCPUMinutesLimit",
        "QOSGrpCPUMinutesLimit"),
    Row("grp_tres_mins", {GPU: 60}, {GPU: 61}, "AssocGrpGRESMinutes", "QOSGrpGRESMinutes"),
    Row("grp_wall_min", 60, 61, "AssocGrpWallLimit", "QOSGrpWallLimit"),
]  # fmt: skip
SUBMIT = [
    Row("grp_submit", 1, 2, "AssocGrpSubmitJobsLimit", "QOSGrpSubmitJobsLimit"),
    Row("max_submit", 1, 2, "AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit"),
    Row("max_submit_per_account", 1, 2, "", "MaxSubmitJobsPerAccount"),
]
ACCRUE = [
    Row("grp_jobs_accrue", 1, 2),
    Row("max_jobs_accrue", 1, 2),
    Row("max_jobs_accrue_per_account", 1, 2),
]
PROMISE = [Row("min_priority", 1 << 31, 0)]
OF_ASSOC = {spec.attribute for spec in ASSOCIATION_LIMITS}
OF_QOS = {spec.attribute for spec in QOS_LIMITS}


def at_each_level(rows: list[Row]) -> Any:
    """Give a test every row at every level that may have the limit."""
    cases = [
        (row, level)
        for row in rows
        for level in (*QOS_LEVELS, *ASSOC_LEVELS)
        if row.field in (OF_QOS if level in QOS_LEVELS else OF_ASSOC)
    ]
    names = [f"{row.field}-{row.tight}-{level}" for row, level in cases]
    return pytest.mark.parametrize(("row", "level"), cases, ids=names)


def tight(row: Row) -> Limits:
    return Limits(**{row.field: row.tight})


def loose(row: Row) -> Limits:
    return Limits(**{row.field: row.loose})


def reason(row: Row, level: str) -> str:
    return row.of_qos if level in QOS_LEVELS else row.of_assoc


NAMES = """
    GrpJobs GrpTRES GrpTRESRunMins MaxJobs MaxJobsPerUser MaxJobsPerAccount MaxTRESPerUser
    MaxTRESPerAccount MaxTRESRunMins MaxTRESRunMinsPerUser MaxTRESRunMinsPerAccount MaxTRESPerJob
    MaxTRESPerNode MaxTRESMinsPerJob MaxWallDurationPerJob MinTRESPerJob GrpTRESMins GrpWall
    GrpSubmitJobs MaxSubmitJobs MaxSubmitJobsPerUser MaxSubmitJobsPerAccount GrpJobsAccrue
    MaxJobsAccrue MaxJobsAccruePerUser MaxJobsAccruePerAccount MinPrioThreshold
"""


def test_the_table_has_every_limit() -> None:
    rows = {row.field for row in (*BESIDE, *ALONE, *SPENT, *SUBMIT, *ACCRUE, *PROMISE)}
    assert rows == OF_ASSOC | OF_QOS == set(Limits.__struct_fields__)
    assert {spec.name for spec in (*ASSOCIATION_LIMITS, *QOS_LIMITS)} == set(NAMES.split())


def waits_for(site: LimitedSite, job: Any, name: str) -> None:
    """See that a job waits for a limit, with numbers in its sentence and no promise."""
    assert job.state == JobState.PENDING
    assert site.shown(job)[0] == name
    assert any(letter.isdigit() for letter in " ".join(site.sentences(job)))


@pytest.mark.parametrize("kind", SCHEDULERS)
@at_each_level(BESIDE)
def test_a_job_waits_beside_another(row: Row, level: str, kind: str) -> None:
    """The second waits until the limit is raised, or the first one ends."""
    for is_raised in (True, False):
        site = LimitedSite(f"SchedulerType={kind}\n{ENFORCED}", level, tight(row))
        first, second = site.ask(**row.request), site.ask(**row.request)
        plan = site.run_pass()
        assert first.state == JobState.RUNNING
        assert second.job_id not in plan.expected_start_us
        waits_for(site, second, reason(row, level))
        if is_raised:
            site.set_limits(level, loose(row))
        else:
            site.end(first)
        site.run_pass()
        assert second.state == JobState.RUNNING


@pytest.mark.parametrize("kind", SCHEDULERS)
@at_each_level(BESIDE)
def test_tasks_of_an_array_wait_beside_one_another(row: Row, level: str, kind: str) -> None:
    site = LimitedSite(f"SchedulerType={kind}\n{ENFORCED}", level, tight(row))
    array = site.ask(array="0-2", **row.request)
    site.run_pass()
    assert len(site.cluster.job_index.active) == 1
    waits_for(site, array, reason(row, level))
    site.set_limits(level, loose(row))
    site.run_pass()
    assert len(site.cluster.job_index.active) == 2
    waits_for(site, array, reason(row, level))


@pytest.mark.parametrize("kind", SCHEDULERS)
@at_each_level(BESIDE)
def test_components_wait_together(row: Row, level: str, kind: str) -> None:
    """Two components, each of which would fit, start when both do."""
    site = LimitedSite(f"SchedulerType={kind}\n{ENFORCED}", level, tight(row))
    asked = JobRequest(**{**ASKED, **row.request})  # type: ignore[arg-type]
    assert not isinstance(site.submit_parts(asked, asked), Reject)
    parts = [site.cluster.jobs[job_id] for job_id in site.cluster.job_index.pending]
    site.run_pass()
    waits_for(site, parts[0], reason(row, level))
    site.set_limits(level, loose(row))
    site.run_pass()
    assert [part.state for part in parts] == [JobState.RUNNING] * 2


@pytest.mark.parametrize("kind", SCHEDULERS)
@at_each_level(ALONE)
def test_a_job_waits_because_of_itself(row: Row, level: str, kind: str) -> None:
    """DenyOnLimit refuses it, with the same word."""
    site = LimitedSite(f"SchedulerType={kind}\n{ENFORCED}", level, tight(row))
    job = site.ask()
    site.run_pass()
    waits_for(site, job, reason(row, level))
    site.set_limits(level, loose(row))
    site.run_pass()
    assert job.state == JobState.RUNNING
    site.set_limits(level, tight(row), ("DenyOnLimit",))
    refused = site.answer(**ASKED)
    assert refused == Reject(Errno.ESLURM_ACCOUNTING_POLICY, reason(row, level))


@pytest.mark.parametrize("kind", SCHEDULERS)
@at_each_level(SPENT)
def test_minutes_are_used_up(row: Row, level: str, kind: str) -> None:
    """When one job has run for an hour the next waits; a job that uses none of it may start."""
    site = LimitedSite(f"SchedulerType={kind}\n{ENFORCED}", level, tight(row))
    first = site.ask()
    site.run_pass()
    site.now_us += 60 * MINUTE_US
    site.end(first)
    second = site.ask()
    other = site.ask(gres="", licenses="")
    site.run_pass()
    waits_for(site, second, reason(row, level))
    is_of_gpus = row.field == "grp_tres_mins" and GPU in row.tight
    assert other.state == (JobState.RUNNING if is_of_gpus else JobState.PENDING)
    site.set_limits(level, loose(row))
    site.run_pass()
    assert second.state == JobState.RUNNING


@at_each_level([row for row in SPENT if row.field == "grp_tres_mins"])
def test_with_safe_no_job_starts_that_could_use_too_much(row: Row, level: str) -> None:
    less = {tres: most - 1 for tres, most in row.tight.items()}
    site = LimitedSite("AccountingStorageEnforce=safe,qos", level, Limits(grp_tres_mins=less))
    job = site.ask()
    site.run_pass()
    waits_for(site, job, reason(row, level))
    site.set_limits(level, tight(row))
    site.run_pass()
    assert job.state == JobState.RUNNING


@at_each_level(SUBMIT)
def test_a_submission_is_refused(row: Row, level: str) -> None:
    """Until the limit is raised, or a job ends. Tasks of arrays count."""
    site = LimitedSite(ENFORCED, level, tight(row))
    refusal = Reject(Errno.ESLURM_ACCOUNTING_POLICY, reason(row, level))
    assert site.answer(**ASKED, array="0-1") == refusal
    job = site.ask()
    site.run_pass()
    assert site.answer(**ASKED) == refusal
    site.end(job)
    site.ask()
    assert site.answer(**ASKED) == refusal
    site.set_limits(level, loose(row))
    site.ask()
    assert site.answer(**ASKED) == refusal


@at_each_level(ACCRUE)
def test_only_some_jobs_gather_age(row: Row, level: str) -> None:
    """The QOS of a partition has no say in it."""
    site = LimitedSite(ENFORCED, level, tight(row))
    jobs = [site.ask(), site.ask()]
    site.now_us += 1
    site.apply(accrual.due(site.cluster, site.now_us))
    is_limited = level != PARTITION_QOS
    assert [bool(job.accrue_us) for job in jobs] == [True, not is_limited]
    site.set_limits(level, loose(row))
    site.apply(accrual.due(site.cluster, site.now_us))
    assert all(job.accrue_us for job in jobs)


@at_each_level(PROMISE)
def test_jobs_below_a_priority_are_promised_no_room(row: Row, level: str) -> None:
    """So a long job behind a wide one starts; otherwise it would delay that one."""
    for limits, state in ((tight(row), JobState.RUNNING), (loose(row), JobState.PENDING)):
        site = LimitedSite(ENFORCED, level, limits)
        for nodes, limit_min in ((3, 60), (4, 60)):
            site.job(ALICE, nodes_min=nodes, nodes_max=nodes, time_limit_min=limit_min, **WHOLE)
        long = site.job(ALICE, nodes_min=1, time_limit_min=120)
        site.run_pass()
        assert long.state == state


@pytest.mark.parametrize("field", ["grp_jobs", "grp_submit", "grp_wall_min", "max_jobs"])
def test_what_comes_first_counts(field: str) -> None:
    """A QOS replaces what associations say, also for groups; a partition's QOS that of the job."""
    for first, later in ((JOB_QOS, ASSOC_LEVELS[2]), (PARTITION_QOS, JOB_QOS)):
        site = LimitedSite(ENFORCED)
        site.set_all({first: Limits(**{field: 100}), later: Limits(**{field: 0})})
        job = site.ask()
        site.run_pass()
        assert job.state == JobState.RUNNING
        site.set_all({first: Limits(**{field: INFINITE}), later: Limits(**{field: 0})})
        answer = site.answer(**ASKED)
        site.run_pass()
        assert isinstance(answer, Reject) or len(site.cluster.job_index.pending) == 1
