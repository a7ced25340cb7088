"""What Slurm's users rely on has a test, and findings.toml names it."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FINDINGS: dict[str, dict[str, list[str]]] = tomllib.loads(
    (ROOT / "tests" / "compat" / "findings.toml").read_text()
)


@cache
def named_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("subject", FINDINGS)
def test_each_behaviour_names_tests_that_exist(subject: str) -> None:
    """A test that is renamed or removed leaves no behaviour without one."""
    missing = [
        f"{behaviour}: {test}"
        for behaviour, tests in FINDINGS[subject].items()
        for test in tests or ["none"]
        if not (ROOT / test.partition("::")[0]).is_file()
        or test.partition("::")[2] not in named_in(test.partition("::")[0])
    ]
    assert missing == []
