"""The committed modules of tables are what tools/facts give."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import generate_tables  # noqa: E402  (a tool, not a package)

MODULES = generate_tables.modules()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_committed_table_is_the_generated_one(path: Path) -> None:
    """`make tables` was run, and nobody edited the result by hand. Only the format may differ."""
    assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(MODULES[path]))
