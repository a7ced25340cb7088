"""Empty, partial and odd values of sbatch's options and variables, as Slurm 22.05 reads them."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_USER,
    REQ_NO_KILL,
    REQ_REBOOT,
    REQ_REQUEUE,
)
from pyslurm_ng.base.request_words import NO_NAME
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import options as op, submission
from pyslurm_ng.cli.submit.directives import apply_directives
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE


def parsed(*words: str) -> op.Options:
    """Read words as the command line of sbatch."""
    return from_variables(*words)


def from_variables(*words: str, **environment: str) -> op.Options:
    """Read variables, then words, as sbatch does."""
    options = op.Options("sbatch")
    options.apply_environment(environment)
    pairs, _ = options.split_words(list(words))
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    return options


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-p", ""], "partition", NO_NAME),
        (["-q", ""], "qos", NO_NAME),
        (["-A", ""], "account", NO_NAME),
        (["--batch="], "batch_features", NO_NAME),
        (["--gres="], "gres", NO_NAME),
        (["--gres=gpu:1,"], "gres", "gpu:1,"),
        (["-J", ""], "name", ""),
        (["-c", "+2"], "cpus_per_task", 2),
        (["-n", " 2"], "ntasks", 2),
        (["-N", "+1"], "nodes_min", 1),
        (["-G", ""], "gpus", None),
        (["--gpus-per-node="], "gpus_per_node", None),
        (["--gpus-per-socket=0"], "gpus_per_socket", "0"),
        (["-B", ""], "sockets_per_node", None),
        (["-B", "1:4:1", "--gpus-per-task=1"], "ntasks", 4),
        (["-B", "1:4:1", "--ntasks-per-gpu=2"], "gpus", "2"),
        (["--exclusive", "--exclusive=user"], "flags", REQ_EXCLUSIVE_USER),
        (["--exclusive=user", "--exclusive=node"], "flags", REQ_EXCLUSIVE),
        (["--gpus=1g.5gb:1"], "gpus", "1g.5gb:1"),
        (["-B", "*:2"], "cores_per_socket", 2),
        (["--tmp= 5"], "tmp_mib", 5),
        (["-B", "1-2"], "sockets_per_node", 1),
        (["-B", "1:2:1:9"], "cores_per_socket", 2),
        (["--nice="], "nice", 100),
        (["--priority=top"], "priority", NO_VAL - 1),
        (["--signal=USR1@"], "signal_before_s", 60),
        (["--switches=1@"], "switches_wait_s", INFINITE),
        (["-t", "1-"], "time_limit_min", 1440),
        (["--wait-all-nodes="], "wait_all_nodes", 0),
        (["--acctg-freq="], "acctg_freq", ""),
        (["--mail-type=BEGIN,"], "mail_type", 1),
        (["--mail-type=ALL,NONE"], "mail_type", 0),
        (["--acctg-freq=task=10,"], "acctg_freq", "task=10,"),
        (["--profile=None"], "profile", "None"),
        (["--profile=task,ENERGY,none"], "profile", "None"),
        (["--profile=Task,filesystem,Network"], "profile", "Lustre,Network,Task"),
        (["--profile=all"], "profile", "Energy,Lustre,Network,Task"),
        (["--gpu-freq=memory=low,high,verbose"], "tres_freq", "gpu:memory=low,high,verbose"),
        (["--delay-boot=10:00"], "delay_boot_min", 10),
        (["--delay-boot=1-0"], "delay_boot_min", 1440),
        (["--begin=0001-01-01"], "begin_us", 1_000_000),
        (["--deadline=1969-12-31"], "deadline_us", 1_000_000),
        (["--network=a,b"], "network", "a,b"),
        (["--reboot"], "flags", REQ_REBOOT),
        (["--cluster-constraint=!a"], "cluster_features", "!a"),
    ],
)  # fmt: skip
def test_these_are_taken(words: list[str], field: str, value: object) -> None:
    """Scripts hold such values, mostly from a variable that was not set."""
    assert parsed(*words).request.get(field) == value


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--cpu-freq="],
         'unrecognized --cpu-freq argument ""\nInvalid --cpu-freq argument', 255),
        (["--cpu-freq=low:fast"],
         "gov on cpu-frec (fast) illegal without max\nInvalid --cpu-freq argument", 255),
        (["--cpu-freq=low-high:fast"],
         "illegal governor: fast on --cpu-freq\nInvalid --cpu-freq argument", 255),
        (["--cpu-freq=high-2000"],
         "min cpu-frec (high) must be < max cpu-freq (2000)\nInvalid --cpu-freq argument", 255),
        (["--cpu-freq=performance:low"],
         "governor cannot be specified twice performance{-}:low in --cpu-freq\n"
         "Invalid --cpu-freq argument", 255),
        (["--gpu-freq=x"], "Invalid --gpu-freq argument: gpu:x", 255),
        (["--gpu-freq=gpu=low"], "Invalid --gpu-freq argument: gpu:gpu=low", 255),
        (["--delay-boot=x"], "Invalid --delay-boot specification", 255),
        (["--profile=x"], "invalid --profile=x option", 255),
        (["--profile="], "invalid --profile= option", 255),
        (["--mem-bind="], 'unrecognized --mem-bind argument ""', 255),
        (["--mail-type="], "Invalid --mail-type specification", 255),
        (["--mail-type=,"], "Invalid --mail-type specification", 255),
        (["--propagate=NONE,ALL"],
         "Bad rlimit name: NONE\n--propagate=NONE,ALL is not valid.", 1),
        (["--propagate=CORE,ALL"],
         "Bad rlimit name: ALL\n--propagate=CORE,ALL is not valid.", 1),
        (["--gpu-bind=map_gpu:0*2,1*x"],
         "Failed to validate 1*x, offending character is x\n"
         "Invalid --gpu-bind argument: gpu:map_gpu:0*2,1*x", 255),
        (["-F", ""], "Invalid --nodefile node file", 255),
        (["--propagate=as"], "Bad rlimit name: as\n--propagate=as is not valid.", 1),
        (["--switches=@5"], 'Invalid numeric value "" for --switches.', 1),
        (["--wait-all-nodes=x"], 'Invalid numeric value "x" for --wait-all-nodes.', 1),
        (["-F", "/dev/null"], "Hostlist is empty!\nInvalid --nodefile node file", 255),
        (["--bbf=/dev/null"], "Invalid --bbf specification", 1),
        (["-w", "n2", "--gpus-per-task=1"],
         "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks "
         "is not allowed.\nInvalid generic resource (gres) specification", 1),
        (["-w", "n2", "--ntasks-per-gpu=2"],
         "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a "
         "node/ntask specification\nInvalid generic resource (gres) specification", 1),
        (["--gpus=2x"], "Invalid Trackable RESource (TRES) specification", 1),
        (["--gpus-per-node=1-2"], "Invalid Trackable RESource (TRES) specification", 1),
        (["--thread-spec=0"], 'Invalid numeric value "0" for --thread-spec.', 1),
        (["-B", "0"], "Batch job submission failed: Node count specification invalid", 1),
        (["-B", "1:0:1"], "Batch job submission failed: Node count specification invalid", 1),
        (["--time= 5"], "Invalid --time specification", 255),
        (["--time-min=5 "], "Invalid --time-min specification", 255),
        (["--mem=5 "], "Invalid --mem specification", 255),
        (["--mem-per-cpu=1P"], "Invalid --mem-per-cpu specification", 255),
        (["--tmp=1PB"], "Invalid --tmp specification", 255),
        (["-B", "1:x-2"], 'Invalid numeric value "x-2" for second arg of -B.', 1),
    ],
)  # fmt: skip
def test_these_are_refused(words: list[str], text: str, code: int) -> None:
    """Slurm's text and exit code, whether or not the option has an effect here."""
    with pytest.raises(OptionError) as caught:
        parsed(*words)
    assert (caught.value.text, caught.value.code) == (text, code)


