"""Every reason code arises in its scenario, and is shown in Slurm's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import pyslurm_ng
from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from tests.ctld.rules.reason_scenarios import ARISE, CANNOT, ENFORCED, LIMITS, SHOWN, invalid_qos
from tests.world.reservations import ReservationSite


def test_every_code_arises_or_cannot() -> None:
    known = [*ARISE, *LIMITS, *CANNOT]
    assert len(known) == len(set(known))
    assert [reason.name for reason in Reason if reason not in set(known)] == []


# One reads a table that has them all, the other names them in refusals.
LIMIT_REASONS = (("limits", "reasons.py"), ("submission", "limits.py"))


def test_no_rule_gives_a_reason_that_cannot_occur() -> None:
    """A change that gives one of these reasons moves it to the other table."""
    sources = Path(pyslurm_ng.__file__).parent.rglob("*.py")
    text = "\n".join(path.read_text() for path in sources if path.parts[-2:] not in LIMIT_REASONS)
    names = {reason.name for reason in CANNOT}
    assert {name for name in re.findall(r"\bReason\.(\w+)", text) if name in names} == set()


@pytest.mark.parametrize("reason", ARISE, ids=lambda reason: reason.name)
def test_a_reason_arises(reason: Reason) -> None:
    """The commands show its name; a job that waits has more to say."""
    scene = ReservationSite(
        ENFORCED if reason in (Reason.InvalidAccount, Reason.InvalidQOS) else ""
    )
    job = ARISE[reason](scene)
    shown, _ = scene.shown(job)
    assert shown == ("None" if reason == Reason.NONE else reason.name)
    if job.state == JobState.PENDING:
        assert scene.sentences(job)


@pytest.mark.parametrize("reason", LIMITS, ids=lambda reason: reason.name)
def test_a_limit_arises(reason: Reason) -> None:
    """Its sentence has numbers."""
    scene = ReservationSite(ENFORCED)
    job = LIMITS[reason](scene)
    assert scene.shown(job)[0] == reason.name
    assert any(letter.isdigit() for letter in " ".join(scene.sentences(job)))


@pytest.mark.parametrize("scenario", SHOWN, ids=lambda scenario: scenario.__name__)
def test_slurms_words_take_the_place_of_the_name(
    scenario: Callable[[ReservationSite], Job],
) -> None:
    scene = ReservationSite()
    job = scenario(scene)
    assert scene.shown(job) == SHOWN[scenario]
    assert scene.sentences(job)


def test_jobs_that_lost_a_qos_go_on_when_it_is_back() -> None:
    scene = ReservationSite(ENFORCED)
    job = invalid_qos(scene)
    others = [*scene.cluster.job_index.active]
    for other in others:
        scene.ended(scene.cluster.jobs[other], 0)
    scene.run_pass()
    assert job.state == JobState.PENDING
    scene.apply([ev.QosChanged(scene.now_us, (Qos(2, "late"),))])
    scene.run_pass()
    assert job.state == JobState.RUNNING


@pytest.mark.parametrize("request_", [{}, {"time_min_min": 1}, {"time_min_min": 1, "array": "1-3"}])
def test_a_limit_that_only_what_it_gets_would_break(request_: dict[str, object]) -> None:
    """A task asks for little enough, the whole node that it would be given is too much."""
    scene = ReservationSite(ENFORCED)
    scene.account(own=Limits(max_tres_per_job={"cpu": 4}))
    job = scene.waiting(time_limit_min=10, flags=REQ_EXCLUSIVE, **request_)
    assert scene.shown(job)[0] == "AssocMaxCpuPerJobLimit"
