"""Environments of scripts and tasks, compared with what Slurm 26.11 gave the same jobs.

golden/NAME.txt is `env | grep SLURM...` of a job on four nodes n1 to n4 of 16 CPUs, n1 and n2 with
four GPUs; tasks of srun are numbered.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import REQ_NTASKS_SET
from pyslurm_ng.d.spec import environment as env, job_counts
from pyslurm_ng.d.spec.hook_environment import end_variables, hook_environment
from pyslurm_ng.d.spec.step_mpi import step_variables
from pyslurm_ng.model.job import GresAlloc, JobRequest, NodeAlloc
from pyslurm_ng.wire.node_messages import HetComponent, JobCredential

GOLDEN = Path(__file__).parent / "golden"
# An identifier of the run, and what srun -l adds.
NOT_OURS = {"SLURM_JOB_SLUID", "SLURM_LABELIO"}
SENT_BY_SBATCH = {"SLURM_SUBMIT_DIR": "/home/alice", "SLURM_SUBMIT_HOST": "login",
                  "SLURM_PRIO_PROCESS": "0"}  # fmt: skip
LEAVES = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}


def golden(name: str, task: int | None = None) -> dict[str, str]:
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    if task is not None:
        lines = [line.partition(": ")[2] for line in lines if line.startswith(f"{task}: ")]
    pairs = dict(line.split("=", 1) for line in lines)
    return {key: value for key, value in pairs.items() if key not in NOT_OURS}


def credential(
    nodes: list[str], cpus: list[int], tasks: list[int], start: int, end: int, **more: object
) -> JobCredential:
    allocs = tuple(
        NodeAlloc(index, cpu, b"\xff", cpu * 1000, count)
        for index, (cpu, count) in enumerate(zip(cpus, tasks, strict=True))
    )
    fields: dict[str, object] = {
        "cluster": "demo",
        "epoch": 1,
        "attempt": 0,
        "uid": 1001,
        "gid": 1001,
        "user_name": "alice",
        "group_name": "alice",
        "request": JobRequest(),
        "nodes": tuple(nodes),
        "allocs": allocs,
        "step_nodes": tuple(nodes[:1]),
        "step_allocs": allocs[:1],
        "step_tasks": ((0,),),
        "partition": "main",
        "account": "physics",
        "qos": "normal",
        "start_us": start * 1_000_000,
        "end_us": end * 1_000_000,
        "node_addresses": tuple(f"spine.{LEAVES[node]}.{node}" for node in nodes),
        "address_pattern": "switch.switch.node",
    }
    return JobCredential(**{**fields, **more})  # type: ignore[arg-type]


def settings(node: str, per_cpu: int = 1000) -> env.NodeSettings:
    return env.NodeSettings(node, node, "/etc/slurm/slurm.conf", mem_per_cpu_mib=per_cpu)


def shown(variables: dict[str, str], pid: str) -> dict[str, str]:
    """Return what the jobs' grep let through; the process id is added at exec."""
    prefixes = ("SLURM", "SBATCH", "CUDA", "GPU", "ROCR", "ZE_", "TMPDIR", "HOSTNAME", "FOO")
    kept = {key: value for key, value in variables.items() if key.startswith(prefixes)}
    return {**kept, "SLURM_TASK_PID": pid}


def test_plain_script() -> None:
    expected = golden("batch")
    job = credential(["n3"], [1], [1], 1795176985, 1795180585, job_id=69, job_name="envbatch")
    environment = env.batch_environment(job, settings("n3"), SENT_BY_SBATCH, env.GpuView(), {})
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


