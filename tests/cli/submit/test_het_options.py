"""Options of components: which are passed on, groups of srun, variables of one component."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import het_steps
from pyslurm_ng.cli.submit.directives import apply_directives
from pyslurm_ng.cli.submit.het_options import further_components, split_groups
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options

JOB = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_ID_HET_GROUP_0": "7", "SLURM_JOB_ID_HET_GROUP_1": "8",
    "SLURM_HET_SIZE": "2", "SLURM_CPUS_PER_TASK": "2", "SLURM_CPUS_PER_TASK_HET_GROUP_0": "2",
    "SLURM_NTASKS": "1", "SLURM_NTASKS_HET_GROUP_0": "1", "SLURM_NTASKS_HET_GROUP_1": "3",
    "HOME": "/root",
}  # fmt: skip


def requests(
    script: bytes, *words: str, environment: dict[str, str] | None = None
) -> list[dict[str, object]]:
    """Return the request of every component of an sbatch line."""
    options = Options("sbatch")
    pairs, operands = options.split_words(list(words))
    groups, operands = split_groups(options, operands)
    directives = apply_directives(options, script, "job.sh", ignore_pbs=False)
    options.apply_environment(environment or {})
    options.apply_all(pairs, COMMAND_LINE)
    further = further_components(options, directives, groups, environment or {})
    return [component.request for component in (options, *further)]


def test_what_is_about_the_job_holds_for_the_components_behind() -> None:
    """Account and time limit do; tasks, memory and partition do not."""
    first, second, third = requests(
        b"", "-A", "physics", "-t", "5", "-n4", "-p", "main", "--mem=1G", ":", "-n2", "-t", "9", ":"
    )
    assert [fields["time_limit_min"] for fields in (first, second, third)] == [5, 9, 9]
    assert {fields["account"] for fields in (first, second, third)} == {"physics"}
    assert (second["ntasks"], second.get("partition"), second.get("mem_per_node_mib")) == (
        2, None, None,
    )  # fmt: skip
    assert "ntasks" not in third


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_directives_behind_the_separator_are_the_next_components(word: str) -> None:
    script = f"#!/bin/sh\n#SBATCH -n1 -J mixed\n#SBATCH {word}\n#SBATCH -n2 -c4\ntrue\n".encode()
    first, second = requests(script)
    assert (first["ntasks"], first["name"], first.get("cpus_per_task")) == (1, "mixed", None)
    assert (second["ntasks"], second["name"], second["cpus_per_task"]) == (2, "mixed", 4)


def test_command_line_wins_over_the_script_component_by_component() -> None:
    script = b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n"
    first, second, third = requests(script, "-n5", ":", "-n6", ":", "-n7")
    assert [fields["ntasks"] for fields in (first, second, third)] == [5, 6, 7]


def test_too_many_components_are_refused() -> None:
    with pytest.raises(OptionError, match="128"):
        requests(b"", *([":", "-n1"] * 128))


def steps(*argv: str, environment: dict[str, str] = JOB) -> list[tuple[list[str], int]]:
    component_steps = het_steps.components(
        list(argv), lambda words: Options("srun").split_words(words)[0], environment
    )
    return [(step.words, step.group) for step in component_steps]


def test_groups_of_one_program_and_programs_of_several_groups() -> None:
    assert [group for _, group in steps("--het-group=0-1", "true")] == [0, 1]
    assert steps("a", ":", "-n2", "b") == [(["a"], 0), (["-n2", "b"], 1)]
    assert steps("--pack-group=1", "b") == [(["--pack-group=1", "b"], 1)]


def test_ranks_count_through_components_whatever_the_order_of_the_line() -> None:
    """`--het-group=1 a : --het-group=0 b`: rank 0 is in component 0, as in Slurm."""
    assert steps("--het-group=1", "a", ":", "--het-group=0", "b") == [
        (["--het-group=0", "b"], 0),
        (["--het-group=1", "a"], 1),
    ]


def test_programs_side_by_side_in_an_ordinary_job_all_run_in_it() -> None:
    assert steps("a", ":", "b", environment={"SLURM_JOB_ID": "5"}) == [(["a"], 0), (["b"], 0)]


@pytest.mark.parametrize(
    ("line", "nodes", "node_count", "taken"),
    [
        ("-n1 a : -n1 b", 1, 1, 1),
        ("a : b", 2, 2, 2),
        ("-N1 a : -n3 b", 2, 2, 1),
        ("-N2-4 a : -N1 b : -n1 c", 3, 1, 3),
    ],
)
def test_programs_side_by_side_need_nodes_of_their_own(
    line: str, nodes: int, node_count: int, taken: int
) -> None:
    """The second waited for the nodes of the first, which waited for the second to begin."""
    job = {"SLURM_JOB_ID": "5", "SLURM_JOB_NUM_NODES": str(nodes)}
    text = (
        f"Allocation failure of {node_count} nodes: job size of {nodes}, already allocated {taken} "
    )
    with pytest.raises(OptionError, match=text):
        steps(*line.split(), environment=job)
    shared = f"--exact {line}"
    assert len(steps(*shared.split(), environment=job)) >= 2
    assert len(steps("-n1", "a", ":", "-n1", "b", environment=job | {"SLURM_OVERLAP": "1"})) == 2


def test_groups_are_of_heterogeneous_jobs_alone() -> None:
    """In another job --het-group=0 names nothing, as in 22.05."""
    with pytest.raises(OptionError, match="No directives to start application"):
        steps("--het-group=0", "true", environment={"SLURM_JOB_ID": "5"})
    assert [group for _, group in steps("--het-group=0", "true", environment={})] == [0]
    assert [group for _, group in steps("--het-group=3", "true", environment={})] == [0]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--het-group=0,3", "true"], "het group value of 3, but the job allocation has maximum"),
        (["--het-group=3", "true"], r"exceeds highest hetjob index \(3 > \d\)"),
        (["a", ":", "--het-group=0", "b"], "Duplicate het groups"),
        (["--het-group=x", "true"], "Invalid --het-group value: x"),
        (["--het-group=1-0", "true"], "Invalid --het-group value: 1-0"),
        (["--het-group=", "true"], "Invalid --het-group value: "),
        (["--het-group=0-99999999999", "true"], "Invalid --het-group value: 0-99999999999"),
    ],
)
def test_groups_that_cannot_be_are_named(argv: list[str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        steps(*argv)


def test_groups_named_twice_are_fatal() -> None:
    """With Slurm's prefix."""
    with pytest.raises(OptionError) as caught:
        steps("--het-group=0", "a", ":", "--het-group=0-1", "b")
    assert (caught.value.level, caught.value.code) == ("fatal: ", 1)


def test_variables_of_one_component() -> None:
    """Variables of the leader that the component does not have are removed. All others stay."""
    variables = het_steps.component_environment(JOB, 1)
    assert (variables["SLURM_JOB_ID"], variables["SLURM_JOBID"], variables["SLURM_NTASKS"]) == (
        "8",
        "8",
        "3",
    )
    assert "SLURM_CPUS_PER_TASK" not in variables
    assert variables["HOME"] == "/root"
    assert het_steps.component_environment(JOB, 0)["SLURM_CPUS_PER_TASK"] == "2"


def test_steps_over_components_can_be_switched_off() -> None:
    """SchedulerParameters=disable_hetjob_steps, whatever other words are set."""
    het_steps.check_allowed("defer,enable_hetjob_steps")
    with pytest.raises(OptionError, match="span multiple components"):
        het_steps.check_allowed("defer, Disable_HetJob_Steps")
