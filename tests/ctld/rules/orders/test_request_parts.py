"""A change of many jobs goes on over several requests and does what one would have done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from pyslurm_ng.base.numbers import REQ_HOLD
from pyslurm_ng.cli import request_parts as command_parts
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.orders import request_parts
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire import table
from pyslurm_ng.wire.query_messages import Cancelled, JobsChanged
from tests.world.callers import ALICE, ROOT
from tests.world.site import Site

Reply = dict[str, object]


class Asked:
    """Sends changes to the rules as a command does, some records at a time."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.requests = 0
        self.between: Callable[[], object] | None = None  # done once, after the next request

    def change(self, kind: str, ids: list[str], **fields: object) -> Reply:
        def ask(jobs: list[str], part: dict[str, int]) -> Reply:
            self.requests += 1
            named = {"filter": {"jobs": jobs}} if kind == "CancelJobs" else {"jobs": jobs}
            body = {"request_id": bytes(16), **named, **fields, **part}
            request = table.decode_request(kind, msgspec.msgpack.encode(body))
            outcome = RULES[kind](self.site.cluster, request, self.site.context(ROOT))
            assert isinstance(outcome, Decision), outcome
            self.site.apply(list(outcome.events))
            assert isinstance(outcome.reply, Cancelled | JobsChanged)
            if self.between is not None:
                self.between()
                self.between = None
            return msgspec.structs.asdict(outcome.reply)

        return command_parts.change_all(ids, ask)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Three records at once, on a site with two arrays, some of whose tasks are apart, and jobs."""
    default = request_parts.RequestPart.__init__
    monkeypatch.setattr(default, "__defaults__", (3,))
    asked = Asked(Site())
    for _ in range(2):
        array = asked.site.job(array="1-9", flags=REQ_HOLD)
        for task in (2, 5, 7, 8):
            asked.change("HoldJobs", [f"{array.job_id}_{task}"])
    for _ in range(4):
        asked.site.job(flags=REQ_HOLD, name="mine")
    asked.requests = 0
    return asked


def waiting(site: Site) -> list[int]:
    return [job.job_id for job in site.cluster.jobs.values() if job.state == JobState.PENDING]


@pytest.mark.parametrize("ids", [["1"], ["1_[1-9]"], ["1_[2-8]", "6", "1"], []])
def test_all_that_is_named_is_cancelled(asked: Asked, ids: list[str]) -> None:
    """An array's record, its tasks that are apart, and without ids all that a filter means."""
    cluster = asked.site.cluster
    reply = asked.change("CancelJobs", ids)
    assert reply["errors"] == []
    waiting_ids = {cluster.jobs[job_id].array_job_id for job_id in waiting(asked.site)}
    tasks = cluster.job_index.arrays.get(1, {})
    assert 1 not in waiting_ids
    assert set(tasks.values()).isdisjoint(waiting(asked.site))
    assert bool(waiting_ids) is bool(ids)
    assert asked.requests > 1


def test_a_change_is_made_once(asked: Asked) -> None:
    """The tasks that the first request splits off are not changed again by the next."""
    limits = {job.job_id: job.time_limit_min for job in asked.site.cluster.jobs.values()}
    assert set(limits.values()) == {limits[1]}
    asked.change("UpdateJob", ["1_[1-8]"], settings={"timelimit": "10"})
    asked.requests = 0
    asked.change("UpdateJob", ["1_[1-8]"], settings={"timelimit": "+5"})
    assert asked.requests > 1
    cluster = asked.site.cluster
    # A waiting array that is one record is `array_pending`, so task 9 alone has the old limit.
    limits_min = {
        job.time_limit_min
        for job in cluster.jobs.values()
        if job.array_job_id == 1 and job.array_pending != ((9, 9, 1),)
    }
    assert limits_min == {15}


def test_jobs_of_a_name_are_held(asked: Asked) -> None:
    reply = asked.change("HoldJobs", [], name="mine", release=True)
    assert (reply["count"], reply["errors"]) == (4, [])
    assert asked.requests == 2