def test_launchers_of_mpi_start_through_slurm() -> None:
    """MpiParams=disable_slurm_hydra_bootstrap leaves those of Hydra alone."""
    job = credential(["n3"], [1], [1], 1795176985, 1795180585, job_id=69)

    def launchers(node: env.NodeSettings) -> set[str]:
        variables = env.batch_environment(job, node, {}, env.GpuView(), {})
        return {name for name in variables if "HYDRA" in name or "_plm_slurm_" in name}

    every = launchers(settings("n3"))
    rest = launchers(replace(settings("n3"), starts_hydra=False))
    assert sorted(every - rest) == [
        "HYDRA_BOOTSTRAP",
        "HYDRA_LAUNCHER_EXTRA_ARGS",
        "I_MPI_HYDRA_BOOTSTRAP",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
    ]
    assert rest == {"OMPI_MCA_plm_slurm_args", "PRTE_MCA_plm_slurm_args"}


def test_array_task() -> None:
    expected = golden("array")
    job = credential(
        ["n3"], [1], [1], 1795177006, 1795180606, job_id=78, job_name="sbatch",
        array_job_id=76, array_task_id=5, array_count=3, array_min=3, array_max=7, array_step=2,
    )  # fmt: skip
    environment = env.batch_environment(job, settings("n3"), SENT_BY_SBATCH, env.GpuView(), {})
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


def test_script_with_many_options() -> None:
    expected = golden("batch_rich")
    request = JobRequest(
        ntasks=4, flags=REQ_NTASKS_SET, cpus_per_task=2, mem_per_node_mib=2048, nodes_min=2
    )
    job = credential(
        ["n3", "n4"], [6, 2], [3, 1], 1795176988, 1795177588, job_id=70, job_name="envrich",
        qos="high", request=request,
    )  # fmt: skip
    sent = SENT_BY_SBATCH | {
        "FOO": "bar", "SLURM_EXPORT_ENV": "ALL,FOO=bar", "SLURM_GET_USER_ENV": "1",
        "SLURM_OPEN_MODE": "a",
    }  # fmt: skip
    environment = env.batch_environment(job, settings("n3"), sent, env.GpuView(), {})
    expected["FOO"] = "bar"
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


def test_script_with_gpus() -> None:
    expected = golden("gpu_batch")
    request = JobRequest(ntasks=2, flags=REQ_NTASKS_SET, gpus_per_node="4", cpus_per_gpu=2)
    job = credential(
        ["n1"], [8], [2], 1795176997, 1795180597, job_id=73, job_name="sbatch", partition="gpu",
        request=request,
    )  # fmt: skip
    view = env.GpuView(range(4), range(4), range(4))
    environment = env.batch_environment(job, settings("n1"), SENT_BY_SBATCH, view, {})
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


@pytest.mark.parametrize(("task", "node", "local"), [(0, "n3", 0), (1, "n3", 1), (2, "n4", 0)])
def test_task_of_a_step(task: int, node: str, local: int) -> None:
    """srun hands on the script's variables; the step's own come over them."""
    expected = golden("srun_task", task)
    request = JobRequest(ntasks=3, flags=REQ_NTASKS_SET, cpus_per_task=2)
    allocs = (NodeAlloc(0, 4, b"\x0f", 4000, 2), NodeAlloc(1, 2, b"\x03", 2000, 1))
    job = credential(
        ["n3", "n4"], [4, 2], [2, 1], 1795176991, 1795180591, job_id=71, job_name="sbatch",
        request=request, step_id=0, step_nodes=("n3", "n4"), step_allocs=allocs,
        step_tasks=((0, 1), (2,)), step_cpus_per_task=2, step_distribution="block",
    )  # fmt: skip
    script = env.batch_environment(job, settings("n3"), SENT_BY_SBATCH, env.GpuView(), {})
    srun = env.SrunAddress("127.0.0.1", 44349, 0o22)
    environment = env.step_environment(job, settings(node), script, srun)
    environment |= env.task_variables(task, local, env.GpuView())
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


