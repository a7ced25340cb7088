"""Counting whole jobs gives what counting node by node gives."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.timeline.freed_nodes import SOON_US, FreedNodes, busy_until_us
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.world.examples import drawn

POOLS = {0: [0, 1], 1: [2, 3]}


def record(job_id: int, end_min: int, node_ids: set[int]) -> Running:
    """Return what a job holds; it ends so many minutes from now."""
    nodes = tuple(NodeAlloc(node_id, 1, b"\1", 0) for node_id in sorted(node_ids))
    return Running(job_id, START_US + end_min * 60_000_000, nodes, "")


JOBS = st.dictionaries(
    st.integers(1, 6),
    st.builds(
        lambda end, nodes: (end, nodes), st.integers(-2, 5), st.sets(st.integers(0, 3), min_size=1)
    ),
    max_size=5,
)


@settings(max_examples=drawn(200), deadline=None)
@given(st.lists(JOBS, min_size=1, max_size=4))
def test_counts_of_records_are_those_of_nodes(
    passes: list[dict[int, tuple[int, set[int]]]],
) -> None:
    """Over several passes with jobs that come, change and go; None only where nodes are shared."""
    freed = FreedNodes(POOLS)
    view = snapshot(cluster_of(conf_of()), START_US)
    before: dict[int, tuple[tuple[int, set[int]], Running]] = {}
    for jobs in passes:
        now = {
            job_id: before[job_id]
            if job_id in before and before[job_id][0] == made
            else (made, record(job_id, *made))
            for job_id, made in jobs.items()
        }
        before = now
        view.running[:] = [pair[1] for pair in now.values()]
        taken = [node_id for _, nodes in jobs.values() for node_id in nodes]
        busy = [len(set(taken) & set(pool)) for pool in POOLS.values()]
        ends = freed.ends(view, busy)
        if len(set(taken)) < len(taken):
            assert ends is None
            continue
        until = busy_until_us(view)
        expected: dict[tuple[int, int], int] = {}
        for kind, pool in POOLS.items():
            for node_id in pool:
                if node_id in until:
                    key = (until[node_id], kind)
                    expected[key] = expected.get(key, 0) + 1
        assert ends is not None
        assert ends == sorted(ends)
        counted: dict[tuple[int, int], int] = {}
        for end_us, kind, count in ends:
            counted[end_us, kind] = counted.get((end_us, kind), 0) + count
        assert counted == expected
        assert freed.ends(view, [count + 1 for count in busy]) is None
        assert all(end_us >= START_US + min(SOON_US, 60_000_000) for end_us, _ in expected)
