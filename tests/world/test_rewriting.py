"""What is kept of a test file is what pytest would have made of it itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.world.rewriting import rewrite_file


def test_pytest_reads_what_is_kept(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path = tmp_path / "test_sum.py"
    path.write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    rewrite_file(pytestconfig, path)
    kept = rewrite.get_cache_dir(path) / ("test_sum" + rewrite.PYC_TAIL)
    code = rewrite._read_pyc(path, kept)
    assert code is not None
    assert "@pytest_ar" in code.co_names
