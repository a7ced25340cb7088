"""Users' texts as variables of programs that daemons run."""

from __future__ import annotations

import subprocess

import pytest

from pyslurm_ng.base.plain_text import program_variables


@pytest.mark.parametrize("value", [65_536 * "\u20ac", 131_072 * "x"], ids=["comment", "dependency"])
def test_a_program_can_be_run_whatever_users_write(value: str) -> None:
    """A prolog that cannot be run drains its node; both are as long as a user may make them."""
    variables = program_variables({"SLURM_JOB_COMMENT": value, "SLURM_JOB_ID": "7"})
    shown = subprocess.run(["/usr/bin/env"], env=variables, capture_output=True, check=True)
    comment, number = shown.stdout.decode().splitlines()
    assert number == "SLURM_JOB_ID=7"
    name, _, text = comment.partition("=")
    assert name == "SLURM_JOB_COMMENT" and value.startswith(text) and len(text) > 40_000


def test_short_texts_are_whole() -> None:
    assert program_variables({"A": "\u20ac\nb\0"}) == {"A": "\u20ac b"}
