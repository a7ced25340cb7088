"""The programs of srun's --prolog and --epilog, which run beside srun."""

import os
import pwd
import resource
from pathlib import Path

import pytest

from pyslurm_ng.cli.signals import Interrupted
from pyslurm_ng.cli.step.preparation import run_beside
from pyslurm_ng.cli.submit.options import Options


def test_a_signal_right_after_the_programs_end_is_not_sent_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program is gone by then, and its number may be another process's."""
    wait = os.waitpid

    def wait_and_be_interrupted(child: int, flags: int) -> tuple[int, int]:
        wait(child, flags)
        raise Interrupted(15)

    monkeypatch.setattr(os, "waitpid", wait_and_be_interrupted)
    options = Options("srun")
    options.settings["prolog"] = "/bin/true"
    with pytest.raises(Interrupted):
        run_beside(options, {}, "prolog", ["true"], {})


@pytest.mark.parametrize("option", ["prolog", "epilog"])
def test_the_program_gets_the_command_of_the_step(option: str, tmp_path: Path) -> None:
    """srun's manual: its arguments are the command and arguments of the step."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nprintf "%s;" "$@" > {tmp_path}/words\n')
    program.chmod(0o755)
    options = Options("srun")
    options.settings[option] = str(program)
    assert run_beside(options, {}, option, ["echo", "a b", ""], {}) == 0
    assert (tmp_path / "words").read_text() == "echo;a b;;"


def test_the_program_reads_of_user_and_limits(tmp_path: Path) -> None:
    """The variables that Slurm 22.05 gives beside those of job and step."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/environment\n")
    program.chmod(0o755)
    options = Options("srun")
    options.settings |= {"prolog": str(program), "propagate": "NOFILE,CORE"}
    assert run_beside(options, {"MpiDefault": "pmi2"}, "prolog", ["true"], {}) == 0
    shown = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines())
    limits = {name for name in shown if name.startswith("SLURM_RLIMIT_")}
    assert limits == {"SLURM_RLIMIT_NOFILE", "SLURM_RLIMIT_CORE"}
    assert int(shown["SLURM_RLIMIT_NOFILE"]) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert shown["SLURM_JOB_UID"] == str(os.getuid())
    assert shown["SLURM_JOB_USER"] == pwd.getpwuid(os.getuid()).pw_name
    assert (shown["SLURM_MPI_TYPE"], shown["SLURM_SCRIPT_CONTEXT"]) == ("pmi2", "prolog_srun")
    assert {"SLURM_PRIO_PROCESS", "SLURM_UMASK"} <= shown.keys()