@pytest.mark.parametrize(
    ("sent", "asked", "word"),
    [
        ({}, JobRequest(ntasks=2), None),
        ({"SLURM_JOB_ID": "71"}, JobRequest(ntasks=2), "block"),
        ({}, JobRequest(ntasks=2, mem_per_node_mib=100), "block"),
        ({}, JobRequest(ntasks=2, mem_per_cpu_mib=100), "block"),
    ],
)
def test_a_default_distribution_is_shown_in_jobs_and_for_memory(
    sent: dict[str, str], asked: JobRequest, word: str | None
) -> None:
    """As 22.05: `srun -n2` outside a job does not show it, `srun -n2 --mem=100` does."""
    job = credential(
        ["n3"], [2], [2], 1795176991, 1795180591, job_id=71, request=asked,
        step_id=0, step_nodes=("n3",), step_allocs=(NodeAlloc(0, 2, b"\x03", 200, 2),),
        step_tasks=((0, 1),), step_distribution="block",
    )  # fmt: skip
    srun = env.SrunAddress("127.0.0.1", 44349, 0o22)
    shown_word = env.step_environment(job, settings("n3"), sent, srun).get("SLURM_DISTRIBUTION")
    assert shown_word == word


def test_the_interactive_step_sees_the_job_and_binds_no_steps() -> None:
    """Steps of its shell are as large as those of salloc's command; --preserve-env keeps counts."""
    sent = {"SLURM_NTASKS": "5", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "3,2", "HOME": "/"}
    of_step = {
        "SLURM_NTASKS": "1", "SLURM_NPROCS": "1", "SLURM_NNODES": "1", "SLURM_STEP_NUM_TASKS": "1",
        "SLURM_TASKS_PER_NODE": "1", "SLURM_CPU_BIND_TYPE": "mask_cpu:", "SLURM_DISTRIBUTION": "x",
    }  # fmt: skip
    shell = job_counts.interactive_variables({**sent, **of_step}, sent)
    assert shell == {**sent, "SLURM_STEP_NUM_TASKS": "1"}
    kept = job_counts.kept_counts({**sent, **of_step}, sent)
    assert (kept["SLURM_NTASKS"], kept["SLURM_NPROCS"]) == ("5", "1")
    assert kept["SLURM_CPU_BIND_TYPE"] == "mask_cpu:"


@pytest.mark.parametrize("task", [0, 1, 2, 3])
def test_task_with_gpus_of_its_own(task: int) -> None:
    expected = golden("gpu_srun", task)
    node, local = ("n1", "n1", "n2", "n2")[task], task % 2
    request = JobRequest(ntasks=4, flags=REQ_NTASKS_SET, gpus_per_task="2")
    gpus = (GresAlloc("gpu", "", 4, b"\x0f"),)
    allocs = tuple(NodeAlloc(node_id, 2, b"\x03", 2000, 2, gpus) for node_id in (0, 1))
    job = credential(
        ["n1", "n2"], [2, 2], [2, 2], 1795177000, 1795180600, job_id=74, job_name="sbatch",
        partition="gpu", request=request, step_id=0, step_nodes=("n1", "n2"), step_allocs=allocs,
        step_tasks=((0, 1), (2, 3)), step_distribution="block",
        step_tres_bind="gres/gpu:per_task:2",
    )  # fmt: skip
    # The job may have more GPUs on a node than the step.
    sent = SENT_BY_SBATCH | {"HOSTNAME": "n1", "SLURM_TRES_PER_TASK": "gres/gpu=2",
                             "SLURM_GPUS_ON_NODE": "8", "SLURM_RESTART_COUNT": "0",
                             "SLURM_JOB_ID": "74", "SLURM_JOB_EXCLUSIVE": "NO",
                             "SLURM_JOB_OVERSUBSCRIBE": "NO",
                             "SLURM_MEM_PER_CPU": "1000"}  # fmt: skip
    own = [2 * local, 2 * local + 1]
    environment = env.step_environment(
        job, settings(node), sent, env.SrunAddress("127.0.0.1", 33721, 0o22)
    )
    environment |= env.task_variables(task, local, env.GpuView(range(4), own, own))
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


