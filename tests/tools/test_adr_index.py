"""Decision records have one form, and the index names all of them."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import generate_adr_index  # noqa: E402  (a tool, not a package)


def test_records_have_the_form_and_their_number_in_the_name() -> None:
    """Readers find what would change a decision at the same place in each record."""
    records = generate_adr_index.records()
    assert len(records) > 30
    assert [record.path.name for record in records if record.path.name[:4] != record.number] == []
    assert len({record.number for record in records}) == len(records)


def test_the_committed_index_is_the_generated_one() -> None:
    """`make docs` was run after a record was added."""
    index = (REPOSITORY / "docs" / "adr" / "README.md").read_text()
    assert index == generate_adr_index.page()
