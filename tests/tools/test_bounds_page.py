"""The page of bounds says what the daemons keep to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyslurm_ng.wire import messages, step_io, table

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_page_is_the_generated_one(tmp_path: Path) -> None:
    """`make docs` after a change of a message."""
    made = tmp_path / "message-bounds.md"
    subprocess.run([sys.executable, ROOT / "tools" / "generate_bounds.py", made], check=True)
    page = made.read_text()
    assert (ROOT / "docs" / "reference" / "message-bounds.md").read_text() == page
    for row in messages.rows():
        if not row.is_reply and not row.kind.startswith("Test"):
            assert f"\n### {row.kind}\n" in page
    for bound in table.bounds("CreateStep"):
        assert f"| `{bound.path}` | {bound.allowed} |" in page
    assert all(f"| {name} |" in page for name, *_ in step_io.FRAMES.values())
