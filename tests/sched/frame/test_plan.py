"""What a pass returns about nodes it has promised."""

from __future__ import annotations

from array import array

from hypothesis import given, strategies as st

from pyslurm_ng.sched.frame.plan import JoinedNodes, PlacedNodes

NODES = 6
# Whoever is promised room is promised some node.
PLACINGS = st.lists(st.lists(st.integers(0, NODES - 1), min_size=1, unique=True), max_size=8)


def placed(placings: list[list[int]], first_job: int = 1) -> PlacedNodes:
    """Return what planning one job for each of these lists of positions leaves behind."""
    numbers, begins = array("i"), array("q")
    for positions in placings:
        begins.append(len(numbers))
        numbers.extend([len(positions), *positions])
    jobs = array("q", range(first_job, first_job + len(placings)))
    return PlacedNodes(jobs, begins, numbers.tobytes(), [*reversed(range(NODES))])


def test_of_several_placings_of_a_job_the_first_counts() -> None:
    """Those of an array's tasks."""
    nodes = PlacedNodes(
        array("q", [7, 3, 7]),
        array("q", [0, 2, 4]),
        array("i", [1, 0, 1, 1, 1, 2]).tobytes(),
        range(9),
    )
    assert dict(nodes) == {3: (1,), 7: (0,)}


@given(PLACINGS, PLACINGS)
def test_nodes_of_one_job_and_of_all(some: list[list[int]], others: list[list[int]]) -> None:
    """Positions become node ids; of two plans that know a job the first has the say."""
    placing, other = placed(some), placed(others, first_job=2)
    joined = JoinedNodes([placing, other])
    expected = {
        first + index: tuple(sorted(NODES - 1 - node_id for node_id in places))
        for first, placings in ((2, others), (1, some))
        for index, places in enumerate(placings)
    }
    assert dict(joined) == expected
    assert placing.all_nodes() == {node for nodes in placing.values() for node in nodes}
    assert joined.all_nodes() == placing.all_nodes() | other.all_nodes()
    assert joined.get(99) is None