@pytest.mark.parametrize(
    ("typed", "shown_text"),
    [
        ("gres/gpu,cpu:2", "gres/gpu,cpu:2"),
        ("cpu=2,gres/gpu=1,license/x", "cpu=2,gres/gpu=1,license/x"),
        ("cpu=3,gres/gpu", "cpu=2,gres/gpu=1"),
        ("nonsense", "cpu=2,gres/gpu=1"),
        ("", "cpu=2,gres/gpu=1"),
    ],
)
def test_resources_of_tasks_as_typed(typed: str, shown_text: str) -> None:
    """SLURM_TRES_PER_TASK is what the user wrote, as long as the job has it."""
    request = JobRequest(ntasks=1, cpus_per_task=2, gpus_per_task="1")
    job = credential(["n1"], [2], [1], 1, 2, job_id=5, job_name="x", request=request)
    sent = {"SLURM_TRES_PER_TASK": typed}
    environment = env.batch_environment(job, settings("n1"), sent, env.GpuView(), {})
    assert environment["SLURM_TRES_PER_TASK"] == shown_text


def test_users_cannot_set_what_the_job_says() -> None:
    """RELIABILITY 63: a variable of the submission never hides one that describes the job."""
    job = credential(["n3"], [1], [1], 1, 2, job_id=5, job_name="x")
    sent = {"SLURM_JOB_ID": "1", "SLURM_JOB_UID": "0", "SLURMD_NODENAME": "evil"}
    environment = env.batch_environment(job, settings("n3"), sent, env.GpuView(), {})
    assert (environment["SLURM_JOB_ID"], environment["SLURM_JOB_UID"]) == ("5", "1001")
    assert environment["SLURMD_NODENAME"] == "n3"


def test_prolog_gets_nothing_from_the_user() -> None:
    """Prolog runs as root: no PATH, no variables of the submission, one line each.

    RELIABILITY 63.
    """
    request = JobRequest(comment="a\0b\nLD_PRELOAD=/tmp/evil\r", extra="1\u20282", std_out="x")
    job = credential(["n3"], [1], [1], 1, 2, job_id=5, job_name="x", request=request)
    variables = hook_environment(job, settings("n3"), "prolog_slurmd", env.GpuView())
    assert not {"PATH", "HOME", "LD_PRELOAD"} & set(variables)
    assert variables["SLURM_SCRIPT_CONTEXT"] == "prolog_slurmd"
    assert variables["SLURM_JOB_COMMENT"] == "ab LD_PRELOAD=/tmp/evil "
    assert variables["SLURM_JOB_EXTRA"] == "1 2"


def test_epilog_of_a_node_is_told_what_the_manual_lists() -> None:
    """The files of a script, licenses, the old names of user and nodes, and how the job ended."""
    files = ("/dev/null", "/tmp/out", "/tmp/err")
    job = credential(
        ["n3", "n4"], [1, 1], [1, 1], 1, 2, job_id=5, job_name="x", licenses="b:2", sluid="s1"
    )
    variables = hook_environment(job, settings("n3"), "epilog_slurmd", env.GpuView(), files)
    variables |= end_variables(3 << 8 | 9, 1 << 8)
    expected = {
        "SLURM_JOB_DERIVED_EC": "256",
        "SLURM_JOB_EXIT_CODE": "777",
        "SLURM_JOB_EXIT_CODE2": "3:9",
        "SLURM_JOB_LICENSES": "b:2",
        "SLURM_JOB_SLUID": "s1",
        "SLURM_JOB_STDERR": "/tmp/err",
        "SLURM_JOB_STDIN": "/dev/null",
        "SLURM_JOB_STDOUT": "/tmp/out",
        "SLURM_NODELIST": "n[3-4]",
        "SLURM_UID": "1001",
    }
    assert {name: variables.get(name) for name in expected} == expected
    of_allocation = hook_environment(job, settings("n3"), "epilog_slurmd", env.GpuView())
    assert "SLURM_JOB_STDOUT" not in of_allocation


