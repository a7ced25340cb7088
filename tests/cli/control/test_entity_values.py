"""What `scontrol update` of nodes and partitions says of bad values: Slurm 22.05's words."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import queue
from tests.cli.run_command import Printed, run_command

PREFIX = "scontrol: error:"


def run(patch: pytest.MonkeyPatch, line: str) -> Printed:
    """Run a command line of scontrol as root."""
    return run_command(patch, queue(), "root", ["scontrol", *line.split()])


def yes_or_no(key: str) -> str:
    """Return what is said of a key that is neither YES nor NO."""
    return f"{PREFIX} Invalid input: {key}=x\n{PREFIX} Acceptable {key} values are YES and NO\n"


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("Weight=x", f"{PREFIX} Weight value (x) is not a valid number\nNo changes specified\n"),
        ("Weight=-1", f"{PREFIX} Weight value (-1) is less than zero\nNo changes specified\n"),
        ("Weight=4294967281", f"{PREFIX} Weight value (4294967281) is greater than 4294967280\n"
         "No changes specified\n"),
        ("", "No changes specified\n"),
        ("x", f"{PREFIX} Invalid input: x  Request aborted\n"),
        ("State", f"{PREFIX} Invalid input: State  Request aborted\n"),
        ("State=ALLOC", "slurm_update error: Invalid node state specified\n"),
        ("State=MIXED", "slurm_update error: Invalid node state specified\n"),
        ("State=RESUME", "slurm_update error: Invalid node state specified\n"),
        ("State=POWER_UP", "slurm_update error: Invalid node state specified\n"),
        ("CpuBind=x", f"{PREFIX} Invalid input CpuBind=x\n"),
        ("CpuBind=", f"{PREFIX} Invalid input CpuBind=\n"),
    ],
)  # fmt: skip
def test_nodes(word: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, f"update NodeName=n4 {word}") == Printed("", lines, 1)


@pytest.mark.parametrize(
    "line",
    ["NodeName=n99 Weight=1", "NodeName=n[1-99] Weight=1", "NodeName=n[ Weight=1",
     "PartitionName=gpu Nodes=unknown", "PartitionName=gpu Nodes=n1,unknown",
     "PartitionName=gpu Nodes=n["],
)  # fmt: skip
def test_unknown_nodes(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "slurm_update error: Invalid node name specified\n"
    assert run(monkeypatch, f"update {line}") == Printed("", text, 1)


@pytest.mark.parametrize("key", ["Default", "Hidden", "RootOnly", "ReqResv", "DisableRootJobs",
                                 "LLN", "ExclusiveUser"])  # fmt: skip
def test_partitions_yes_or_no(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run(monkeypatch, f"update PartitionName=gpu {key}=x")
    assert printed == Printed("", yes_or_no(key), 1)


@pytest.mark.parametrize(
    ("word", "lines"),
    [
        ("", f"{PREFIX} No changes specified\n"),
        ("x", f"{PREFIX} Invalid input: x  Request aborted\n"),
        ("x=y", f"{PREFIX} Update of this parameter is not supported: x=y\n\n"
         f"{PREFIX} Request aborted\n"),
        ("State=x", f"{PREFIX} Invalid input: State=x\n"
         f"{PREFIX} Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"),
        ("OverSubscribe=x", f"{PREFIX} Invalid input: OverSubscribe=x\n"
         f"{PREFIX} Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#\n"),
        ("Shared=x", f"{PREFIX} Invalid input: Shared=x\n"
         f"{PREFIX} Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#\n"),
        ("PreemptMode=x", f"{PREFIX} Invalid input: PreemptMode=x\n"),
        ("MaxTime=x", f"{PREFIX} Invalid input MaxTime=x\n"),
        ("DefaultTime=", f"{PREFIX} Invalid input DefaultTime=\n"),
        ("MaxNodes=x", f'{PREFIX} Invalid numeric value "x" for MaxNodes.\n'),
        ("MaxNodes=-1", f'{PREFIX} Invalid numeric value "-1" for MaxNodes.\n'),
        ("MaxNodes=99999999999", f"{PREFIX} Numeric argument (99999999999) to big for MaxNodes.\n"),
        ("MinNodes=x", f'{PREFIX} "x" is not a valid node count\n'),
        ("Priority=x", f"{PREFIX} Invalid Priority value: x\n"),
        ("PriorityTier=65534", f"{PREFIX} Invalid PriorityTier value: 65534\n"),
        ("GraceTime=99999999999", f"{PREFIX} Invalid GraceTime value: 99999999999\n"),
        ("GraceTime=-1", f"{PREFIX} Invalid GraceTime value: -1\n"),
        ("DefMemPerCPU=-1", f"{PREFIX} Invalid DefMemPerCPU value: -1\n"),
        ("MaxCPUsPerNode=x", f"{PREFIX} Invalid MaxCPUsPerNode value: x\n"),
        ("OverTimeLimit=-1", f"{PREFIX} Invalid OverTimeLimit value: -1\n"),
        ("TRESBillingWeights=x", "slurm_update error: Invalid TRESBillingWeights specification\n"),
        ("JobDefaults=x", "slurm_update error: Invalid JobDefaults specification\n"),
    ],
)  # fmt: skip
def test_partitions(word: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, f"update PartitionName=gpu {word}") == Printed("", lines, 1)


def test_the_defaults_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key sets both, and ends the one that it does not name."""
    reference = queue()
    for words, defaults in (
        ("DefCpuPerGPU=2,DefMemPerGPU=100", (2, 100)),
        ("DefCpuPerGPU=3", (3, 0)),
        ("", (0, 0)),
    ):
        line = ["scontrol", "update", "PartitionName=gpu", f"JobDefaults={words}"]
        assert run_command(monkeypatch, reference, "root", line) == Printed("", "", 0)
        partition = reference.cluster.partitions["gpu"]
        assert (partition.def_cpus_per_gpu, partition.def_mem_per_gpu_mib) == defaults


