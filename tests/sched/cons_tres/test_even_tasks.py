"""Jobs that are spread over their nodes, or have them alone, get even numbers of tasks."""

from __future__ import annotations

from random import Random
from typing import Any

from pyslurm_ng.sched.cons_tres.select import _even_tasks


def one_by_one(fits: list[int], task_count: int) -> list[int] | None:
    """Deal each task by itself, round by round."""
    counts = [1] * len(fits)
    while task_count:
        before = task_count
        for index, fit in enumerate(fits):
            if task_count and counts[index] < fit:
                counts[index] += 1
                task_count -= 1
        if task_count == before:
            return None
    return counts


def counted(fits: list[int], task_count: int) -> list[int] | None:
    """Return what the rule gives to nodes, which it does not look at."""
    nodes: Any = [(None, fit) for fit in fits]
    pairs = _even_tasks(nodes, task_count)
    return None if pairs is None else [count for _, count in pairs]


def test_whole_rounds_are_as_single_tasks() -> None:
    """Also where some nodes are full before others, and where not all fit."""
    chance = Random(5)
    for _ in range(2000):
        fits = [chance.randint(1, 9) for _ in range(chance.randint(1, 6))]
        tasks = chance.randint(0, 40)
        assert counted(fits, tasks) == one_by_one(fits, tasks)


def test_billions_of_tasks_are_not_dealt_one_by_one() -> None:
    """`sbatch -n 99999999 -O --spread-job` kept every pass of slurmctld busy: no job started."""
    assert counted([1 << 40] * 3, 3_999_999_997) == [1_333_333_334, 1_333_333_333, 1_333_333_333]