@pytest.mark.parametrize(
    ("request_", "tasks"),
    [
        (JobRequest(), None),
        (JobRequest(ntasks=3, flags=REQ_NTASKS_SET), "3"),
        (JobRequest(ntasks_per_node=2), "4"),
    ],
)
def test_prolog_of_a_node_is_told_the_tasks_that_were_asked_for(
    request_: JobRequest, tasks: str | None
) -> None:
    """Seen of 22.05, in the epilog, too."""
    job = credential(["n3", "n4"], [2, 2], [2, 2], 1, 2, job_id=5, job_name="x", request=request_)
    variables = hook_environment(job, settings("n3"), "prolog_slurmd", env.GpuView())
    assert variables.get("SLURM_JOB_NTASKS") == tasks


def test_environment_blob_keeps_every_byte() -> None:
    blob = b"A=1\0B=x=y\nz\0C=\xff\xfe\0novalue\0=bad\0"
    parsed = env.parse_environment(blob)
    assert list(parsed) == ["A", "B", "C"]
    assert env.entries(parsed) == [b"A=1", b"B=x=y\nz", b"C=\xff\xfe"]


def test_script_of_a_heterogeneous_job() -> None:
    """Every component's variables in both spellings, beside those of the leader."""
    expected = golden("het_batch")
    first = JobRequest(ntasks=1, cpus_per_task=2, mem_per_node_mib=200, flags=REQ_NTASKS_SET)
    second = JobRequest(ntasks=2, mem_per_node_mib=100, gpus_per_node="1", flags=REQ_NTASKS_SET)
    here = (NodeAlloc(2, 2, b"\x03", 200, 1),)
    there = (NodeAlloc(0, 2, b"\x03", 100, 2),)
    both = tuple(
        HetComponent(job_id, "sbatch", request, (node,), allocs, partition, "physics", "normal")
        for job_id, request, node, allocs, partition in (
            (79, first, "n3", here, "main"),
            (80, second, "n1", there, "gpu"),
        )
    )
    job = credential(
        ["n3"], [2], [1], 1795177014, 1795180614, job_id=79, job_name="sbatch", request=first,
        allocs=here, het_components=both,
    )  # fmt: skip
    environment = env.batch_environment(job, settings("n3"), SENT_BY_SBATCH, env.GpuView(), {})
    environment.pop("SLURM_CPUS_PER_TASK")  # the recording lacks it, and srun in it broke over that
    assert shown(environment, expected["SLURM_TASK_PID"]) == expected


@pytest.mark.parametrize(
    ("mode", "sent", "uid", "own", "nice"),
    [
        (0, "5", 1001, 0, None),
        (1, "5", 1001, 0, 5),
        (1, "-5", 1001, 0, 0),
        (1, "0", 1001, -5, 0),
        (1, "-5", 0, 0, -5),
        (2, "0", 1001, 0, 1),
        (2, "-5", 0, 0, 1),
        (2, "7", 1001, 0, 7),
        (2, "19", 1001, 19, 19),
        (1, "99", 1001, 0, 19),
        (1, "", 1001, 0, None),
        (1, "much", 1001, 0, None),
    ],
)
def test_propagated_priority(mode: int, sent: str, uid: int, own: int, nice: int | None) -> None:
    """PropagatePrioProcess, as the manual describes its three values."""
    assert env.task_nice(mode, {"SLURM_PRIO_PROCESS": sent}, uid, own) == nice


def test_a_kind_of_mpi_is_named_where_it_serves_ranks() -> None:
    """MpiDefault=none sets no variable, as recorded of 26.11."""
    assert step_variables("none", None) == step_variables("", None) == {}
    assert step_variables("pmi2", None) == {"SLURM_MPI_TYPE": "pmi2"}