@pytest.mark.parametrize(("words", "flag"), [
    (["--exclusive="], REQ_EXCLUSIVE), (["--no-kill="], REQ_NO_KILL), (["--requeue="], REQ_REQUEUE),
])  # fmt: skip
def test_an_empty_argument_that_may_be_left_out_is_none(words: list[str], flag: int) -> None:
    """As if the equals sign were not there."""
    assert parsed(*words).has_flag(flag)


def test_no_moment_is_refused_in_one_line() -> None:
    """There is no place in an empty text to point at."""
    options = op.Options("sbatch")
    with pytest.raises(OptionError, match="Invalid --begin specification"):
        options.apply("begin", "", COMMAND_LINE)
    assert options.lines == []


@pytest.mark.parametrize("value", ["yes", "no", "0", "1", "set"])
def test_the_variable_of_exclusive_is_read_as_its_argument(value: str) -> None:
    """Others of these words would switch it on or off."""
    with pytest.raises(OptionError, match="Invalid --exclusive specification"):
        from_variables(SBATCH_EXCLUSIVE=value)
    assert from_variables(SBATCH_EXCLUSIVE="").has_flag(REQ_EXCLUSIVE)
    assert from_variables(SBATCH_NO_KILL="set").has_flag(REQ_NO_KILL)


