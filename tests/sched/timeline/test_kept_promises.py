"""What is kept of the promises of one pass for the next one."""

from __future__ import annotations

from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.need import need_of
from pyslurm_ng.sched.timeline.kept_promises import MOST_KEPT, KeptPromise, KeptPromises

NEED = need_of(JobRequest(), Partition("main"), {})


def demand(mask: bytes = b"\1") -> Demand:
    return Demand(Partition("main"), NEED, 60_000_000, (), mask, None)


def place(of: Demand, start_us: int, nodes: int = 1) -> KeptPromise:
    return KeptPromise(of, start_us, None, [(at, 1) for at in range(nodes)], [], {})


def test_what_one_pass_promised_is_known_in_the_next_one_only() -> None:
    kept, own = KeptPromises(), demand()
    promise = place(own, 10)
    kept.add(7, promise)
    assert kept.of(7, own, 0) is None
    kept.begin()
    assert kept.of(7, own, 0) is promise
    assert kept.of(7, demand(b"\0\1"), 0) is None
    kept.begin()
    assert kept.of(7, own, 0) is None


def test_another_planner_finds_the_promises_of_one_that_is_done() -> None:
    """Demands of its own stand for the same jobs."""
    kept, other = KeptPromises(), KeptPromises()
    promise = place(demand(), 10)
    kept.add(7, promise)
    other.begin()
    other.adopt(kept.past())
    assert other.of(7, demand(), 0) is promise
    assert other.of(7, demand(b"\0\1"), 0) is None
    other.drop(7, promise)
    assert other.of(7, demand(), 0) is None
    kept.begin()
    assert kept.of(7, demand(), 0) is promise


def test_tasks_of_an_array_find_their_promises_one_after_another() -> None:
    kept, own = KeptPromises(), demand()
    first, second = place(own, 10), place(own, 20)
    kept.add(7, first)
    kept.add(7, second)
    kept.begin()
    assert kept.of(7, own, 0) is first
    assert kept.of(7, own, 15) is second
    kept.drop(7, first)
    assert kept.of(7, own, 0) is second


def test_few_switches_are_enough_once_the_wait_is_over() -> None:
    kept, few, any_number = KeptPromises(), demand(), demand()
    few.loose = any_number
    promise = place(few, 10)
    kept.add(7, promise)
    kept.begin()
    assert kept.of(7, any_number, 0) is promise


def test_only_so_many_jobs_and_nodes_are_kept() -> None:
    kept, own = KeptPromises(), demand()
    assert kept.takes(20_000)
    kept.add(1, place(own, 10, nodes=5))
    assert not kept.takes(20_000)
    assert kept.takes(1)
    for _ in range(MOST_KEPT - 1):
        kept.pass_over()
    assert kept.is_full
    assert not kept.takes(1)
    kept.begin()
    assert kept.takes(20_000)
