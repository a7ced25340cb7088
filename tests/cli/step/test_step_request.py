"""From srun's options to a CreateStep: what the job's variables say yields to the command line."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.numbers import STEP_EXACT, STEP_MEM_ZERO, STEP_OVERLAP, STEP_PTY
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import step_request
from pyslurm_ng.cli.step.launch import gpu_bind, is_per_node
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options

JOB = {
    "SLURM_JOB_ID": "5",
    "SLURM_JOB_NAME": "outer",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_NTASKS": "8",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_MEM_PER_CPU": "1000",
}


def options_of(words: list[str], variables: dict[str, str]) -> Options:
    """Read a command line as srun does."""
    options = Options("srun")
    pairs, _ = options.split_words(words)
    options.apply_environment(variables)
    options.apply_all(pairs, COMMAND_LINE)
    options.finish()
    step_request.check_settings(options)
    return options


def fields_of(*words: str, variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the step that a command line asks for."""
    options = options_of([*words, "prog"], JOB if variables is None else variables)
    return step_request.step_fields(options, [*words, "prog"], "/opt/prog")


def test_a_launcher_of_somebody_elses_has_all_and_keeps_none() -> None:
    """--external-launcher: beside any other step, with all CPUs of its nodes."""
    fields = fields_of("--external-launcher", "-c2", "-N4", "-n4")
    assert fields["flags"] == STEP_OVERLAP


def test_step_inherits_the_jobs_size() -> None:
    """srun alone uses all of the job; the step is named by its program."""
    fields = fields_of()
    assert (fields["ntasks"], fields["nodes_min"], fields["name"]) == (8, 4, "prog")
    assert (fields["mem_per_cpu_mib"], fields["flags"]) == (1000, 0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-n", "1"], {"ntasks": 1, "nodes_min": 1, "ntasks_per_node": None}),
        (["-N", "2"], {"ntasks": 4, "nodes_min": 2, "nodes_max": 2}),
        (["-N", "1-3"], {"ntasks": 6, "nodes_min": 1, "nodes_max": 3}),
        (["-N", "1-9"], {"ntasks": 8, "nodes_min": 1, "nodes_max": 9}),
        (["-w", "n3", "-n1"], {"node_list": "n3", "nodes_min": None}),
        (["-r", "1", "-n1"], {"relative": 1, "nodes_min": None}),
        (["-r", "0"], {"relative": 0, "nodes_min": 4, "ntasks": 8}),
        (["-J", "mine"], {"name": "mine"}),
        (["-c", "2"], {"cpus_per_task": 2, "flags": STEP_EXACT}),
        (["-c", "2", "--whole"], {"flags": 0}),
        (["--exclusive"], {"flags": STEP_EXACT}),
        (["--exclusive=user"], {"flags": 0}),
        (["--exact", "--mem=0"], {"flags": STEP_EXACT | STEP_MEM_ZERO}),
        (["--overlap"], {"flags": STEP_OVERLAP}),
        (["--gres=none"], {"gres": "none"}),
        (["--gpus=0"], {"gres": "none", "gpus": None}),
        (["-I"], {"no_wait": True}),
        (["-m", "block,Pack"], {"ntasks": 8, "nodes_min": None}),
        (["-m", "block,Pack", "-N3"], {"nodes_min": 3}),
    ],
)
def test_command_line_wins(words: list[str], expected: dict[str, Any]) -> None:
    """None: the field is left to the controller."""
    fields = fields_of(*words)
    assert {name: fields.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "per_node", "odd"),
    [
        (
            ["-n", "6"],
            None,
            "set to 2 which doesn't match the requested tasks 6 with the number of",
        ),
        (["--ntasks-per-node=1"], None, "set to 1 which doesn't match the requested tasks 8"),
        (["--ntasks-per-node=3", "-N2", "-n6"], 3, ""),
        (["-n", "2"], None, "can't run 2 processes on 4 nodes"),
        (["-N", "2"], 2, ""),
        (["--begin=now+1hour"], 2, "error: --begin is ignored because nodes are already allocated"),
    ],
)
def test_what_a_step_does_without(
    words: list[str], per_node: int | None, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks per node that do not add up to the tasks, and a time to begin."""
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    options = Options("srun")
    options.apply_environment(JOB)
    options.apply_all(options.split_words(words)[0], COMMAND_LINE)
    problems = " ".join(options.finish())
    assert odd in problems if odd else not problems
    assert step_request.step_fields(options, words, "prog").get("ntasks_per_node") == per_node


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-r4", "-n1"], r"SLURM_JOB_NUM_NODES .* count of allocated nodes \(4\+1>4\)"),
        (["-r4"], r"SLURM_JOB_NUM_NODES .* count of allocated nodes \(4\+4>4\)"),
        (["-r2", "-N3"], r"--nodes option .* count of allocated nodes \(2\+3>4\)"),
        (["-x", "n[1-9]"], "^Hostlist is empty!  Can't run job.$"),
        (["-w", ""], "^Hostlist is empty!  Can not run job.$"),
        (["-N5"], "^Only allocated 4 nodes asked for 5"),
        (["-N3", "-x", "n[2-4,9]"], r"explicitly excluded\?\nOnly allocated 1 nodes asked for 3"),
        (["-r1", "-w", "n3"], "--relative not allowed with -w,--nodelist"),
        (["-r1", "-x", "n3"], "--relative not allowed with -w,--nodelist"),
    ],
)
def test_nodes_counted_from_one_of_the_jobs(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job must have enough nodes from that one on."""
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "4")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    with pytest.raises(OptionError, match=text):
        fields_of(*words)