@pytest.mark.parametrize(("value", "level"), [("", 0), ("x", 0), ("0", 0), ("2", 2)])
def test_the_variable_of_verbose_holds_a_level(value: str, level: int) -> None:
    """Text that is no number is none."""
    assert from_variables(SBATCH_DEBUG=value).verbose == level


def test_memory_of_two_variables() -> None:
    """Slurm's text names variables, though those of srun."""
    with pytest.raises(OptionError, match=r"^SLURM_MEM_PER_CPU, .* are mutually exclusive"):
        from_variables(SBATCH_MEM_PER_NODE="1", SBATCH_MEM_PER_CPU="1")


@pytest.mark.parametrize(
    ("words", "environment", "shape"),
    [
        ([], {"SBATCH_HINT": "memory_bound"}, ("memory_bound", 1, 1, None)),
        (["--threads-per-core=2"], {"SBATCH_HINT": "memory_bound"}, (None, None, 2, None)),
        (["--ntasks-per-core=1"], {"SBATCH_HINT": "nomultithread"}, (None, None, None, 1)),
        (["--hint=multithread"], {"SBATCH_THREADS_PER_CORE": "1"},
         ("multithread", None, None, None)),
        (["--hint=memory_bound"], {"SBATCH_THREADS_PER_CORE": "2"}, ("memory_bound", 1, 1, None)),
    ],
)  # fmt: skip
def test_a_hint_and_what_excludes_it_of_two_sources(
    words: list[str], environment: dict[str, str], shape: tuple[object, ...]
) -> None:
    """The stronger source counts, and the other leaves nothing behind."""
    request = from_variables(*words, **environment).request
    fields = ("hint", "cores_per_socket", "threads_per_core", "ntasks_per_core")
    assert tuple(request.get(field) for field in fields) == shape


@pytest.mark.parametrize(
    ("value", "code", "line"),
    [
        (None, 1, ""), ("7", 7, ""), ("300", 44, ""),
        ("x", 1, "sbatch: error: SLURM_EXIT_ERROR has zero value\n"),
    ],
)  # fmt: skip
def test_the_exit_code_of_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: str | None,
    code: int,
    line: str,
) -> None:
    """Sites tell refused jobs from those that failed by it."""
    monkeypatch.delenv("SLURM_EXIT_ERROR", raising=False)
    if value is not None:
        monkeypatch.setitem(os.environ, "SLURM_EXIT_ERROR", value)
    assert submission.error_code("sbatch") == code
    assert capsys.readouterr().err == line


def test_a_script_makes_the_command_neither_quiet_nor_loud() -> None:
    """As with Slurm, which reads both options before the script."""
    options = op.Options("sbatch")
    script = b"#!/bin/sh\n#SBATCH -Q -vv -n 2\n"
    apply_directives(options, script, "stdin", ignore_pbs=False)
    assert options.request["ntasks"] == 2
    assert not options.verbose and "quiet" not in options.settings


