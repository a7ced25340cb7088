"""What scripts of a site are asked about, and what of the cluster they may look at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.site_policy.lookups import Lookups
from pyslurm_ng.ctld.site_policy.walks import Passage, Walks
from pyslurm_ng.model.job import Job
from pyslurm_ng.policy.messages import AskRows, Question
from pyslurm_ng.wire.query_messages import HoldJobs, UpdateJob
from tests.world.callers import ALICE, BOB
from tests.world.logs import LineLog
from tests.world.site import Site

KEY = bytes(16)


def questions(site: Site, request: object, caller: Caller) -> list[Question]:
    """Return the first question that a request brings, if there is one."""
    log: Any = LineLog()
    walks = Walks(site.cluster, log, lambda who: Context(site.conf, site.now_us, who))
    walks.names = ("lua",)
    call: Any = SimpleNamespace(request=request)
    try:
        return [next(walks.begin(Passage(call, caller)))]
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


@pytest.mark.parametrize("name", ["\u00b2", "x", "-1", "999"])
def test_a_name_that_is_no_job_is_none(name: str) -> None:
    """The superscript two is a digit for Python, and no number."""
    assert Lookups(Site().cluster).rows(AskRows("jobs", name), None).rows == []
