"""Limits of associations and QOS at submission: what is refused, and what jobs leave open."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.submission.account import default_qos
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from tests.sched.limits.limited_site import (
    ACCOUNT,
    JOB_QOS,
    PARTITION_QOS,
    USER,
    LimitedSite,
)
from tests.world.callers import ALICE

ENFORCED = "AccountingStorageEnforce=limits,qos"
DENY = ("DenyOnLimit",)
# Four CPUs on two nodes for ten minutes, as measured with Slurm 22.05.
ASKED = {"nodes_min": 2, "nodes_max": 2, "ntasks": 4, "time_limit_min": 10, "partition": "main"}


@pytest.mark.parametrize(
    ("limits", "of_qos", "of_assoc"),
    [
        (Limits(grp_jobs=0), "", ""),
        (Limits(max_jobs=0), "", ""),
        (Limits(grp_tres={"cpu": 3}), "QOSGrpCpuLimit", "AssocGrpCpuLimit"),
        (Limits(grp_tres_mins={"cpu": 39}), "QOSGrpCPUMinutesLimit", "AssocGrpCPUMinutesLimit"),
        (
            Limits(grp_tres_run_mins={"cpu": 39}),
            "QOSGrpCPURunMinutesLimit",
            "AssocGrpCPURunMinutesLimit",
        ),
        (Limits(grp_wall_min=9), "QOSGrpWallLimit", "AssocGrpWallLimit"),
        (Limits(max_tres_per_job={"cpu": 3}), "QOSMaxCpuPerJobLimit", "AssocMaxCpuPerJobLimit"),
        (Limits(max_tres_per_job={"node": 1}), "QOSMaxNodePerJobLimit", "AssocMaxNodePerJobLimit"),
        (Limits(max_tres_per_node={"cpu": 1}), "QOSMaxCpuPerNode", "AssocMaxCpuPerNode"),
        (
            Limits(max_tres_mins_per_job={"cpu": 39}),
            "QOSMaxCpuMinutesPerJobLimit",
            "AssocMaxCpuMinutesPerJobLimit",
        ),
        (
            Limits(max_wall_min=9),
            "QOSMaxWallDurationPerJobLimit",
            "AssocMaxWallDurationPerJobLimit",
        ),
        (Limits(max_tres_per_user={"cpu": 3}), "QOSMaxCpuPerUserLimit", None),
        (Limits(max_tres_per_account={"cpu": 3}), "MaxCpuPerAccount", None),
        (Limits(max_tres_run_mins={"cpu": 39}), "", None),
        (Limits(max_tres_run_mins_per_account={"cpu": 39}), "", None),
        (Limits(min_tres_per_job={"cpu": 5}), "QOSMinCpuNotSatisfied", None),
    ],
)
def test_deny_on_limit_refuses_as_slurm_does(
    limits: Limits, of_qos: str, of_assoc: str | None
) -> None:
    """The command prints the reason before the text; what others leave room for later waits."""
    for level, name in ((JOB_QOS, of_qos), (PARTITION_QOS, of_qos), (USER, of_assoc)):
        if name is None:
            continue
        site = LimitedSite(ENFORCED)
        site.set_limits(level, limits, DENY)
        answer = site.answer(ALICE, **ASKED)  # type: ignore[arg-type]
        expected = Reject(Errno.ESLURM_ACCOUNTING_POLICY, name)
        assert answer == expected if name else not isinstance(answer, Reject)
        site.set_limits(level, limits)
        assert not isinstance(site.answer(ALICE, **ASKED), Reject)  # type: ignore[arg-type]


def test_a_limit_that_a_qos_replaces_refuses_no_job() -> None:
    """The QOS allows four CPUs, so the two of the association do not count."""
    site = LimitedSite(ENFORCED)
    limits = {
        JOB_QOS: Limits(max_tres_per_job={"cpu": 4}),
        USER: Limits(max_tres_per_job={"cpu": 2}),
    }
    site.set_all(limits, DENY)
    assert site.job(ntasks=4).state == JobState.PENDING
    answer = site.answer(ntasks=5)
    assert answer == Reject(Errno.ESLURM_ACCOUNTING_POLICY, "QOSMaxCpuPerJobLimit")


@pytest.mark.parametrize(
    ("limits", "minutes"),
    [
        (Limits(max_wall_min=7), 7),
        (Limits(max_tres_mins_per_job={"cpu": 41}), 10),
        (Limits(max_tres_mins_per_job={"cpu": 3}), 12 * 60),  # too little for a minute: it waits
        (Limits(max_wall_min=7, max_tres_mins_per_job={"cpu": 20}), 5),
        (Limits(), 12 * 60),
    ],
)
def test_a_job_without_time_limit_gets_what_its_limits_leave(limits: Limits, minutes: int) -> None:
    """Where the partition has no DefaultTime, as in Slurm. Jobs that ask for more wait."""
    for level in (JOB_QOS, USER, ACCOUNT):
        site = LimitedSite(ENFORCED, level, limits)
        assert site.job(ntasks=4, partition="gpu").time_limit_min == minutes
        assert site.job(ntasks=4, partition="gpu", time_limit_min=60).time_limit_min == 60
        assert site.job(ntasks=4, partition="main").time_limit_min == 60  # its DefaultTime
    site = LimitedSite("", JOB_QOS, limits)
    assert site.job(ntasks=4, partition="gpu").time_limit_min == 12 * 60  # nothing is enforced


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"nodes_min": 1, "nodes_max": 3}, 2),
        ({"nodes_min": 3, "nodes_max": 3}, 3),
        ({"ntasks": 8}, 2),
        ({"ntasks": 2}, 0),
    ],
)
def test_a_range_of_nodes_ends_where_limits_do(asked: dict[str, object], most: int) -> None:
    """-N1-3 with two nodes allowed is -N1-2; a job that needs three waits."""
    for limits in (Limits(max_tres_per_job={"node": 2}), Limits(max_tres_per_user={"node": 2})):
        site = LimitedSite(ENFORCED, JOB_QOS, limits)
        job = site.job(**asked)  # type: ignore[arg-type]
        assert job.request.nodes_max == most
        site.run_pass()
        assert job.state == (JobState.PENDING if most == 3 else JobState.RUNNING)


@pytest.mark.parametrize(
    ("names", "default", "chosen"),
    [
        (("fast",), "", "fast"),
        (("fast", "normal"), "", "normal"),
        (("fast", "normal"), "fast", "fast"),
        (("fast", "slow"), "", "normal"),  # which the association does not allow: refused
        ((), "", "normal"),
    ],
)
def test_the_qos_of_a_job_that_names_none(
    names: tuple[str, ...], default: str, chosen: str
) -> None:
    """DefaultQOS, the only one of QosLevel, or `normal`."""
    site = LimitedSite(ENFORCED)
    records = tuple(Qos(at, name) for at, name in enumerate(("normal", "fast", "slow"), 1))
    own = Association(4, "physics", "alice", parent_id=3, qos=names, default_qos=default)
    changed = ev.AssocChanged(site.now_us, changed=(own,), version=2)
    site.apply([ev.QosChanged(site.now_us, records), changed])
    assert default_qos(site.cluster, own) == chosen
    if chosen in names or not names:
        assert site.job().qos == chosen
    else:
        assert site.refused() == Errno.ESLURM_INVALID_QOS


def test_components_are_refused_by_the_sum_of_what_they_hold() -> None:
    site = LimitedSite(ENFORCED)
    site.set_limits(JOB_QOS, Limits(max_tres_per_account={"cpu": 4}), DENY)
    parts = [JobRequest(ntasks=count, time_limit_min=NO_VAL) for count in (3, 2)]
    refused = site.submit_parts(*parts)
    assert refused == Reject(Errno.ESLURM_ACCOUNTING_POLICY, "MaxCpuPerAccount")
    assert not isinstance(site.submit_parts(*parts[1:], *parts[1:]), Reject)
