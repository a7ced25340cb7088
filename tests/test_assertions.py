"""Each test asserts something: a test that cannot fail proves nothing and hides a gap."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Of pytest: what fails a test if something is not so.
CHECKS = frozenset(("raises", "fail", "warns"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name_called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


@cache
def _asserts(function: Function) -> bool:
    """Return whether a function itself asserts something, or raises if something is not so."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Raise) and "AssertionError" in ast.dump(node):
            return True
        if isinstance(node, ast.Call) and _name_called(node) in CHECKS:
            return True
    return False


@cache
def _names_used(function: Function) -> set[str]:
    """Return the names of what a function calls or hands on, methods included."""
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return names | {_name_called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}


def _functions(tree: ast.AST) -> dict[str, list[Function]]:
    """Return a file's functions and methods by name."""
    by_name: dict[str, list[Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            by_name.setdefault(node.name, []).append(node)
    return by_name


def _that_assert(own: dict[str, list[Function]], elsewhere: frozenset[str]) -> frozenset[str]:
    """Return the names of the functions that assert, by themselves or through those they use.

    Args:
        own: functions by name.
        elsewhere: the names of functions in other files that assert.
    """
    asserting: set[str] = set()
    while True:
        known = asserting | elsewhere
        more = {
            name
            for name, those in own.items()
            if name not in asserting
            and all(_asserts(function) or _names_used(function) & known for function in those)
        }
        if not more:
            return frozenset(asserting)
        asserting |= more


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def _imported(path: Path) -> Iterator[Path]:
    """Yield the files of tests that a file imports from."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            parts = (node.module or "").split(".")[1:]
            for module in (TESTS.joinpath(*parts), TESTS.joinpath(*parts, node.names[0].name)):
                if module.with_suffix(".py").exists():
                    yield module.with_suffix(".py")


@cache
def asserting_functions(path: Path) -> frozenset[str]:
    """Return the names of a file's functions that assert, through what it imports or not."""
    elsewhere: frozenset[str] = frozenset()
    for module in _imported(path):
        elsewhere |= asserting_functions(module)
    return _that_assert(_functions(_tree(path)), elsewhere)


def test_each_test_asserts_something() -> None:
    """By itself, or through functions of its file and of the files that it imports from."""
    empty, count = [], 0
    for path in sorted(TESTS.rglob("test_*.py")):
        asserting = asserting_functions(path)
        tests = [name for name in _functions(_tree(path)) if name.startswith("test_")]
        count += len(tests)
        empty += [f"{path.relative_to(TESTS)}: {name}" for name in tests if name not in asserting]
    assert count > 2000, "the tests are not found"
    assert not empty, "\n".join(["these tests assert nothing:", *empty])


@pytest.mark.parametrize(
    ("text", "asserts"),
    [
        ("def test_it(): run()", False),
        ("def test_it(): assert run()", True),
        ("def test_it():\n with pytest.raises(ValueError): run()", True),
        ("def test_it(): judge()\ndef judge(): assert run()", True),
        ("def test_it(): judge()\ndef judge(): run()", False),
        (
            "def test_it(site): site.expect(1)\nclass Site:\n def expect(self, job): assert job",
            True,
        ),
        ("def test_it(site): site.run(1)\nclass Site:\n def expect(self, job): assert job", False),
    ],
)
def test_what_counts_as_an_assertion(text: str, asserts: bool) -> None:
    """A helper that asserts counts; one that only acts does not."""
    assert ("test_it" in _that_assert(_functions(ast.parse(text)), frozenset())) is asserts