def test_an_id_that_an_earlier_request_finished_is_no_error(asked: Asked) -> None:
    """Exactly as many records as fit, and unknown ids among others."""
    reply = asked.change("HoldJobs", ["11", "12", "13", "99", "14", "98"])
    errors = reply["errors"]
    assert isinstance(errors, list)
    assert [error[0] for error in errors] == ["99", "98"]
    assert reply["count"] == 4


def test_a_new_job_is_not_one_of_those_named(asked: Asked) -> None:
    """It is submitted after the first request of the change."""
    site = asked.site
    before = len(waiting(site))
    asked.between = lambda: site.job(flags=REQ_HOLD, name="new")
    reply = asked.change("CancelJobs", [])
    new = [job.job_id for job in site.cluster.jobs.values() if job.request.name == "new"]
    assert (reply["count"], waiting(site)) == (before, new)


class Listing:
    """A client that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def call(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        jobs = request["filter"]["jobs"] if kind == "ShowJobs" else request["steps"]
        self.asked.append(jobs)
        return {"records": "".join(jobs).encode(), "now_us": len(self.asked)}


@pytest.mark.parametrize("kind", ["ShowJobs", "ShowSteps"])
def test_a_long_list_is_shown_as_one(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """In parts of one size, each id once."""
    monkeypatch.setattr(command_parts, "MOST_IDS", 3)
    listing, ids = Listing(), list("1234561")
    request = {"filter": {"jobs": ids}} if kind == "ShowJobs" else {"steps": ids}
    name = "jobs" if kind == "ShowJobs" else "steps"
    reply = command_parts.show_all(listing, kind, request, name)  # type: ignore[arg-type]
    assert reply == {"records": b"123456", "now_us": 2}
    assert listing.asked == [["1", "2", "3"], ["4", "5", "6"]]


def test_a_filter_judges_no_jobs_that_the_request_leaves_to_the_next(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scancel of 100,000 jobs asks a hundred times; each judged all that were left."""
    judged: list[int] = []

    def agrees(*_: object, **__: object) -> job_filter.JobTest:
        return lambda job: bool(judged.append(job.job_id)) or True

    monkeypatch.setattr(job_filter, "agrees", agrees)
    asked.change("CancelJobs", [])
    assert not waiting(asked.site)
    assert len(judged) <= len(asked.site.cluster.jobs) + asked.requests


class Counted(dict[int, None]):
    """Job ids, and how often somebody has gone through all of them."""

    times = 0

    def __iter__(self) -> Iterator[int]:
        self.times += 1
        return super().__iter__()


def test_only_the_first_request_goes_through_all_jobs(asked: Asked) -> None:
    """scancel of 100,000 jobs sorted those that were left a hundred times."""
    index = asked.site.cluster.job_index
    index.pending = pending = Counted(index.pending)
    asked.change("CancelJobs", [])
    assert asked.requests > 2
    assert pending.times == 1
    assert not waiting(asked.site)


@pytest.mark.parametrize("uids", [[], [ALICE.uid], [ALICE.uid, ROOT.uid, 4711]])
def test_ids_far_apart_are_cancelled(asked: Asked, uids: list[int]) -> None:
    """Between two jobs of the same users there may be a million ids of jobs that are gone."""
    site = asked.site
    for _ in range(4):
        site.cluster.next_job_id += 1_000_000
        site.job(flags=REQ_HOLD, name="mine")
        site.job(ROOT, flags=REQ_HOLD)
    tasks_left = (
        []
        if not uids or ROOT.uid in uids
        else [job_id for job_id in waiting(site) if site.cluster.jobs[job_id].uid == ROOT.uid]
    )
    asked.between = site.check
    asked.change("CancelJobs", [], filter={"uids": uids})
    assert asked.requests > 2
    assert waiting(site) == tasks_left
