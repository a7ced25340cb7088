"""The table of faults names what is there, and every row is held by something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import generate_reliability as table  # noqa: E402  (a tool, not a package)


def test_every_row_has_a_test_or_a_record() -> None:
    """A row without a test would be a promise without a proof."""
    tests, records = table.tests_by_row(), table.records_by_row()
    rows = [number for _, group in table.groups() for number, _, _ in group]
    assert len(rows) == 78
    assert [row for row in rows if not tests[row] and not records[row]] == []


def test_no_test_cites_a_row_that_is_not_there() -> None:
    """A typing error would hold nothing."""
    rows = {number for _, group in table.groups() for number, _, _ in group}
    assert set(table.tests_by_row()) <= rows


def test_each_invariant_is_put_to_the_test() -> None:
    """Each names rows that exist, and no test or record cites an invariant that does not."""
    numbers = {number for _, group in table.groups() for number, _, _ in group}
    rules = {rule: rows for _, _, part in table.rules() for rule, _, rows in part}
    assert len(rules) == 23
    assert [rule for rule, rows in rules.items() if not rows or not set(rows) <= numbers] == []
    assert set(table.holders_of_rules()) <= rules.keys()


def test_the_committed_page_is_the_generated_one() -> None:
    """`make docs` was run."""
    assert (REPOSITORY / "docs" / "reliability.md").read_text() == table.page()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("RELIABILITY 27: only that job", ["27"]),
        ("RELIABILITY rows 1, 38b and 54c.", ["1", "38b", "54c"]),
        ("RELIABILITY 41 to 43, 46", ["41", "42", "43", "46"]),
        ("see RELIABILITY SI5", []),
    ],
)
def test_rows_are_read_out_of_texts(text: str, rows: list[str]) -> None:
    """Ranges are written out; other words of the document are no rows."""
    assert table.cited_rows(text) == rows