def test_memory_stays_where_only_cpus_of_gpus_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = queue()
    for word in ("DefMemPerCPU=77", "JobDefaults=DefCpuPerGPU=3"):
        line = ["scontrol", "update", "PartitionName=gpu", word]
        assert run_command(monkeypatch, reference, "root", line) == Printed("", "", 0)
    assert reference.cluster.partitions["gpu"].def_mem_per_cpu_mib == 77


def test_creation_has_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run(monkeypatch, "create PartitionName=new Nodes=unknown")
    text = "Error creating the partition: Invalid node name specified\n"
    assert printed == Printed("", text, 1)


def test_the_binding_of_a_partition_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scontrol's manual says; no word is not the same."""
    reference = queue()
    for words in ("CpuBind=core", "CpuBind=off"):
        line = ["scontrol", "update", "PartitionName=debug", words]
        assert run_command(monkeypatch, reference, "root", line) == Printed("", "", 0)
    shown = run_command(monkeypatch, reference, "root", ["scontrol", "show", "part", "debug"])
    assert "CpuBind" not in shown.stdout
    refused = run(monkeypatch, "update PartitionName=debug CpuBind=")
    assert refused == Printed("", f"{PREFIX} Invalid input CpuBind=\n", 1)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("MaxNodes=1k", "MaxNodes=1024"),
        ("MinNodes=0 MaxNodes=2M", "MaxNodes=2097152"),
        ("AllocNodes=login AllocNodes=all", "AllocNodes=ALL"),
        ("CpuBind=cores", "CpuBind=cores"),
        ("CpuBind=socket", "CpuBind=sockets"),
        ("CpuBind=none", "CpuBind=none"),
        (
            "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=100",
            "JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=100",
        ),
        ("DefCpuPerGPU=3", "JobDefaults=DefCpuPerGPU=3"),
        ("JobDefaults=", "JobDefaults=(null)"),
    ],
)
def test_values_of_partitions_are_shown_as_slurms(
    words: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in another spelling than that of slurm.conf; ALL is no host."""
    reference = queue()
    line = ["scontrol", "update", "PartitionName=debug", *words.split()]
    assert run_command(monkeypatch, reference, "root", line) == Printed("", "", 0)
    printed = run_command(monkeypatch, reference, "alice", ["scontrol", "show", "part", "debug"])
    assert shown in printed.stdout.split()
    assert reference.cluster.partitions["debug"].alloc_nodes == ""


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("State=d", "State=DOWN"),
        ("State=dr", "State=DRAIN"),
        ("State=inact", "State=INACTIVE"),
        ("State=u", "State=UP"),
        ("Hidden=ye", "Hidden=YES"),
        ("LLN=Y", "LLN=YES"),
        ("OverSubscribe=ye:2", "OverSubscribe=YES:2"),
        ("OverSubscribe=fo:3", "OverSubscribe=FORCE:3"),
    ],
)
def test_words_of_partitions_may_be_shortened(
    word: str, meaning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts have `State=inact`; of several words that begin alike Slurm takes the first."""
    cluster = queue()
    for line in (["update", "PartitionName=gpu", word], ["show", "partition", "gpu"]):
        printed = run_command(monkeypatch, cluster, "root", ["scontrol", *line])
        assert printed.code == 0, printed.stderr
    assert meaning in printed.stdout.split()