def test_nodes_are_counted_from_one_only_in_a_job() -> None:
    """Outside there is nothing to count."""
    with pytest.raises(OptionError, match=r"^--relative option invalid for job allocation") as no:
        options_of(["-r0"], {})
    assert (no.value.code, no.value.level) == (1, "fatal: ")


def test_cpus_of_the_job_do_not_make_a_step_exact() -> None:
    """Only -c on srun's own command line does."""
    fields = fields_of(variables={**JOB, "SLURM_CPUS_PER_TASK": "2"})
    assert (fields["cpus_per_task"], fields["flags"]) == (2, 0)


def test_the_cpus_that_a_script_gives_srun_replace_those_of_the_job() -> None:
    """SRUN_CPUS_PER_TASK, which scripts have set since 22.05; what else a task has stays."""
    variables = {"SLURM_CPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "cpu=4,gres/gpu=1"}
    own = step_request.with_own_cpus({**JOB, **variables, "SRUN_CPUS_PER_TASK": "2"})
    fields = fields_of("-n1", variables=own)
    assert (fields["cpus_per_task"], fields["gpus_per_task"], fields["flags"]) == (2, "1", 0)
    assert fields_of("-n1", "-c3", variables=own)["cpus_per_task"] == 3
    with pytest.raises(OptionError, match='Invalid numeric value "x" for --cpus-per-task'):
        fields_of(variables=step_request.with_own_cpus({**JOB, "SRUN_CPUS_PER_TASK": "x"}))


def test_devices_of_a_step_are_those_of_its_own_variable() -> None:
    """SLURM_STEP_GRES is about steps of a job alone, and yields to the command line."""
    variables = {**JOB, "SLURM_GPUS_PER_NODE": "4", "SLURM_STEP_GRES": "none"}
    own = step_request.with_own_gres(variables)
    assert (fields_of(variables=own)["gres"], "gpus_per_node" in own) == ("none", False)
    assert fields_of("--gres=gpu:2", variables=own)["gres"] == "gpu:2"
    outside = {"SLURM_STEP_GRES": "none"}
    assert step_request.with_own_gres(outside) is outside


def test_gpus_of_tres_per_task_are_the_steps_own() -> None:
    """`srun --tres-per-task=gres/gpu` in a job: they replace what the job's variables name."""
    variables = {**JOB, "SLURM_GPUS_PER_TASK": "4", "SLURM_TRES_PER_TASK": "gres/gpu=4"}
    fields = fields_of("-n1", "--tres-per-task=gres/gpu", variables=variables)
    assert fields["gpus_per_task"] == "1"
    without = fields_of("-n1", "--tres-per-task=gres/shard:2", variables=variables)
    assert "gpus_per_task" not in without and without["tres_per_task"] == "gres/shard=2"


def test_host_file_names_each_tasks_node(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM_HOSTFILE, with -m arbitrary and without."""
    (tmp_path / "hosts").write_text("n2\nn1\nn2\n")
    monkeypatch.setenv("SLURM_HOSTFILE", str(tmp_path / "hosts"))
    for words in (["-m", "arbitrary"], ["-m", "block"], []):
        fields = fields_of(*words, "-n", "3")
        assert fields["task_nodes"] == ["n2", "n1", "n2"]
        assert "nodes_min" not in fields
    assert "task_nodes" not in fields_of("-n", "3", "-w", "n1")
    with pytest.raises(OptionError):
        fields_of("-m", "arbitrary", "-n", "4")


@pytest.mark.parametrize(
    "words",
    [
        ["-r", "x"], ["--pty=3"], ["-Z"],
    ],
)  # fmt: skip
def test_what_is_not_implemented_is_refused_by_name(words: list[str]) -> None:
    """Never silently ignored."""
    with pytest.raises(OptionError) as refused:
        options_of(words, {})
    assert refused.value.code == 1


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_needs_one_to_be_shown_on(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output into a pipe has no carriage returns: --pty is left out with two lines, as by 22.05."""

    def size(descriptor: int) -> tuple[int, int]:
        if not is_terminal:
            raise OSError(25, "Inappropriate ioctl for device")
        return 80, 24

    monkeypatch.setattr(step_request.os, "get_terminal_size", size)
    assert fields_of("--pty")["flags"] == (STEP_PTY if is_terminal else 0)
    assert len(capsys.readouterr().err.splitlines()) == (0 if is_terminal else 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--exact --whole", "--exact and --whole are mutually exclusive."),
        ("--exclusive --whole", "--exact and --whole are mutually exclusive."),
        ("--exclusive --overlap", "--exclusive and --overlap are mutually exclusive"),
    ],
)
def test_opposite_shares_of_nodes_are_refused(words: str, said: str) -> None:
    """In the words of 22.05; what a job's variables say gives way."""
    with pytest.raises(OptionError) as refused:
        options_of(words.split(), {})
    assert (refused.value.text, refused.value.code) == (said, 1)
    assert options_of(["--exclusive"], {"SLURM_OVERLAP": "1"})
    assert options_of(["--exclusive=user", "--whole"], {})


def test_a_bare_id_is_of_steps_that_srun_leaves_alone() -> None:
    """--parsable prints no id of a step that srun waits for."""
    with pytest.raises(OptionError, match="--parsable requires --async"):
        options_of(["--parsable"], {})


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a_%t", True), ("a_%5t", True), ("%N/x", True), ("%n", True), ("%j.%J.out", False),
        ("%%t", False), (r"a\%t", False), ("plain", False), ("%", False),
    ],
)  # fmt: skip
def test_which_process_writes_a_file(pattern: str, expected: bool) -> None:
    """Nodes write files that differ between nodes or tasks; srun writes the others."""
    assert is_per_node(pattern) is expected


@pytest.mark.parametrize(
    ("words", "bind"),
    [
        (["-n4"], ""),
        (["-n4", "--ntasks-per-gpu=2"], "single:2"),
        (["-n4", "--ntasks-per-gpu=2", "--gpu-bind=none"], "none"),
        (["-n4", "--ntasks-per-gpu=2", "--tres-bind=gres/gpu:per_task:1"], ""),
    ],
)
def test_tasks_of_a_gpu_are_bound_to_it(words: list[str], bind: str) -> None:
    """--ntasks-per-gpu says which GPU each task sees, unless a binding is asked for."""
    assert gpu_bind(options_of([*words, "prog"], {}).request) == bind


@pytest.mark.parametrize("option", ["--threads", "--msg-timeout"])
def test_counts_that_may_not_be_zero(option: str) -> None:
    with pytest.raises(OptionError, match=f'Invalid numeric value "0" for {option}'):
        options_of([f"{option}=0", "prog"], {})
    options_of(["--wait=0", "prog"], {})
