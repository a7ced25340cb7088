"""Values as JSON are those of the standard library, without what that leaves behind."""

from __future__ import annotations

import gc
import json
from typing import Any

from hypothesis import given, settings, strategies as st

from pyslurm_ng.data_parser.json_shape import encoded
from tests.world.examples import drawn

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts) | st.tuples(parts, parts),
    max_leaves=20,
)


@settings(max_examples=drawn(100), deadline=None)
@given(VALUES, st.integers(0, 3))
def test_values_are_those_of_json(whole: Any, depth: int) -> None:
    """Indented as the place in the document asks for; DEL is escaped, too."""
    made = json.dumps(whole, indent=2).replace("\x7f", "\\u007f")
    assert encoded(whole, depth) == made.replace("\n", "\n" + "  " * depth)


def test_values_leave_no_cycles() -> None:
    """A command searches for none: sacct --json of 200,000 jobs grew to 612 MiB."""
    gc.collect()
    gc.disable()
    try:
        for number in range(100):
            encoded({"exit": {"status": ["SUCCESS"], "code": number}}, 3)
        assert gc.collect() == 0
    finally:
        gc.enable()
