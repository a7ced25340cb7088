"""SLURM_TASKS_PER_NODE of jobs: every case was asked of Slurm 22.05."""

from __future__ import annotations

from random import Random

import pytest

from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.sched.cons_tres.layout import (
    counts_text,
    parse_distribution,
    spread,
    tasks_on_nodes,
)


@pytest.mark.parametrize(
    ("fields", "cpus", "tasks"),
    [
        ({"ntasks": 8}, [6, 2], "6,2"),
        ({"ntasks": 11}, [8, 2, 2, 2], "5,2(x3)"),
        ({"ntasks": 6}, [16, 16], "3(x2)"),
        ({"ntasks": 7, "cpus_per_task": 3}, [16, 16], "4,3"),
        ({"ntasks": 7, "distribution": "plane=4", "plane_size": 4}, [16, 16], "4,3"),
        ({"ntasks": 40}, [1, 1], "20(x2)"),
        ({"ntasks": 8, "distribution": "block,Pack"}, [16, 16, 16], "6,1(x2)"),
        ({"ntasks": 17}, [16, 2], "15,2"),
        ({"ntasks": 9, "cpus_per_task": 2}, [16, 2], "8,1"),
        ({"ntasks": 3}, [4, 2], "2,1"),
        ({"ntasks": 5}, [16, 4], "3,2"),
        ({"ntasks": 1}, [1, 1], "1,0"),
        ({"ntasks_per_node": 3}, [4, 4], "3(x2)"),
    ],
)
def test_tasks_are_even_as_far_as_cpus_go(
    fields: dict[str, int | str], cpus: list[int], tasks: str
) -> None:
    """A list of hosts and tasks per node count by themselves."""
    request = JobRequest(**fields)  # type: ignore[arg-type]
    allocs = [
        NodeAlloc(node_id, count, ((1 << count) - 1).to_bytes(2, "little"), 0, 3)
        for node_id, count in enumerate(cpus)
    ]
    assert counts_text(tasks_on_nodes(request, allocs)) == tasks


WORDS = ("block", "cyclic", "", "plane=3", "block,Pack", "cyclic,Pack", "plane=7,Pack")


@pytest.mark.parametrize("word", WORDS)
def test_whole_rounds_of_overcommitted_tasks_are_counted_alike(word: str) -> None:
    """As if each task had been dealt by itself."""
    chance = Random(word)
    for _ in range(300):
        cpus = [chance.randint(0, 9) for _ in range(chance.randint(1, 5))]
        size = int(word[6]) if word.startswith("plane") else 0
        request = JobRequest(ntasks=chance.randint(1, 120), distribution=word, plane_size=size)
        allocs = [
            NodeAlloc(node_id, count, ((1 << count) - 1).to_bytes(2, "little"), 0, 1)
            for node_id, count in enumerate(cpus)
        ]
        singly = spread(request.ntasks, cpus, parse_distribution(word, size))
        assert tasks_on_nodes(request, allocs) == [len(ids) for ids in singly]


@pytest.mark.parametrize("word", [*WORDS, "plane=4000000000"])
def test_four_billion_tasks_are_not_dealt_one_by_one(word: str) -> None:
    """One `srun -n 100000000 -O` took slurmctld 4 GB and all its time, then that of a slurmd."""
    size = int(word[6:].split(",")[0]) if word.startswith("plane") else 0
    request = JobRequest(ntasks=4_000_000_000, distribution=word, plane_size=size)
    allocs = [NodeAlloc(node_id, 2, b"\3", 0, 1) for node_id in range(3)]
    counts = tasks_on_nodes(request, allocs)
    assert sum(counts) == 4_000_000_000
    if size > 9:  # each has what it holds, then the first has a plane that takes all the rest
        assert counts == [3_999_999_996, 2, 2]
