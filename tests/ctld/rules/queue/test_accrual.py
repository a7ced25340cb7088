"""Limits on how many waiting jobs gather age priority."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.rules.queue import accrual
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.job import Job
from tests.world.callers import ALICE, BOB
from tests.world.site import Site

TWO = Limits(max_jobs_accrue=2)
GROUP_OF_TWO = Limits(grp_jobs_accrue=2)
NO = Limits()


def site(own: Limits = NO, parent: Limits = NO, quality: Limits = NO) -> Site:
    """Return alice and bob in one account, in a QOS."""
    room = Site("AccountingStorageEnforce=limits")
    users = tuple(UserRecord(name, default_account="physics") for name in ("alice", "bob"))
    members = (
        Association(1, "root"),
        Association(10, "physics", parent_id=1, limits=parent),
        Association(11, "physics", "alice", parent_id=10, limits=own),
        Association(12, "physics", "bob", parent_id=10, limits=own),
    )
    room.apply(
        [
            ev.QosChanged(room.now_us, changed=(Qos(1, "normal", limits=quality),), replace=True),
            ev.AssocChanged(room.now_us, changed=members, users=users, replace=True),
        ]
    )
    return room


def gathers(room: Site, *jobs: Job) -> list[bool]:
    """Return which of some jobs gather age after a minute."""
    room.now_us += MINUTE_US
    room.apply(accrual.due(room.cluster, room.now_us))
    assert accrual.due(room.cluster, room.now_us) == [], "what is settled stays"
    return [bool(job.accrue_us) for job in jobs]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"own": TWO}, [True, True, False, True]),
        ({"parent": TWO}, [True, True, False, True]),  # handed down to each of its users
        ({"parent": GROUP_OF_TWO}, [True, True, False, False]),
        ({"quality": TWO}, [True, True, False, True]),
        ({"quality": GROUP_OF_TWO}, [True, True, False, False]),
    ],
)
def test_so_many_gather_age(limits: dict[str, Limits], expected: list[bool]) -> None:
    """Three jobs of one user, one of another; the first submitted come first."""
    room = site(**limits)
    jobs = [room.job(who) for who in (ALICE, ALICE, ALICE, BOB)]
    assert gathers(room, *jobs) == expected


def test_the_next_joins_when_a_place_is_free() -> None:
    """From that time on it gathers age, and those before it keep what they have."""
    room = site(own=TWO)
    first, second, third = (room.job(ALICE) for _ in range(3))
    gathers(room, first, second, third)
    since_us = second.accrue_us
    room.run_pass()
    waiting = [room.job(ALICE, nodes_min=4, time_limit_min=limit) for limit in (1, 2, 3)]
    assert gathers(room, *waiting) == [True, True, False]
    assert second.accrue_us == since_us


def test_tasks_of_an_array_count_each() -> None:
    """An array of three leaves no place for others, and gathers age as long as one of it may."""
    room = site(own=TWO)
    array, single = room.job(ALICE, array="1-3"), room.job(ALICE)
    assert gathers(room, array, single) == [True, False]
