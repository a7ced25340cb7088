"""What scripts of a site are asked about, and what of the cluster they may look at."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.site_policy.job_rows import JobRows
from pyslurm_ng.ctld.site_policy.lookups import Lookups
from pyslurm_ng.ctld.site_policy.walks import Passage, Walk, Walks
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.policy.messages import AskRows, Question, Verdict
from pyslurm_ng.wire.query_messages import HoldJobs, UpdateJob
from tests.world.callers import ALICE, BOB
from tests.world.logs import LineLog
from tests.world.site import Site

KEY = bytes(16)


def lookups(site: Site) -> Lookups:
    return Lookups(site.cluster, JobRows(site.cluster, site.soft))


def walk(site: Site, request: object, caller: Caller) -> Walk:
    """Return the walk of a request through the scripts."""
    log: Any = LineLog()
    walks = Walks(
        site.cluster,
        JobRows(site.cluster, site.soft),
        log,
        lambda who: Context(site.conf, site.now_us, who),
    )
    walks.names = ("lua",)
    call: Any = SimpleNamespace(request=request)
    return walks.begin(Passage(call, caller))


def asked_jobs(site: Site, request: object) -> list[str]:
    """Return the jobs that scripts are asked about, which let everything pass."""
    steps = walk(site, request, ALICE)
    asked = []
    with contextlib.suppress(StopIteration):
        question = next(steps)
        while True:
            asked.append(str(question.known["job_id"]))
            question = steps.send(Verdict(question.number, 0, question.request))
    return asked


def questions(site: Site, request: object, caller: Caller) -> list[Question]:
    """Return the first question that a request brings, if there is one."""
    try:
        return [next(walk(site, request, caller))]
    except StopIteration as end:
        outcome = end.value
    assert outcome is request  # it goes on as it came, to the rule that judges rights
    return []


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("kind", [UpdateJob, HoldJobs])
def test_scripts_are_not_asked_about_jobs_of_others(kind: Any, by_name: bool) -> None:
    """Else one message of a stranger keeps the scripts busy with a thousand jobs."""
    site = Site()
    job: Job = site.job(ALICE, name="theirs")
    fields: dict[str, Any] = {"name": "theirs"} if by_name else {"jobs": [str(job.job_id)]}
    if kind is UpdateJob:
        fields["settings"] = {"comment": "x"}
    request = kind(KEY, **fields)
    assert len(questions(site, request, ALICE)) == 1
    assert questions(site, request, BOB) == []


@pytest.mark.parametrize("kind", [UpdateJob, HoldJobs])
def test_no_job_is_changed_behind_the_back_of_scripts(kind: Any) -> None:
    """Whoever names one job again and again must not get another one past them."""
    site = Site()
    first, second = (str(site.job(ALICE).job_id) for _ in range(2))
    fields: dict[str, Any] = {"settings": {"comment": "x"}} if kind is UpdateJob else {}
    request = kind(KEY, jobs=[first] * 1_500 + [second], **fields)
    assert asked_jobs(site, request) == [first, second]
    fillers = [str(number) for number in range(5_000, 6_500)]
    refused = walk(site, kind(KEY, jobs=[*fillers, second], **fields), ALICE)
    with pytest.raises(StopIteration) as end:
        next(refused)
    assert "1000 jobs at most" in str(end.value.value)


def test_a_change_that_names_too_much_reaches_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scripts' look at ids did not find, the rule may find."""
    site = Site()
    monkeypatch.setattr(job_filter, "_MOST_WORK", 0)
    request = HoldJobs(KEY, jobs=[f"{site.job(ALICE).job_id}_[1,3,5,7,9,11,13,15]", "2"])
    with pytest.raises(StopIteration) as end:
        next(walk(site, request, ALICE))
    assert end.value.value is job_filter.TOO_MANY


@pytest.mark.parametrize("name", ["\u00b2", "x", "-1", "999"])
def test_a_name_that_is_no_job_is_none(name: str) -> None:
    """The superscript two is a digit for Python, and no number."""
    assert lookups(Site()).rows(AskRows("jobs", name), None).rows == []


def test_a_listed_job_has_what_slurm_gives_scripts() -> None:
    """Scripts count what a user's jobs ask for and hold."""
    site = Site()
    job = site.running(
        ntasks=3, cpus_per_task=2, mem_per_node_mib=1024, nice=5, work_dir="/w", node_list="n1"
    )
    row = lookups(site).rows(AskRows("jobs", str(job.job_id)), None).rows[0]
    shown = {
        "min_cpus": 6,
        "total_cpus": 6,
        "derived_ec": 0,
        "restart_cnt": 0,
        "min_mem_per_node": 1024,
        "min_mem_per_cpu": None,
        "pn_min_memory": 1024,
        "pn_min_cpus": 2,
        "nice": 2147483653,
        "nodes": "n1",
        "end_time": (job.start_us + 60 * 60 * SECOND_US) // SECOND_US,
        "priority": site.soft.priority_of(job),
        "tres_fmt_alloc_str": "cpu=6,mem=1G,node=1,billing=6",
        "gres_req": "cpu=6,mem=1G,node=1,billing=6",
        "work_dir": "/w",
        "het_job_id_set": None,
    }
    assert {name: row[name] for name in shown} == shown


def test_nodes_of_partitions_and_reservations_are_their_names() -> None:
    """A partition of `Nodes=ALL` has the names of all, and flags of a reservation are bits."""
    site = Site(more="PartitionName=every Nodes=ALL")
    parts = lookups(site).partitions()
    assert parts is not None
    assert {row["name"]: row["nodes"] for row in parts.rows}["every"] == "n[1-4]"
    start_us = site.now_us + 3600 * SECOND_US
    kept = Reservation("r", start_us, start_us + 90 * MINUTE_US, (1, 2), users=("root",),
                       flags=("MAINT", "SPEC_NODES"))  # fmt: skip
    site.apply([ev.ReservationCreated(site.now_us, kept)])
    row = lookups(site).rows(AskRows("reservations", "r"), None).rows[0]
    assert (row["node_list"], row["duration"], row["flags"], row["full_nodes"]) == (
        "n[2-3]",
        90,
        0x8001,
        True,
    )
