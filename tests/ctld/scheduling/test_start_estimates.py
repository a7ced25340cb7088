"""`--test-only` says what `squeue --start` will say: the jobs that wait already go first."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import cast

import pytest
from msgspec import structs

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_HOLD, REQ_SIGNAL_RESV
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.scheduling.questions import Questions
from pyslurm_ng.ctld.scheduling.start_estimates import StartEstimates, Work
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.explain.probe import Probe
from pyslurm_ng.wire.job_messages import SubmitJob, TestJob, WillRun
from pyslurm_ng.wire.query_messages import UpdateReservation
from pyslurm_ng.wire.stream import Call
from tests.model.clusters import FOUR_NODES, START_US, conf_of
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.sim_room import SimRoom
from tests.world.writer_ends import Heard

MINUTE_US = 60_000_000


class Site(SimRoom):
    """A controller whose passes run, and its estimates."""

    def __init__(self, more: str = "") -> None:
        super().__init__(conf_of(f"{FOUR_NODES}\nPriorityType=priority/basic\n{more}"))
        its = self.controller
        self.estimates = StartEstimates(
            Questions(self.writer, its.soft, its.scheduler, self.context, _at_once, its.faults)
        )

    def ask(self, question: TestJob, caller: Caller) -> object:
        asked = Heard(question)
        self.estimates.handle(cast(Call, asked), caller)
        self.pass_by()
        return asked.last

    def estimate(self, request: JobRequest, caller: Caller = BOB, job_id: int = 0) -> WillRun:
        answer = self.ask(TestJob(request=request, job_id=job_id), caller)
        assert isinstance(answer, WillRun), answer
        return answer

    def submit(self, request: JobRequest, caller: Caller = BOB) -> int:
        """Submit a job and let a pass look at it; return its id."""
        number = self.world.random.randbytes(16)
        message = SubmitJob(number, request, b"#!/bin/sh\n")
        self.controller.writer.change(RULES["SubmitJob"], message, self.context(caller), Heard())
        self.pass_by()
        return max(self.controller.cluster.jobs)

    def pass_by(self) -> None:
        self.run(1)


def _at_once(
    work: Work, done: Callable[[Probe | None], None], failed: Callable[[BaseException], None]
) -> None:
    done(work())


def request_of(chance: Random) -> JobRequest:
    width = chance.choice((1, 1, 2, 4))
    return JobRequest(
        nodes_min=width,
        nodes_max=width,
        ntasks=width * chance.choice((1, 3, 16)),
        flags=chance.choice((0, 0, REQ_EXCLUSIVE)),
        time_limit_min=chance.choice((5, 20, 60)),
        node_list=chance.choice(("", "", "", "n2")),
        gpus=chance.choice(("", "", "", "1")) if width == 1 else "",
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_is_what_the_next_pass_plans(seed: int) -> None:
    """Of ten jobs in a row, each asked for first by the one and submitted after."""
    site, chance = Site(), Random(seed)
    for _ in range(10):
        request = request_of(chance)
        told = site.estimate(request)
        job_id = site.submit(request)
        job = site.controller.cluster.jobs[job_id]
        if job.state == JobState.RUNNING:
            assert told.start_us <= job.start_us
            continue
        shown_us = site.controller.soft.expected_start_us[job_id]
        assert abs(shown_us - told.start_us) <= MINUTE_US, (told, shown_us - START_US)
    assert site.controller.cluster.job_index.pending


def test_held_jobs_and_lone_jobs_are_judged_by_what_runs() -> None:
    """No job waits for a held job, and a held job waits for no job in particular."""
    site = Site()
    whole = JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)
    running = site.submit(whole)
    end_us = site.controller.cluster.jobs[running].start_us + 60 * MINUTE_US
    assert abs(site.estimate(whole).start_us - end_us) <= MINUTE_US
    site.submit(whole, ALICE)
    assert site.estimate(whole).start_us >= end_us + 60 * MINUTE_US
    held_request = JobRequest(
        nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE | REQ_HOLD, time_limit_min=60
    )
    assert abs(site.estimate(held_request).start_us - end_us) <= MINUTE_US


def test_a_waiting_job_may_be_asked_about() -> None:
    """--jobid names it: the answer has its id and its own place in the queue, not one behind it."""
    site = Site()
    whole = JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)
    running, first, second = (site.submit(whole) for _ in range(3))
    anything = JobRequest()
    for job_id in (first, second):
        for caller in (BOB, ROOT):
            told = site.estimate(anything, caller, job_id)
            shown_us = site.controller.soft.expected_start_us[job_id]
            assert told.job_id == job_id and abs(told.start_us - shown_us) <= MINUTE_US
    others = {
        (99, BOB): Errno.ESLURM_INVALID_JOB_ID,
        (first, ALICE): Errno.ESLURM_ACCESS_DENIED,
        (running, BOB): Errno.ESLURM_JOB_NOT_PENDING,
    }
    for (job_id, caller), code in others.items():
        refusal = cast(tuple[int, str], site.ask(TestJob(anything, job_id), caller))
        assert refusal[0] == code


def test_the_cpus_are_those_that_it_would_hold() -> None:
    site = Site()
    whole = JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)
    site.submit(whole)
    site.submit(whole)
    told = site.estimate(JobRequest(nodes_min=2, nodes_max=2, ntasks=6, time_limit_min=60))
    assert told.cpus == 6
    exclusive = JobRequest(nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE, time_limit_min=60)
    told = site.estimate(exclusive)
    specs = [node.spec for node in site.controller.cluster.living_nodes()]
    sizes = {spec.name: spec.cpus for spec in specs}
    assert len(told.nodes.split("[")) == 2 and told.cpus >= 2 * min(sizes.values())


def test_a_job_that_may_overlap_a_reservation_has_an_early_start() -> None:
    """--signal=R: it starts now on lent nodes, unless they are promised to another job."""
    site = Site("PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE")
    begin_us = site.world.now_us + 60 * MINUTE_US
    settings = {
        "starttime": str(begin_us), "duration": "120", "users": "alice", "nodes": "ALL",
        "maxstartdelay": "10",
    }  # fmt: skip
    message = UpdateReservation(bytes(16), "r", settings, True)
    site.controller.writer.change(RULES["UpdateReservation"], message, site.context(ROOT), Heard())
    whole = JobRequest(ntasks=64, nodes_min=4, time_limit_min=90)
    polite = structs.replace(whole, flags=REQ_SIGNAL_RESV, signal=10, signal_before_s=300)
    late_us = begin_us + 120 * MINUTE_US
    assert site.estimate(whole).start_us == late_us
    assert site.estimate(polite).start_us < begin_us
    assert site.controller.cluster.jobs[site.submit(polite)].state == JobState.RUNNING
    told = site.estimate(polite)
    assert (told.start_us, told.nodes) == (late_us, "n[1-4]")
