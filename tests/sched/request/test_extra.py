"""Conditions on what nodes have in Extra."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.request.extra import ExtraError, parse, satisfies
from pyslurm_ng.wire.query_messages import UpdateJob, UpdateNodes
from tests.world.callers import ROOT
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.site import Site

EXTRA = '{ "a": 1.23, "b": true, "c": 0, "foo": "bar", "zed": 23, "list": [1] }'
ON = "SchedulerParameters=extra_constraints"


@pytest.mark.parametrize(
    "text",
    [
        "a=1.23", "a=1.230000001", "a!=1.3", "a<2", "a<=1.23", "zed>=23", "zed > 3", "foo=bar",
        "foo!=baz", "foo<car", "b=true", "b=True", "b!=false", "c=0", "a=1.23&foo=bar",
        "a=1.23,zed=23", "a=9|zed=23", "a=9|foo=bar&c=0", "(a=9|foo=bar)&(c=0|c=1)",
        "((zed=23))", "foo = bar", "zed=2.3e1",
    ],
)  # fmt: skip
def test_a_node_that_satisfies(text: str) -> None:
    """Numbers as such, within 0.00001; text and truth by their words."""
    assert satisfies(EXTRA, text)


@pytest.mark.parametrize(
    "text",
    [
        "a=1.24", "zed<3", "foo=ba", "b=false", "b=1", "none=1", "none!=1", "list=1", "list!=1",
        "a=1.23&foo=baz", "a=9|zed=24", "a=1.23,c=1", "foo>bar", "(a=1.23|foo=bar)&c=1",
    ],
)  # fmt: skip
def test_a_node_that_does_not(text: str) -> None:
    """What a node says nothing plain about satisfies no comparison."""
    assert not satisfies(EXTRA, text)


@pytest.mark.parametrize("extra", ["", "free text", "[1]", "3", '{"a": '])
def test_a_node_without_an_object_has_nothing(extra: str) -> None:
    """Extra may be any text."""
    assert not satisfies(extra, "a!=1")


@pytest.mark.parametrize(
    "text",
    ["", "a", "a=", "=1", "a=1&", "&a=1", "a=1 b=2|", "a==1", "a!1", "(a=1", "a=1)", "a=1|(b)",
     "()", "a=1=2", "a<>1", "a=(1)", "a=1,,b=2"],
)  # fmt: skip
def test_text_that_cannot_be_read_is_refused(text: str) -> None:
    """With an error of its own."""
    with pytest.raises(ExtraError):
        parse(text)


@given(st.text(alphabet="ab1.=<>!&|,() "))
def test_no_other_error_escapes(text: str) -> None:
    """Anything typed is read or refused, and what is read can be asked."""
    try:
        parse(text)
    except ExtraError:
        return
    assert satisfies('{"a": 1, "b": "a"}', text) in (True, False)


def set_extra(room: Site, name: str, text: str) -> None:
    """Write Extra of a node as an administrator does."""
    message = UpdateNodes(bytes(16), name, {"extra": text})
    outcome = update_nodes(room.cluster, message, room.context(ROOT))
    assert isinstance(outcome, Decision)
    room.apply(list(outcome.events))


def change(room: Site, job: Job, text: str) -> int:
    """Write Extra of a job as its owner does; return 0 or the number of the refusal."""
    message = UpdateJob(bytes(16), {"extra": text}, jobs=[str(job.job_id)])
    outcome = update_job(room.cluster, message, room.context(ROOT))
    assert isinstance(outcome, Decision)
    room.apply(list(outcome.events))
    return next((code for _, code, _ in outcome.reply.errors), 0)


@pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])
def test_jobs_run_where_extra_suits(plan: PlanFunction) -> None:
    """A job waits until some node says so, and says for what it waits."""
    room = Site(ON, plan=plan)
    set_extra(room, "n3", '{"zone": "east"}')
    here = room.job(extra="zone=east")
    there = room.job(extra="zone=west")
    plan_made = room.run_pass()
    assert (here.state, room.places(here)) == (JobState.RUNNING, ["n3"])
    assert there.state == JobState.PENDING
    assert plan_made.waits[there.job_id].reason in (Reason.Constraints, Reason.Resources)
    set_extra(room, "n2", '{"zone": "west"}')
    room.run_pass()
    assert room.places(there) == ["n2"]


def test_the_reason_names_the_condition() -> None:
    """A user sees that no node says what is asked."""
    room = Site(ON, plan=Planner())
    job = room.job(extra="zone=west")
    wait = room.run_pass().waits[job.job_id]
    assert wait.reason is Reason.Constraints
    assert "zone=west" in wait.text


def test_without_the_option_it_is_free_text() -> None:
    """Neither read nor looked at."""
    room = Site(plan=Planner())
    job = room.job(extra="made on (tuesday")
    room.run_pass()
    assert job.state == JobState.RUNNING


def test_what_cannot_be_read_is_refused_at_submission_and_by_an_update() -> None:
    """Before anything waits for it."""
    room = Site(ON, plan=Planner())
    assert room.submit(extra="zone=") == Errno.ESLURM_INVALID_FEATURE
    job = room.job(extra="zone=west")
    assert change(room, job, "(zone=east") == Errno.ESLURM_INVALID_FEATURE
    set_extra(room, "n4", '{"zone": "east"}')
    assert change(room, job, "zone=east") == 0
    room.run_pass()
    assert room.places(job) == ["n4"]
    assert change(room, job, "anything (else") == 0  # of a running job it is a note
