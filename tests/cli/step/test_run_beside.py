"""The programs of srun's --prolog and --epilog, which run beside srun."""

import os

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
        run_beside(options, {}, "prolog", {})
