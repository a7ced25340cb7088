"""What jobs ask of burst buffers, and what the site says of its pools."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.buffers.directives import (
    DirectiveError,
    Wanted,
    lines_of,
    rounded,
    wanted,
)
from pyslurm_ng.ctld.rules.buffers.pools import Pool, PoolError, parse_pools

SCRIPT = b"""#!/bin/bash
#SBATCH -n1
#BB_LUA pool=fast capacity=3

#BB_LUA anything else
sleep 1
#BB_LUA pool=late capacity=4
"""


def test_directives_stand_above_the_first_command_those_of_bb_before_them() -> None:
    """As with Slurm 22.05, which takes what begins with the name, and no other line of --bb."""
    assert lines_of("", SCRIPT, "BB_LUA") == "#BB_LUA pool=fast capacity=3\n#BB_LUA anything else"
    option = "#BB_LUA capacity=1K\npool=none"
    assert lines_of(option, SCRIPT, "BB_LUA").splitlines()[0] == "#BB_LUA capacity=1K"
    assert lines_of("", b"#BB_LUAX y\n #BB_LUA z\n", "BB_LUA") == "#BB_LUAX y"
    assert lines_of("pool=fast capacity=3", b"sleep 1\n", "BB_LUA") == ""
    assert lines_of("", SCRIPT, "BB_OWN") == ""


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("pool=fast capacity=3", Wanted("fast", 3)),
        ("pool=fast capacity=2N", Wanted("fast", 2)),
        ("pool=fast capacity=1K", Wanted("fast", 1024)),
        ("pool=fast capacity=1KB", Wanted("fast", 1000)),
        ("pool=fast capacity=2gib", Wanted("fast", 2 << 30)),
        ("pool=fast", Wanted()),
        ("own=words", Wanted()),
    ],
)
def test_pool_and_capacity(words: str, outcome: Wanted) -> None:
    assert wanted(f"#BB_LUA {words}") == outcome


@pytest.mark.parametrize("words", ["capacity=3", "pool=a capacity=x", "pool=a capacity=9999999P"])
def test_values_that_are_none(words: str) -> None:
    with pytest.raises(DirectiveError, match="capacity"):
        wanted(f"#BB_LUA {words}")


def test_pools_count_units_of_their_granularity() -> None:
    text = '{"pools":[{"id":"a","quantity":5,"granularity":2},{"id":"b","quantity":4}]}'
    assert parse_pools(text) == {"a": Pool("a", 10, 2), "b": Pool("b", 4, 1)}
    assert parse_pools("  ") == {}
    assert rounded(3, 2) == 4


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"pools":[{"id":""}]}', '{"pools":[{"id":"a","granularity":0}]}',
     '{"pools":[{"id":"a","quantity":-1}]}', '{"pools":[{"id":"a","quantity":9e30}]}'],
)  # fmt: skip
def test_texts_that_say_nothing_of_pools(text: str) -> None:
    with pytest.raises(PoolError):
        parse_pools(text)
