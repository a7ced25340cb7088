"""The vocabulary: Slurm's numbers stand once, in `base/numbers.py` and `base/error_numbers.py`."""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import pytest

import pyslurm_ng
from pyslurm_ng.base import numbers
from pyslurm_ng.base.error_numbers import Errno

GROUPS = ("JOB_FLAG_", "NODE_FLAG_", "REQ_", "MAIL_", "SHOW_", "CANCEL_", "END_")
SOURCE = Path(pyslurm_ng.__file__).parent
HOME = ("base/numbers.py", "base/error_numbers.py", "base/error_texts.py")
TABLES = "conf/tables/"  # bounds and defaults as the manual writes them
# Numbers that can hardly mean anything else; hexadecimal ones are masks.
DISTINCT = {
    value: name
    for name, value in vars(numbers).items()
    if name.isupper() and value >= numbers.MINUTE_US and value.bit_count() > 1
}
ERRORS = {value: name for name, value in vars(Errno).items() if name.isupper() and value >= 1000}
# Where a number of four digits is something else: a year, a count, an error of MySQL.
NO_ERRORS = {
    ("dbd/admin/jobs.py", 2000),
    *((name, 6000) for name in ("cli/step/x11.py", "d/stepd/x11_display.py")),
    ("base/dates.py", 1800),
    ("base/dates.py", 2000),
    ("ctld/queries/jobs.py", 2000),
    ("ctld/scheduling/early_starts.py", 2000),
    ("ctld/scheduling/pass_input.py", 2000),
    *(("dbd/database.py", number) for number in (2002, 2003, 2006, 2013, 2014, 2055)),
    ("dbd/job_parts.py", 2000),
    ("dbd/private_connection.py", 2026),
    ("dbd/schema.py", 1001),
    ("sched/cons_tres/devices.py", 2000),
    ("sim/life.py", 1001),
    ("wire/auth_jwt.py", 1800),
    ("wire/endpoint.py", 2000),
}
_ROUND = {1000, 2047, 2048}  # also sizes and bounds, everywhere


def group(prefix: str) -> dict[str, int]:
    return {name: value for name, value in vars(numbers).items() if name.startswith(prefix)}


@pytest.mark.parametrize("prefix", GROUPS)
def test_bits_of_a_group_are_single_and_distinct(prefix: str) -> None:
    """Two options on one bit would switch each other on."""
    bits = group(prefix)
    assert len(bits) > 2
    assert all(bit.bit_count() == 1 for bit in bits.values())
    assert [(a, b) for a, b in combinations(bits, 2) if bits[a] == bits[b]] == []


def test_the_numbers_are_those_users_know() -> None:
    """Scripts, journals and Slurm's own tools have these numbers. None of them may ever change."""
    assert (numbers.NO_VAL16, numbers.NO_VAL, numbers.INFINITE) == (65534, 4294967294, 4294967295)
    assert (numbers.STEP_BATCH, numbers.STEP_EXTERN) == (4294967291, 4294967292)
    assert (numbers.JOB_COMPLETED, numbers.JOB_OUT_OF_MEMORY) == (3, 11)
    assert (numbers.JOB_FLAG_REQUEUED, numbers.JOB_FLAG_COMPLETING) == (1024, 32768)
    assert (numbers.NODE_IDLE, numbers.NODE_FLAG_DRAIN) == (2, 512)
    assert (numbers.MINUTE_US, numbers.DAY_US) == (60_000_000, 86_400_000_000)


# Written again ----------------------------------------------------------------------------------


def sources() -> dict[str, str]:
    """Return each file's text by its name below the package."""
    paths = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    return {
        name: path.read_text()
        for name, path in sorted(paths.items())
        if name not in HOME and not name.startswith(TABLES)
    }


def value_of(node: ast.AST) -> int | None:
    """Return what a number, or a sum, product or power of numbers, comes to."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = value_of(node.left), value_of(node.right)
    if left is None or right is None or not 0 <= right < 1 << 40:
        return None
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Pow | ast.LShift) and right <= 64:
        return left**right if isinstance(node.op, ast.Pow) else left << right
    return None


def is_single_bit(node: ast.AST) -> bool:
    """Return whether an expression is `1 << number`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.LShift):
        return False
    return value_of(node.left) == 1 and value_of(node.right) is not None


def again(text: str, name: str = "x.py") -> list[str]:
    """Return each number of the vocabulary that a file writes again."""
    tree = ast.parse(text)
    wrong = []
    for node in ast.walk(tree):
        value = value_of(node)
        if value in DISTINCT:
            if not (ast.get_source_segment(text, node) or "").startswith("0x"):
                wrong.append(f"{name}:{node.lineno}: {value} is {DISTINCT[value]}")
        elif value in ERRORS and value not in _ROUND and (name, value) not in NO_ERRORS:
            wrong.append(f"{name}:{node.lineno}: {value} is Errno.{ERRORS[value]}")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            wrong += [
                f"{name}:{node.lineno}: {ast.unparse(side)} is a bit without a name"
                for side in (node.left, node.right)
                if is_single_bit(side)
            ]
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and defines_number(statement):
            for target in ast.walk(statement.targets[0]):
                if isinstance(target, ast.Name) and hasattr(numbers, target.id.strip("_")):
                    wrong.append(f"{name}:{statement.lineno}: {target.id} stands in base/numbers")
    return wrong


def defines_number(statement: ast.Assign) -> bool:
    value = statement.value
    return any(value_of(element) is not None for element in getattr(value, "elts", [value]))


def test_no_number_of_the_vocabulary_is_written_again() -> None:
    """A copy can be wrong: three of slurmd's error numbers were, for months."""
    texts = sources()
    assert len(texts) > 400
    wrong = [line for name, text in texts.items() for line in again(text, name)]
    assert not wrong, "\n".join(wrong)


def test_letters_that_are_digits_but_no_numbers_are_none() -> None:
    """A small 2 above the line `isdigit`, and int() raises: texts are asked whether `isdecimal`."""
    wrong = [
        f"{name}: {line.strip()}"
        for name, text in sources().items()
        for line in text.splitlines()
        if ".isdigit()" in line and "isascii" not in line and name != "d/stepd/pmi_messages.py"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "x = 4294967294",
        "x = 2**32 - 1",
        "def f(us): return us // 60_000_000",
        "call.error(2017, 'no')",
        "def f(flags): return flags & 1 << 15",
        "_SECOND_US = 10**6",
        "SHOW_ALL, SHOW_DETAIL = 1, 2",
    ],
)
def test_a_copy_is_found(text: str) -> None:
    assert again(text)
