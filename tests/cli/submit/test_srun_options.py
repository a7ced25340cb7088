"""Options of srun for its step alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import step_request
from pyslurm_ng.cli.step.launch import launching_lines
from pyslurm_ng.cli.submit.option_lines import verbose_lines
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
    values = {"--oom-kill-step": 1, "--oom-kill-step=1": 1, "--oom-kill-step=0": 0}
    for word, value in values.items():
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


def test_more_tasks_than_nodes_may_have_stay_as_typed() -> None:
    """The controller refuses the job; a step goes on without a word, as in Slurm 22.05."""
    words = ("--ntasks-per-node=2", "-n5", "-N2")
    options = options_of(*words)
    assert options.finish() == []
    assert options.request["ntasks_per_node"] == 2
    step = options_of(*words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_JOB_ID", "5")
        assert step.finish() == []
    assert "ntasks_per_node" not in step.request


def test_lines_about_a_launch() -> None:
    """As -v prints them: every count with how many nodes have it, several ids in brackets."""
    granted = {"job_id": 5, "nodes": ["n1", "n2"], "cpus": [2, 1], "tasks": [[0, 1], [2]]}
    assert launching_lines(options_of("--threads-per-core=1"), granted, "StepId=5.0") == [
        "jobid 5: nodes(2):`n[1-2]', cpu counts: 2(x1),1(x1)",
        "CpuBindType=threads",
        "launching StepId=5.0 on host n1, 2 tasks: [0-1]",
        "launching StepId=5.0 on host n2, 1 tasks: 2",
    ]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("--exclusive", "exclusive           : exclusive"),
        ("-s", "oversubscribe       : oversubscribe"),
        ("--nice", "nice                : 100"),
        ("-t0", "time                : UNLIMITED"),
        ("-t90", "time                : 01:30:00"),
        ("-I", "immediate           : 1"),
        ("-I5", "immediate           : 5"),
        ("--no-kill=off", "no-kill             : unset"),
        ("--switches=1@5", "switches            : 1@00:05:00"),
        ("--switches=2", "switches            : 2"),
        ("-inone", "input               : /dev/null"),
        ("-K", "kill-on-bad-exit    : 1"),
        ("-K0", "kill-on-bad-exit    : 0"),
        ("--propagate", "propagate           : ALL"),
        ("--compress", "compress            : lz4"),
        ("--resv-ports", "resv-ports          : 0"),
        ("--label", "label               : set"),
        ("--begin=2030-01-01", "begin               : 2030-01-01T00:00:00"),
        (
            "--mail-type=ALL,TIME_LIMIT",
            "mail-type           : INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT,TIME_LIMIT",
        ),
    ],
)
def test_options_as_v_prints_them(word: str, line: str) -> None:
    """In one form, whatever was typed."""
    assert line in verbose_lines(options_of(word))


def test_loud_and_quiet_exclude_each_other() -> None:
    for command in ("sbatch", "salloc", "srun"):
        with pytest.raises(OptionError, match=r"^don't specify both --verbose") as refused:
            options_of("-v", "-Q", command=command).finish()
        assert refused.value.code == 1


def test_no_batch_shell_gets_a_signal_without_one() -> None:
    """`B:` is for sbatch."""
    assert options_of("--signal=RB:USR1@10", command="sbatch").request["signal"] == 10
    for command in ("srun", "salloc"):
        assert options_of("--signal=R:USR1@10", command=command).request["signal"] == 10
        with pytest.raises(OptionError, match="Invalid --signal specification"):
            options_of("--signal=B:USR1@10", command=command)


def test_tasks_of_a_range_of_nodes_are_those_of_its_lower_end() -> None:
    options = options_of("-N1-2", "--ntasks-per-node=2")
    options.finish()
    assert options.request["ntasks"] == 2


@pytest.mark.parametrize(
    ("word", "is_on"), [("-K", True), ("-K0", False), ("-K2", True), ("--kill-on-bad-exit=", True)]
)
def test_numbers_of_kill_on_bad_exit(word: str, is_on: bool) -> None:
    assert step_request.is_on(options_of(word), "kill-on-bad-exit") == is_on
    with pytest.raises(OptionError, match="Invalid numeric value"):
        options_of("-Kx")
