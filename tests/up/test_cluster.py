"""When `pyslurm-ng up` takes its nodes for started."""

from __future__ import annotations

import pytest

from pyslurm_ng.up.cluster import are_settled, summary


@pytest.mark.parametrize(
    ("states", "count", "expected"),
    [
        ({"n1": "idle", "n2": "idle"}, 2, True),
        ({"n1": "idle"}, 2, False),
        ({"n1": "idle", "n2": "down"}, 2, True),
        ({"n1": "drain", "n2": "mix"}, 2, True),
        ({"n1": "idle", "n2": "down*"}, 2, False),
        ({"n1": "idle", "n2": "unk*"}, 2, False),
        ({"n1": "idle", "n2": "inval"}, 2, False),
        ({}, 1, False),
    ],
)
def test_nodes_down_on_purpose_are_not_waited_for(
    states: dict[str, str], count: int, expected: bool
) -> None:
    """A node that its administrator has set DOWN stays so over `down` and `up`."""
    assert are_settled(states, count) is expected


def test_nodes_out_of_service_are_named() -> None:
    assert summary({"n1": "idle"}) == "1 node is idle"
    assert summary({"n1": "idle", "n2": "idle"}) == "2 nodes are idle"
    assert summary({"n1": "idle", "n2": "down"}) == "1 node takes jobs, n2=down"
    assert summary({"n1": "mix", "n2": "idle"}) == "2 nodes take jobs"
