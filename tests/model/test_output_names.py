"""File name patterns, as sbatch's and srun's manuals and recorded names have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model import output_names as names
from pyslurm_ng.model.ids import STEP_BATCH

BATCH = names.NameFields(82, 0, NO_VAL, STEP_BATCH, "alice", "nm", "n3")
TASK = names.NameFields(77, 76, 13, 4, "alice", "nm", "n3", node_index=2, task_id=7)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        # Recorded: reference/cli/env/files.txt.
        ("env_files_%j_%x_%u_%N_%A_%a.out", "env_files_82_nm_alice_n3_82_4294967294.out"),
        ("%J.%s", "82.batch"),
        ("%5j|%05j|%99j", "00082|00082|0000000082"),
        ("%5x|%5u|%3N", "nm|alice|n3"),
        # Made by Slurm 22.05: a number before an unknown letter stays, its % does not.
        ("%3q|%3%j|%", "3q|382|%"),
        ("%5J|%5s|%5n|%3a", "00082|batch|00000|4294967294"),
        ("%b|%3b", "4|004"),
        ("%" + 5000 * "9" + "t|%²j", "0000000000|%²j"),
        ("100%%-%q-%", "100%-%q-%"),
        (r"\%j", "%j"),
        ("a\\%j/b\\c", "a%j/bc"),
    ],
)
def test_batch_names(pattern: str, expected: str) -> None:
    assert names.expand(pattern, BATCH) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%A_%a", "76_13"),
        ("%b", "3"),
        ("%J|%5J|%3s", "77.4|00077.4|004"),
        ("%s/%n/%t/%3t", "4/2/7/007"),
    ],
)
def test_step_names(pattern: str, expected: str) -> None:
    assert names.expand(pattern, TASK) == expected


def test_texts_of_digits_are_not_padded() -> None:
    """A job may be called 123; the file that Slurm 22.05 makes of `%5x` has its name as it is."""
    odd = replace(TASK, job_name="123", user="7", node_name="5")
    assert names.expand("%5x|%5u|%5N", odd) == "123|7|5"


def test_output_and_errors_share_a_file_by_default() -> None:
    """Without options output and errors share a file in the working directory."""
    assert names.batch_names("", "", "", "/home/alice", BATCH) == (
        "/dev/null",
        "/home/alice/slurm-82.out",
        "/home/alice/slurm-82.out",
    )
    array = replace(BATCH, array_job_id=76, array_task_id=5)
    assert names.batch_names("", "", "", "/", array)[1] == "/slurm-76_5.out"


def test_none_makes_no_file() -> None:
    assert names.batch_names("", "none", "", "/w", BATCH)[1:] == ("/dev/null", "/dev/null")


def test_errors_of_their_own() -> None:
    assert names.batch_names("in", "o.%j", "/e.%j", "/w", BATCH) == ("/w/in", "/w/o.82", "/e.82")


def test_only_so_many_patterns_are_replaced() -> None:
    """A name of two thousand took a millisecond, for each task of a step and each job listed."""
    fields = names.NameFields(1, 0, NO_VAL, STEP_BATCH, "u", "x", "n1")
    assert names.expand("%j" * 130 + "end", fields) == "1" * 128 + "%j%jend"
