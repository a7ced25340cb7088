"""PMI_process_mapping as Slurm 22.05 wrote it, and back."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.process_mapping import (
    MOST_BYTES,
    blocks_of,
    mapping_text,
    parse_blocks,
    ranks_of_nodes,
)


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ([[0, 1, 2], [3]], "(vector,(0,1,3),(1,1,1))"),
        ([[0], [1]], "(vector,(0,2,1))"),
        ([[0, 2, 3], [1]], "(vector,(0,2,1),(0,1,2))"),
        ([[0, 1], [2, 3], [4, 5]], "(vector,(0,3,2))"),
        ([[0, 2], [1, 3]], "(vector,(0,2,1),(0,2,1))"),
    ],
)
def test_tasks_of_nodes(tasks: list[list[int]], text: str) -> None:
    """Blocks follow ranks, and nodes in a row with as many ranks are one block."""
    blocks = blocks_of(tasks)
    assert mapping_text(blocks) == text
    assert ranks_of_nodes(blocks, len(tasks)) == tasks
    assert parse_blocks(text.removeprefix("(vector,")[:-1]) == blocks


def test_a_long_cycle_is_cut_to_what_a_value_may_have() -> None:
    """Clients begin anew with the first block."""
    tasks = [list(range(node, 1024, 8)) for node in range(8)]
    text = mapping_text(blocks_of(tasks))
    assert text == "(vector,(0,8,1))" and len(text) < MOST_BYTES


def test_nodes_of_a_later_component() -> None:
    assert blocks_of([[0], [1]], first_node=3) == [(3, 2, 1)]


@pytest.mark.parametrize("text", ["(0,1", "(0,0,1)", "(-1,1,1)", "(a,1,1)", "(0,1,1,1)"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_blocks(text)
