"""A row of the compatibility table that says `same` names the test of its effect."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from compat_rows import Row, every_row, proofs  # noqa: E402

from pyslurm_ng.conf.effects.effect import SAME  # noqa: E402

GOLDEN = ROOT / "tests" / "golden" / "cli"
ROWS = {(row.part, row.key): row for row in every_row() if row.kind == SAME}
PROVEN = [
    (part, key, test)
    for part, tests_by_key in proofs().items()
    for key, test in tests_by_key.items()
]


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def speaks_of(row: Row, test: str) -> bool:
    """Whether a test's file, or the recording it runs, mentions what it is to prove."""
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text()
    case = name.partition("[")[2].rstrip("]")
    if case:
        text += "".join(
            recording.read_text().partition("\n")[0] for recording in GOLDEN.glob(f"*/{case}.txt")
        )
    if not row.name.startswith("-"):
        word = row.key.rpartition("=")[2].rpartition("/")[2].rpartition(" ")[2]
        return word.lower().replace("_", "") in text.lower().replace("_", "")
    long = row.key.removeprefix("--")
    short = row.name[1] if row.name[1] != "-" else ""
    letter = rf"|(?<![\w-])-[a-zA-Z]*{short}" if short else ""
    return re.search(rf"--{long}\b|[\"']{long}[\"']{letter}", text) is not None


def test_a_row_is_proven_once() -> None:
    """Two tests for one row would hide that the first is gone."""
    keys = [(part, key) for part, key, _ in PROVEN]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("part", "key", "test"), PROVEN, ids=[f"{part}:{key}" for part, key, _ in PROVEN]
)
def test_a_proof_is_there_and_about_its_row(part: str, key: str, test: str) -> None:
    """A test that was renamed, or a row that is no longer `same`, is noticed."""
    assert (part, key) in ROWS, "no row of `same`"
    path, _, name = test.partition("::")
    assert (ROOT / path).exists() and name.partition("[")[0] in functions(path), test
    assert speaks_of(ROWS[part, key], test)


def test_every_row_is_proven() -> None:
    """A new row of `same` needs a test, or another word."""
    proven = {(part, key) for part, key, _ in PROVEN}
    missing = sorted(f"{part} {key}" for part, key in ROWS if (part, key) not in proven)
    assert missing == [], "name a test in proofs.toml, or say what it is"