@pytest.mark.parametrize(
    ("word", "variable"),
    [
        ("high", "High"), ("1000-2000:performance", "1000-2000:Performance"),
        ("low-HIGHM1:ondemand", "Low-Highm1:OnDemand"), ("userspace", "UserSpace"),
    ],
)  # fmt: skip
def test_steps_of_the_job_ask_for_its_frequency(word: str, variable: str) -> None:
    """SLURM_CPU_FREQ_REQ is an input variable of srun in the job; SLURM_GPU_FREQ another."""
    variables = submission.job_environment(parsed(f"--cpu-freq={word}", "--gpu-freq=low"), {})
    assert f"SLURM_CPU_FREQ_REQ={variable}".encode() in variables.split(b"\0")
    assert b"SLURM_GPU_FREQ=low" in variables.split(b"\0")


@pytest.mark.parametrize(
    "governor", ["Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace"]
)
def test_governors_are_those_of_slurm_conf(governor: str) -> None:
    """CpuFreqGovernors, by default OnDemand, Performance and UserSpace."""
    options = parsed(f"--cpu-freq=low-high:{governor.lower()}")
    submission.check_configured(options, {"CpuFreqGovernors": governor})
    with pytest.raises(OptionError) as caught:
        submission.check_configured(options, {"CpuFreqGovernors": "none"})
    line = f"governor of {governor} is not allowed in slurm.conf"
    assert caught.value.text == f"{line}\nInvalid --cpu-freq argument"
    if governor not in ("OnDemand", "Performance", "UserSpace"):
        with pytest.raises(OptionError, match=line):
            submission.check_configured(options, {})


def test_steps_are_sampled_as_the_job_says() -> None:
    """SLURM_ACCTG_FREQ is an input variable of srun in the job, too."""
    variables = submission.job_environment(parsed("--acctg-freq=task=7"), {})
    assert b"SLURM_ACCTG_FREQ=task=7" in variables.split(b"\0")


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("-J a --\n#SBATCH -o x", "-o"),
        ("--\n#SBATCH\n#SBATCH -n1", "-n1"),
        ("-J a -- -o x", "-o"),
        ("-J a stray -o x", "stray"),
    ],
)
def test_two_dashes_end_the_options_of_a_script(lines: str, word: str) -> None:
    """Slurm reads all lines as one command line, so what follows in further lines is no option."""
    options = op.Options("sbatch")
    script = f"#!/bin/sh\n#SBATCH {lines}\n".encode()
    with pytest.raises(OptionError) as problem:
        apply_directives(options, script, "stdin", ignore_pbs=False)
    assert str(problem.value) == f"Invalid directive found in batch script: {word}"


@pytest.mark.parametrize("lines", ["-n 2\n#SBATCH --", "-J --\n#SBATCH -n 2", "-n2 --\n#SBATCH"])
def test_two_dashes_at_the_end_do_no_harm(lines: str) -> None:
    """Nothing follows them, or they are an option's value."""
    options = op.Options("sbatch")
    script = f"#!/bin/sh\n#SBATCH {lines}\n".encode()
    apply_directives(options, script, "stdin", ignore_pbs=False)
    assert options.request["ntasks"] == 2


def test_priority_0_is_no_priority() -> None:
    """As in Slurm 22.05 the job is not held, and a variable's priority is taken back."""
    options = op.Options("sbatch")
    options.apply_all([("priority", "5")], COMMAND_LINE)
    assert options.request["priority"] == 5
    options.apply_all([("priority", "0")], COMMAND_LINE)
    assert "priority" not in options.request


@pytest.mark.parametrize("option", ["--gpus", "--gpus-per-node", "--gpus-per-socket"])
def test_no_gpus_need_no_gres_types(option: str) -> None:
    """Only a count that is not 0 needs `gpu` in GresTypes."""
    options = op.Options("sbatch")
    options.apply(option[2:], "0", COMMAND_LINE)
    options.check_resources("")
    options.apply(option[2:], "a100:1", COMMAND_LINE)
    with pytest.raises(OptionError, match="Invalid generic resource"):
        options.check_resources("")


@pytest.mark.parametrize("option", ["signal", "priority", "begin"])
def test_a_small_digit_above_the_line_is_no_number(option: str) -> None:
    """Python takes it for a digit, and then makes no number of it."""
    with pytest.raises(OptionError):
        parsed(f"--{option}=²")
