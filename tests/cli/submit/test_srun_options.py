"""Options of srun for its step alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options


def options_of(*words: str, command: str = "srun") -> Options:
    options = Options(command)
    options.apply_all(options.split_words(list(words))[0], COMMAND_LINE)
    return options


def test_ignored_signals_are_named_or_numbered() -> None:
    assert options_of("--ignore-signals=USR1,sigint,15").settings["ignore-signals"] == "10,2,15"
    with pytest.raises(OptionError, match="specification: FOO is no signal"):
        options_of("--ignore-signals=USR1,FOO")


TAKEN = """
import os, signal
from pyslurm_ng.cli.signals import Signals

signals = Signals(frozenset((int(signal.SIGUSR1),)))
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR2)
print(signals.take() == [signal.SIGUSR2])
"""


def test_ignored_signals_are_not_handled() -> None:
    """Other signals are.

    The test runs in a process of its own, because signals are shared by the whole process.
    """
    ran = subprocess.run([sys.executable, "-c", TAKEN], check=True, capture_output=True, text=True)
    assert ran.stdout == "True\n"


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
def test_oom_kill_step(command: str) -> None:
    """Without a value it means yes."""
    wanted = {"--oom-kill-step": 1, "--oom-kill-step=1": 1, "--oom-kill-step=0": 0}
    for word, value in wanted.items():
        assert options_of(word, command=command).request["oom_kill_step"] == value
    with pytest.raises(OptionError, match="0 or 1 is allowed"):
        options_of("--oom-kill-step=2", command=command)
