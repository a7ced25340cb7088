"""One call of a function of burst_buffer.lua."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.policy.burst_buffer import REQUIRED, BufferAnswer, BufferCall, answer


def script_of(tmp_path: Path, body: str, without: str = "") -> str:
    """Write a script with all functions that Slurm requires, the last ones as given."""
    path = tmp_path / "burst_buffer.lua"
    functions = [f"function {name}() end" for name in REQUIRED if name != without]
    path.write_text("\n".join([*functions, body]))
    return str(path)


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("return slurm.SUCCESS", 0, ""),
        ("return slurm.SUCCESS, 'fine ' .. a .. b", 0, "fine 12"),
        ("return slurm.ERROR, 'no'", -1, "no"),
        ("return '7'", 7, ""),
        ("return 0, 12", 0, "12"),
    ],
)
def test_a_number_and_a_text(tmp_path: Path, body: str, code: int, text: str) -> None:
    path = script_of(tmp_path, f"function slurm_bb_setup(a, b) {body} end")
    assert answer(BufferCall(path, "slurm_bb_setup", ("1", "2"))) == BufferAnswer(code, text)


def test_what_goes_wrong_is_a_failure_with_its_line(tmp_path: Path) -> None:
    path = script_of(tmp_path, "function slurm_bb_setup() error('boom') end")
    failed = answer(BufferCall(path, "slurm_bb_setup"))
    assert failed.code == -1
    assert failed.text.endswith(": boom")
    assert answer(BufferCall(path, "slurm_bb_pools")).code == -1  # it returns nothing
    broken = answer(BufferCall(script_of(tmp_path, "function ("), "slurm_bb_setup"))
    assert (broken.code, broken.log_lines[0][0]) == (-1, 2)
    incomplete = script_of(tmp_path, "", without="slurm_bb_paths")
    missing = answer(BufferCall(incomplete, "slurm_bb_setup"))
    assert "missing required function slurm_bb_paths" in missing.text


def test_a_function_that_may_be_missing(tmp_path: Path) -> None:
    path = script_of(tmp_path, "")
    call = BufferCall(path, "slurm_bb_test_data_in", is_optional=True)
    assert answer(call) == BufferAnswer(is_missing=True)
