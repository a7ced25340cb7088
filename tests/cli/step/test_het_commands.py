"""`srun -n1 : -n2 hostname`: a part without a command runs that of the part after it."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.step.het_steps import with_commands, without_job
from pyslurm_ng.cli.submit.options import Options


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("-n1 : -n2 hostname", "-n1 hostname : -n2 hostname"),
        ("-n1 : -n1 a b : -n2 c -n", "-n1 a b : -n1 a b : -n2 c -n"),
        ("-n1 a : -n2", "-n1 a : -n2"),
        ("-n1 : -n2", "-n1 : -n2"),
        ("--het-group=0,1 a", "--het-group=0,1 a"),
    ],
)
def test_each_part_has_a_command(line: str, whole: str) -> None:
    assert with_commands(line.split(), Options("srun").split_words) == whole.split()


def test_the_job_of_a_line_is_taken_out_of_it() -> None:
    """What follows another option stays."""
    line = ["--jobid=5", "-n1", "--jobid", "6", "--job-name", "x", ":", "--jobi=7", "true"]
    assert without_job(line) == ["-n1", "--job-name", "x", ":", "true"]
