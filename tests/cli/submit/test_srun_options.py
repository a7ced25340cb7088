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


@pytest.mark.parametrize(
    ("word", "stored", "warnings"),
    [
        ("--compress", "", []),
        ("--compress=LZ4", "lz4", []),
        ("--compress=none", "none", []),
        (
            "--compress=frob",
            "none",
            ["error: Compression type 'frob' unknown, disabling compression support."],
        ),
    ],
)
def test_types_of_compression(word: str, stored: str, warnings: list[str]) -> None:
    """An unknown one is reported, and costs no job."""
    options = options_of(word)
    assert (options.settings["compress"], options.finish()) == (stored, warnings)


def test_libraries_are_sent_or_not() -> None:
    assert options_of("--send-libs=no").settings["send-libs"] == "no"
    with pytest.raises(OptionError, match=r"^Invalid --send-libs specification$"):
        options_of("--send-libs=foo")


@pytest.mark.parametrize("command", ["srun", "salloc"])
@pytest.mark.parametrize("value", ["x", "-1", "1s"])
def test_seconds_of_immediate(command: str, value: str) -> None:
    with pytest.raises(OptionError, match=f'^Invalid numeric value "{value}" for immediate'):
        options_of(f"-I{value}", command=command)


def test_tasks_of_each_node_that_do_not_add_up_are_left_out() -> None:
    """In a step and in a job that srun asks for."""
    options = options_of("--ntasks-per-node=3", "-n4", "-N2")
    assert options.finish() == [
        "warning: can't honor --ntasks-per-node set to 3 which doesn't match the requested tasks 4 "
        "with the number of requested nodes 2. Ignoring --ntasks-per-node."
    ]
    assert "ntasks_per_node" not in options.request
