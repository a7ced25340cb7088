"""Every limit on a TRES with every TRES that jobs hold, at every level: Slurm's reason.

`test_every_limit` has each limit with some TRES and in all its ways; here each TRES has a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pyslurm_ng.base.numbers import MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.dbd.limits import ASSOCIATION_LIMITS, QOS_LIMITS
from pyslurm_ng.model.assoc import Limits
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from tests.sched.limits.limited_site import ASSOC_LEVELS, QOS_LEVELS, LimitedSite

ENFORCED = "AccountingStorageEnforce=limits,qos"
AMOUNTS = {
    "cpu": 2, "mem": 2000, "node": 1, "gres/gpu": 1, "license/matlab": 1, "billing": 2,
}  # fmt: skip
"""Of one job of `LimitedSite.ask`, whose time limit is an hour."""
MINUTES = 60
# Jobs that share a node count it once, so those of limits on nodes have one of their own.
WHOLE: dict[str, object] = {"flags": REQ_EXCLUSIVE, "gres": "", "licenses": ""}

# Reasons: of an association, of a QOS; empty where the level has no such limit.
CPU, MEM, NODE, GPU, LICENSE, BILLING = AMOUNTS
BESIDE: dict[str, dict[str, tuple[str, str]]] = {
    "grp_tres": {
        CPU: ("AssocGrpCpuLimit", "QOSGrpCpuLimit"),
        MEM: ("AssocGrpMemLimit", "QOSGrpMemLimit"),
        NODE: ("AssocGrpNodeLimit", "QOSGrpNodeLimit"),
        GPU: ("AssocGrpGRES", "QOSGrpGRES"),
        LICENSE: ("AssocGrpLicense", "QOSGrpLicense"),
        BILLING: ("AssocGrpBilling", "QOSGrpBilling"),
    },
    "grp_tres_run_mins": {
        CPU: ("AssocGrpCPURunMinutesLimit", "QOSGrpCPURunMinutesLimit"),
        MEM: ("AssocGrpMemRunMinutes", "QOSGrpMemoryRunMinutes"),
        NODE: ("AssocGrpNodeRunMinutes", "QOSGrpNodeRunMinutes"),
        GPU: ("AssocGrpGRESRunMinutes", "QOSGrpGRESRunMinutes"),
        LICENSE: ("AssocGrpLicenseRunMinutes", "QOSGrpLicenseRunMinutes"),
        BILLING: ("AssocGrpBillingRunMinutes", "QOSGrpBillingRunMinutes"),
    },
    "max_tres_per_user": {
        CPU: ("", "QOSMaxCpuPerUserLimit"),
        MEM: ("", "QOSMaxMemoryPerUser"),
        NODE: ("", "QOSMaxNodePerUserLimit"),
        GPU: ("", "QOSMaxGRESPerUser"),
        LICENSE: ("", "QOSMaxLicensePerUser"),
        BILLING: ("", "QOSMaxBillingPerUser"),
    },
    "max_tres_per_account": {
        CPU: ("", "MaxCpuPerAccount"),
        MEM: ("", "MaxMemoryPerAccount"),
        NODE: ("", "MaxNodePerAccount"),
        GPU: ("", "MaxGRESPerAccount"),
        LICENSE: ("", "MaxLicensePerAccount"),
        BILLING: ("", "MaxBillingPerAccount"),
    },
    "max_tres_run_mins": {
        CPU: ("AssocMaxCpuMinutesPerJobLimit", "MaxCpuRunMinsPerUser"),
        MEM: ("AssocMaxMemMinutesPerJob", "MaxMemoryRunMinsPerUser"),
        NODE: ("AssocMaxNodeMinutesPerJob", "MaxNodeRunMinsPerUser"),
        GPU: ("AssocMaxGRESMinutesPerJob", "MaxGRESRunMinsPerUser"),
        LICENSE: ("AssocMaxLicenseMinutesPerJob", "MaxLicenseRunMinsPerUser"),
        BILLING: ("AssocMaxBillingMinutesPerJob", "MaxBillingRunMinsPerUser"),
    },
    "max_tres_run_mins_per_account": {
        CPU: ("", "MaxCpuRunMinsPerAccount"),
        MEM: ("", "MaxMemoryRunMinsPerAccount"),
        NODE: ("", "MaxNodeRunMinsPerAccount"),
        GPU: ("", "MaxGRESRunMinsPerAccount"),
        LICENSE: ("", "MaxLicenseRunMinsPerAccount"),
        BILLING: ("", "MaxBillingRunMinsPerAccount"),
    },
}
ALONE: dict[str, dict[str, tuple[str, str]]] = {
    "max_tres_per_job": {
        CPU: ("AssocMaxCpuPerJobLimit", "QOSMaxCpuPerJobLimit"),
        MEM: ("AssocMaxMemPerJob", "QOSMaxMemoryPerJob"),
        NODE: ("AssocMaxNodePerJobLimit", "QOSMaxNodePerJobLimit"),
        GPU: ("AssocMaxGRESPerJob", "QOSMaxGRESPerJob"),
        LICENSE: ("AssocMaxLicensePerJob", "QOSMaxLicensePerJob"),
        BILLING: ("AssocMaxBillingPerJob", "QOSMaxBillingPerJob"),
    },
    "max_tres_per_node": {
        CPU: ("AssocMaxCpuPerNode", "QOSMaxCpuPerNode"),
        MEM: ("AssocMaxMemPerNode", "QOSMaxMemoryPerNode"),
        GPU: ("AssocMaxGRESPerNode", "QOSMaxGRESPerNode"),
    },
    "max_tres_mins_per_job": {
        CPU: ("AssocMaxCpuMinutesPerJobLimit", "QOSMaxCpuMinutesPerJobLimit"),
        MEM: ("AssocMaxMemMinutesPerJob", "QOSMaxMemoryMinutesPerJob"),
        NODE: ("AssocMaxNodeMinutesPerJob", "QOSMaxNodeMinutesPerJob"),
        GPU: ("AssocMaxGRESMinutesPerJob", "QOSMaxGRESMinutesPerJob"),
        LICENSE: ("AssocMaxLicenseMinutesPerJob", "QOSMaxLicenseMinutesPerJob"),
        BILLING: ("AssocMaxBillingMinutesPerJob", "QOSMaxBillingMinutesPerJob"),
    },
    "min_tres_per_job": {
        CPU: ("", "QOSMinCpuNotSatisfied"),
        MEM: ("", "QOSMinMemory"),
        NODE: ("", "QOSMinNode"),
        GPU: ("", "QOSMinGRES"),
        LICENSE: ("", "QOSMinLicense"),
        BILLING: ("", "QOSMinBilling"),
    },
}
SPENT: dict[str, dict[str, tuple[str, str]]] = {
    "grp_tres_mins": {
        CPU: ("AssocGrpCPUMinutesLimit", "QOSGrpCPUMinutesLimit"),
        MEM: ("AssocGrpMemMinutes", "QOSGrpMemoryMinutes"),
        NODE: ("AssocGrpNodeMinutes", "QOSGrpNodeMinutes"),
        GPU: ("AssocGrpGRESMinutes", "QOSGrpGRESMinutes"),
        LICENSE: ("AssocGrpLicenseMinutes", "QOSGrpLicenseMinutes"),
        BILLING: ("AssocGrpBillingMinutes", "QOSGrpBillingMinutes"),
    },
}
WITHOUT = {"max_tres_per_node": {NODE, LICENSE, BILLING}}
"""What no job has on a node: it has one node there, and licences and billing are of the job."""


class Case(NamedTuple):
    """A limit on one TRES at one level, and the reason for which a job waits."""

    field: str
    tres: str
    level: str
    reason: str

    @property
    def amount(self) -> int:
        """How much of it one job has, for its whole time where the limit is on minutes."""
        return AMOUNTS[self.tres] * (MINUTES if "mins" in self.field else 1)

    @property
    def request(self) -> dict[str, object]:
        """What jobs ask for besides."""
        return WHOLE if self.tres == NODE else {}

    def limits(self, amount: int) -> Limits:
        """Return the limit of so much."""
        return Limits(**{self.field: {self.tres: amount}})  # type: ignore[arg-type]


def cases(table: dict[str, dict[str, tuple[str, str]]]) -> Any:
    """Give a test each limit of a table on each TRES at every level that may have it."""
    made = [
        Case(field, tres, level, of_qos if level in QOS_LEVELS else of_assoc)
        for field, rows in table.items()
        for tres, (of_assoc, of_qos) in rows.items()
        for level in (*QOS_LEVELS, *ASSOC_LEVELS)
        if (of_qos if level in QOS_LEVELS else of_assoc)
    ]
    return pytest.mark.parametrize(
        "case", made, ids=[f"{case.field}-{case.tres}-{case.level}" for case in made]
    )


def waits(site: LimitedSite, job: Job, case: Case) -> None:
    """See that a job waits for the limit, in a sentence with numbers."""
    assert job.state == JobState.PENDING
    assert site.shown(job)[0] == case.reason
    assert any(letter.isdigit() for letter in " ".join(site.sentences(job)))


def test_the_tables_have_each_limit_on_each_tres() -> None:
    """So that a limit that is added has its rows, too."""
    tables = {**BESIDE, **ALONE, **SPENT}
    specs = (*ASSOCIATION_LIMITS, *QOS_LIMITS)
    assert set(tables) == {spec.attribute for spec in specs if spec.kind == "tres"}
    for field, rows in tables.items():
        assert set(rows) == set(AMOUNTS) - WITHOUT.get(field, set()), field
        of_assoc = field in {spec.attribute for spec in ASSOCIATION_LIMITS}
        assert all(bool(names[0]) == of_assoc and names[1] for names in rows.values()), field


@cases(BESIDE)
def test_a_job_waits_beside_another(case: Case) -> None:
    """The second goes on when the limit is raised by what it lacked."""
    site = LimitedSite(ENFORCED, case.level, case.limits(2 * case.amount - 1))
    first, second = site.ask(**case.request), site.ask(**case.request)
    site.run_pass()
    assert first.state == JobState.RUNNING
    waits(site, second, case)
    site.set_limits(case.level, case.limits(2 * case.amount))
    site.run_pass()
    assert second.state == JobState.RUNNING


@cases(ALONE)
def test_a_job_waits_because_of_itself(case: Case) -> None:
    """Too much, or for a QOS that has a least amount too little."""
    sign = -1 if case.field.startswith("max") else 1
    site = LimitedSite(ENFORCED, case.level, case.limits(case.amount + sign))
    job = site.ask(**case.request)
    site.run_pass()
    waits(site, job, case)
    site.set_limits(case.level, case.limits(case.amount))
    site.run_pass()
    assert job.state == JobState.RUNNING


@cases(SPENT)
def test_minutes_are_used_up(case: Case) -> None:
    """When one job has run for an hour the next one waits."""
    site = LimitedSite(ENFORCED, case.level, case.limits(case.amount))
    first = site.ask(**case.request)
    site.run_pass()
    site.now_us += MINUTES * MINUTE_US
    site.end(first)
    second = site.ask(**case.request)
    site.run_pass()
    waits(site, second, case)
    site.set_limits(case.level, case.limits(case.amount + 1))
    site.run_pass()
    assert second.state == JobState.RUNNING
