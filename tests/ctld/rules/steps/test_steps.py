"""Steps: shares of a running job, when they wait, when they can never be, how they end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    STEP_BESIDE_ALL,
    STEP_EXACT,
    STEP_INTERACTIVE,
    STEP_OVERLAP,
)
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.queue import queue_room
from pyslurm_ng.ctld.rules.steps import steps
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest, Step
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.wire.step_messages import CompleteJob, CompleteStep, CreateStep, StepGranted
from tests.ctld.rules.steps.step_requests import EXACT, USER, ask, context, running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.examples import drawn


def granted(cluster: Cluster, job: Job, **fields: Any) -> StepGranted:
    """Ask for a step that must be given."""
    reply = ask(cluster, job, **fields)
    assert isinstance(reply, StepGranted), reply
    return reply


def step_of(job: Job, reply: StepGranted) -> Step:
    """The record of a step just given."""
    return job.steps[reply.step_id]


def test_plain_step_takes_all_nodes_and_cpus() -> None:
    """srun without sizes in a job of two nodes: what its variables say, block over the nodes."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=3, cpus_per_task=2)
    reply = granted(cluster, job, ntasks=3, nodes_min=2, nodes_max=2, cpus_per_task=2)
    assert reply.tasks == [[0, 1], [2]]
    assert reply.cpus == [alloc.cpus for alloc in job.nodes]
    assert reply.distribution == "block"
    assert (reply.step_id, job.next_step_id) == (0, 1)


@pytest.mark.parametrize(("fields", "word"), [
    ({}, "cyclic"), ({"nodes_min": 1, "nodes_max": 1}, "cyclic"),
    ({"ntasks": 2, "nodes_min": 2, "nodes_max": 2}, "cyclic"), ({"ntasks": 3}, "block"),
])  # fmt: skip
def test_the_default_layout_follows_the_counts(fields: dict[str, int], word: str) -> None:
    """SLURM_DISTRIBUTION is block for more tasks than nodes, wherever the count comes from."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=4)
    assert granted(cluster, job, **fields).distribution == word


def test_second_step_waits_for_the_first() -> None:
    """Without --overlap or --exact a node serves one step at a time."""
    cluster = cluster_of()
    job = running(cluster, ntasks=4)
    first = granted(cluster, job, ntasks=1)
    busy = ask(cluster, job, ntasks=1)
    assert busy == Reject(Errno.ESLURM_NODES_BUSY)
    assert busy.code in steps.WAIT_CODES
    apply(cluster, ev.StepEnded(START_US, job.job_id, first.step_id, JobState.COMPLETED, 0))
    assert isinstance(ask(cluster, job, ntasks=1), StepGranted)


def test_a_node_has_no_more_tasks_of_a_step_than_is_allowed() -> None:
    """MaxTasksPerNode holds, whatever the step asks for."""
    cluster, few = cluster_of(), conf_of(FOUR_NODES + "MaxTasksPerNode=4\n")
    job = running(cluster, ntasks=1, nodes_min=1, nodes_max=1, cpus_per_task=8)
    outcome = ask(cluster, job, few, ntasks=5)
    assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_BAD_TASK_COUNT
    assert isinstance(ask(cluster, job, few, ntasks=4), StepGranted)


def test_overlapping_steps_share() -> None:
    """--overlap neither waits nor makes other steps wait."""
    cluster = cluster_of()
    job = running(cluster, ntasks=2)
    replies = [granted(cluster, job, ntasks=2, flags=STEP_OVERLAP) for _ in range(2)]
    assert [reply.step_id for reply in replies] == [0, 1]
    assert replies[0].tasks == replies[1].tasks
    granted(cluster, job, ntasks=2)


def test_exact_steps_run_side_by_side_on_different_cores() -> None:
    """--exact: four tasks of one core each, the fifth waits."""
    cluster = cluster_of()
    job = running(cluster, ntasks=4)
    replies = [granted(cluster, job, ntasks=1, flags=EXACT) for _ in range(4)]
    masks = [int.from_bytes(step_of(job, reply).nodes[0].cores, "little") for reply in replies]
    assert len({*masks}) == 4
    assert all(mask.bit_count() == 1 for mask in masks)
    assert ask(cluster, job, ntasks=1, flags=EXACT) == Reject(Errno.ESLURM_NODES_BUSY)


def test_exact_steps_share_memory_per_cpu() -> None:
    """With memory per CPU each exact step takes its part only."""
    cluster = cluster_of()
    job = running(cluster, ntasks=2, mem_per_cpu_mib=100)
    replies = [granted(cluster, job, ntasks=1, flags=STEP_EXACT) for _ in range(2)]
    assert [step_of(job, reply).nodes[0].mem_mib for reply in replies] == [100, 100]


def test_four_small_steps_use_four_nodes() -> None:
    """Steps started together spread over the job's nodes."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=4, nodes_max=4, ntasks=4)
    replies = [granted(cluster, job, ntasks=1, nodes_min=1, nodes_max=1) for _ in range(4)]
    assert sorted(reply.nodes[0] for reply in replies) == ["n1", "n2", "n3", "n4"]


def test_a_range_of_nodes_means_as_many_as_the_job_has() -> None:
    """`srun -N1-5` without -n: a task on each node up to the fifth, as in Slurm."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=3, nodes_max=3, ntasks=3)
    for most, tasks in ((5, [[0], [1], [2]]), (2, [[0], [1]])):
        assert granted(cluster, job, nodes_min=1, nodes_max=most, flags=STEP_OVERLAP).tasks == tasks


def test_more_nodes_than_the_job_has_are_named() -> None:
    """Srun outside of the job does not know how many nodes it has."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=2)
    no = ask(cluster, job, nodes_min=3, nodes_max=4)
    assert isinstance(no, Reject) and no.detail == "Only allocated 2 nodes asked for 3"


def test_steps_one_after_the_other_have_the_same_node() -> None:
    """As in Slurm 22.05: the first node without a step, and so the files of the one before."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=4, nodes_max=4, ntasks=16)

    def node(**fields: Any) -> tuple[str, int]:
        reply = granted(cluster, job, **{"ntasks": 1, "nodes_min": 1, "nodes_max": 1, **fields})
        return ",".join(reply.nodes), reply.step_id

    def end(step_id: int) -> None:
        apply(cluster, ev.StepEnded(START_US, job.job_id, step_id, JobState.COMPLETED, 0))

    for fields, where in [({}, "n1"), ({"ntasks": 2, "nodes_min": 2, "nodes_max": 2}, "n1,n2")] * 2:
        name, step_id = node(**fields)
        assert name == where
        end(step_id)
    at_once = [node(flags=EXACT) for _ in range(4)]
    assert [name for name, _ in at_once] == ["n1", "n2", "n3", "n4"]
    end(at_once[2][1])
    assert [node(flags=STEP_OVERLAP)[0] for _ in range(2)] == ["n3", "n1"]


def test_gpu_steps_get_different_devices() -> None:
    """Two steps of one GPU in a job of two, the third waits."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", ntasks=4, gres="gpu:a100:2")
    replies = [granted(cluster, job, ntasks=1, gpus="1", flags=EXACT) for _ in range(2)]
    masks = [step_of(job, reply).nodes[0].gres[0].indexes for reply in replies]
    assert sorted(masks) == [b"\x01", b"\x02"]
    waits = ask(cluster, job, ntasks=1, gpus="1", flags=EXACT)
    assert waits == Reject(Errno.ESLURM_NODES_BUSY)
    never = ask(cluster, job, ntasks=1, gpus="3", flags=EXACT)
    assert never == Reject(Errno.ESLURM_INSUFFICIENT_GRES)


def test_step_has_the_jobs_devices_by_default() -> None:
    """With --gres=none it has none."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", ntasks=2, gres="gpu:a100:2")
    assert step_of(job, granted(cluster, job, flags=STEP_OVERLAP)).nodes[0].gres[0].count == 2
    bare = granted(cluster, job, gres="none", flags=STEP_OVERLAP)
    assert step_of(job, bare).nodes[0].gres == ()


@pytest.mark.parametrize("words", [{"gres": "gpu:a100:2"}, {"gpus": "2"}, {"gpus_per_node": "2"}])
def test_a_step_waits_for_the_jobs_devices(words: dict[str, str]) -> None:
    """It names none, so it is to have all; with --gres=none or beside --overlap it starts."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", ntasks=4, **words)
    first = granted(cluster, job, ntasks=1, gpus="1", flags=EXACT)
    assert ask(cluster, job, ntasks=1, flags=EXACT) == Reject(Errno.ESLURM_NODES_BUSY)
    granted(cluster, job, ntasks=1, gres="none", flags=EXACT)
    granted(cluster, job, ntasks=1, flags=EXACT | STEP_OVERLAP)
    apply(cluster, ev.StepEnded(START_US, job.job_id, first.step_id, JobState.COMPLETED, 0))
    step = step_of(job, granted(cluster, job, ntasks=1, flags=EXACT))
    assert step.nodes[0].gres[0].indexes == b"\x03"


def test_steps_share_what_is_not_consumed() -> None:
    """Gres=net:no_consume:4: each step has all four, and none waits for another."""
    conf = conf_of(
        FOUR_NODES.replace("GresTypes=gpu", "GresTypes=gpu,net").replace(
            "Gres=gpu:a100:4", "Gres=gpu:a100:4,net:no_consume:4"
        )
    )
    cluster = cluster_of(conf)
    job = running(cluster, partition="gpu", ntasks=2, gres="net:4")
    replies = [granted(cluster, job, ntasks=1, flags=EXACT) for _ in range(2)]
    assert [step_of(job, reply).nodes[0].gres[0].count for reply in replies] == [4, 4]


def test_tasks_have_the_gpus_that_their_job_asked_for_each() -> None:
    """So steps of one task each run side by side, also where no variable tells srun of them."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", ntasks=2, gpus_per_task="1")
    replies = [granted(cluster, job, ntasks=1, flags=EXACT) for _ in range(2)]
    masks = [step_of(job, reply).nodes[0].gres[0].indexes for reply in replies]
    assert sorted(masks) == [b"\x01", b"\x02"]


def test_steps_have_no_devices_that_only_come_with_whole_nodes() -> None:
    """Their job asked for none, or for fewer than the node has; the shell of salloc has all."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", flags=REQ_EXCLUSIVE)
    assert job.nodes[0].gres[0].count > 1
    assert step_of(job, granted(cluster, job, flags=EXACT)).nodes[0].gres == ()
    shell = step_of(job, granted(cluster, job, flags=STEP_BESIDE_ALL))
    assert shell.nodes[0].gres == job.nodes[0].gres
    job = running(cluster, partition="gpu", flags=REQ_EXCLUSIVE, gres="gpu:1")
    assert step_of(job, granted(cluster, job, flags=EXACT)).nodes[0].gres[0].count == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ntasks": 99}, Errno.ESLURM_TOO_MANY_REQUESTED_CPUS),
        ({"nodes_min": 3, "ntasks": 3}, Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
        ({"node_list": "n9"}, Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
        ({"node_list": "n1", "exclude": "n1"}, Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
        ({"relative": 2}, Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
        ({"mem_per_node_mib": 10_000_000}, Errno.ESLURM_INVALID_TASK_MEMORY),
        ({"distribution": "frob"}, Errno.ESLURM_BAD_DIST),
        ({"node_list": "n["}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"exclude": "nowhere"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"exclude": "n["}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"gres": "gpu:frob:x"}, Errno.ESLURM_INVALID_GRES),
    ],
)
def test_what_can_never_be_is_refused(fields: dict[str, Any], code: int) -> None:
    """Not as "busy": srun would wait for ever."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=2)
    no = ask(cluster, job, **fields)
    assert isinstance(no, Reject) and no.code == code


@pytest.mark.parametrize(
    ("fields", "tasks"),
    [
        ({"ntasks": 6, "nodes_min": 1, "nodes_max": 3}, [2, 2, 2]),
        ({"ntasks": 2, "nodes_min": 1, "nodes_max": 3}, [1, 1]),
        ({"ntasks": 3, "nodes_min": 1, "nodes_max": 3, "distribution": "block,Pack"}, [3]),
        ({"ntasks": 3, "nodes_min": 1, "nodes_max": 1}, [3]),
        ({"ntasks": 3, "nodes_min": 1, "nodes_max": 3, "node_list": "n1"}, [3]),
        (
            {"ntasks": 6, "nodes_min": 2, "nodes_max": 2, "cpus_per_task": 3, "overcommit": True},
            [3, 3],
        ),
        ({"ntasks": 6, "nodes_min": 2, "nodes_max": 4}, [2, 2, 1, 1]),
    ],
)
def test_of_a_range_of_nodes_steps_have_the_most(fields: dict[str, Any], tasks: list[int]) -> None:
    """One for each task at most; seen with Slurm 22.05."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE)
    assert [len(ids) for ids in granted(cluster, job, **fields).tasks] == tasks


def test_relative_and_named_nodes() -> None:
    """-r counts from the job's first node, -w and -x name them."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=3, nodes_max=3, ntasks=3)
    names = cluster.node_names([alloc.node_id for alloc in job.nodes])
    assert granted(cluster, job, ntasks=1, relative=1, flags=STEP_OVERLAP).nodes == [names[1]]
    named = granted(cluster, job, node_list=names[2], flags=STEP_OVERLAP)
    assert named.nodes == [names[2]]
    others = granted(cluster, job, ntasks=2, nodes_min=2, exclude=names[0], flags=STEP_OVERLAP)
    assert others.nodes == names[1:]


def test_arbitrary_distribution_follows_the_list() -> None:
    """A host file sets the node of each task."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=4)
    first, second = cluster.node_names([alloc.node_id for alloc in job.nodes])
    reply = granted(cluster, job, distribution="arbitrary", task_nodes=[second, first, second])
    assert dict(zip(reply.nodes, reply.tasks, strict=True)) == {second: [0, 2], first: [1]}


def test_only_the_owner_makes_steps() -> None:
    """Not even an administrator: the tasks would run as somebody else."""
    cluster = cluster_of()
    job = running(cluster, ntasks=1)
    message = CreateStep(request_id=bytes(16), job_id=job.job_id)
    refused = steps.create_step(cluster, message, context(uid=0))
    assert refused == Reject(Errno.ESLURM_ACCESS_DENIED)


def test_jobs_that_do_not_run_have_no_steps() -> None:
    """Unknown, pending and ended jobs have different errors."""
    cluster = cluster_of()
    unknown = CreateStep(request_id=bytes(16), job_id=99)
    assert steps.create_step(cluster, unknown, context()) == Reject(Errno.ESLURM_INVALID_JOB_ID)
    waiting = cluster.jobs[submit(cluster, JobRequest(ntasks=1))]
    assert ask(cluster, waiting) == Reject(Errno.ESLURM_JOB_PENDING)
    apply(cluster, ev.JobEnded(START_US, waiting.job_id, JobState.CANCELLED))
    assert ask(cluster, waiting) == Reject(Errno.ESLURM_ALREADY_DONE)


def test_nodes_never_launched_end_the_step() -> None:
    """srun could not reach one of two nodes; the other's report ends the step."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=2)
    reply = granted(cluster, job, ntasks=2, nodes_min=2)
    message = CompleteStep(bytes(16), job.job_id, reply.step_id, [reply.nodes[0]], 256)
    part = steps.complete_step(cluster, message, context())
    assert isinstance(part, Decision)
    apply_all(cluster, part.events)
    assert len(step_of(job, reply).nodes_pending) == 1
    rest = CompleteStep(bytes(16), job.job_id, reply.step_id, [reply.nodes[1]], 256)
    whole = steps.complete_step(cluster, rest, context())
    assert isinstance(whole, Decision)
    apply_all(cluster, whole.events)
    assert reply.step_id not in job.steps
    assert steps.complete_step(cluster, rest, context()) == Decision()


def test_step_ends_at_its_own_time_limit() -> None:
    """srun -t inside a job: its nodes are told once."""
    cluster = cluster_of()
    job = running(cluster, ntasks=1)
    reply = granted(cluster, job, time_limit_min=1)
    minute_us = START_US + 60_000_000
    assert (
        steps.step_time_limits(cluster, cluster.job_index.active, START_US, minute_us - 1, 1) == []
    )
    (event,) = steps.step_time_limits(
        cluster, cluster.job_index.active, minute_us - 1, minute_us, cluster.next_duty_id
    )
    assert isinstance(event, ev.JobSignalled)
    assert (event.step_id, event.signal) == (reply.step_id, 9)
    apply(cluster, event)
    assert (
        steps.step_time_limits(cluster, cluster.job_index.active, minute_us, minute_us + 5, 9) == []
    )


@pytest.mark.parametrize(
    ("cpus_per_task", "fields", "tasks"),
    [(8, {}, [2, 2]), (6, {}, [2, 2]), (9, {}, [1, 1]), (1, {"ntasks": 3}, [2, 1]),
     (8, {"nodes_min": 1, "nodes_max": 1}, [2])],
)  # fmt: skip
def test_on_whole_nodes_cpus_per_task_say_how_many_tasks_there_are(
    cpus_per_task: int, fields: dict[str, Any], tasks: list[int]
) -> None:
    """As many as find their CPUs, if no other option says how many."""
    cluster = cluster_of()
    job = running(cluster, node_list="n[1-2]", nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE)
    more: dict[str, Any] = {"nodes_min": 2, "nodes_max": 2, **fields}
    reply = granted(cluster, job, cpus_per_task=cpus_per_task, flags=EXACT, **more)
    assert list(map(len, reply.tasks)) == tasks


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (0, JobState.COMPLETED, Reason.NONE),
        (6 << 8, JobState.FAILED, Reason.NonZeroExitCode),
        (9, JobState.FAILED, Reason.RaisedSignal),
        # srun tells so of a step of which the kernel killed a task for its memory.
        (125, JobState.OUT_OF_MEMORY, Reason.OutOfMemory),
    ],
)
def test_allocation_ends_with_its_commands_status(
    status: int, state: JobState, reason: Reason
) -> None:
    """As salloc's command or the step of srun ended."""
    cluster = cluster_of()
    job = running(cluster, ntasks=1)
    job.script_hash = ""
    decision = steps.complete_job(cluster, CompleteJob(bytes(16), job.job_id, status), context())
    assert isinstance(decision, Decision)
    apply_all(cluster, decision.events)
    assert (job.state, job.exit_code, job.reason) == (state, status, reason)


def test_an_allocation_that_is_given_up_before_it_is_ready_is_cancelled() -> None:
    """Ctrl-C of srun during the prolog was COMPLETED; Slurm says by whom it was cancelled."""
    cluster = cluster_of()
    job = running(cluster, ntasks=1)
    job.script_hash = ""
    job.flags |= JobFlag.CONFIGURING
    decision = steps.complete_job(cluster, CompleteJob(bytes(16), job.job_id), context())
    assert isinstance(decision, Decision)
    apply_all(cluster, decision.events)
    assert (job.state, job.cancelled_by, job.exit_code) == (JobState.CANCELLED, USER, 0)


def test_pending_allocation_is_revoked() -> None:
    """Ctrl-C while salloc waits; why it waited stays to be seen, as for scancel."""
    cluster = cluster_of()
    job = cluster.jobs[submit(cluster, JobRequest(ntasks=1))]
    job.script_hash = ""
    job.reason = Reason.BeginTime
    decision = steps.complete_job(cluster, CompleteJob(bytes(16), job.job_id), context())
    assert isinstance(decision, Decision)
    apply_all(cluster, decision.events)
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.BeginTime)
    assert check(cluster) == []


STEP = st.fixed_dictionaries(
    {
        "ntasks": st.integers(0, 12),
        "nodes_min": st.integers(0, 3),
        "cpus_per_task": st.integers(0, 3),
        "flags": st.sampled_from([0, STEP_EXACT, EXACT, STEP_OVERLAP, STEP_EXACT | STEP_OVERLAP]),
        "gres": st.sampled_from(["", "none", "gpu:1", "gpu:a100:2"]),
        "distribution": st.sampled_from(["", "cyclic", "plane=2", "block,Pack"]),
    }
)


@settings(max_examples=drawn(150), deadline=None)
@given(st.lists(STEP, min_size=1, max_size=8))
def test_steps_never_take_more_than_the_job_has(steps: list[dict[str, Any]]) -> None:
    """Exclusive steps never share cores, memory or devices."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", nodes_min=2, nodes_max=2, ntasks=8, gres="gpu:a100:3")
    allocs = {alloc.node_id: alloc for alloc in job.nodes}
    for fields in steps:
        ask(cluster, job, **fields)
    for node_id, alloc in allocs.items():
        cores = memory = devices = 0
        for step in job.steps.values():
            if step.flags & STEP_OVERLAP or step.step_id > 1 << 31:
                continue
            for part in step.nodes:
                if part.node_id != node_id:
                    continue
                mask = int.from_bytes(part.cores, "little")
                assert not mask & cores
                assert mask
                cores |= mask
                memory += part.mem_mib
                for gres in part.gres:
                    indexes = int.from_bytes(gres.indexes, "little")
                    assert not indexes & devices
                    devices |= indexes
        assert not cores & ~int.from_bytes(alloc.cores, "little")
        assert memory <= alloc.mem_mib
        assert devices.bit_count() <= 3


@pytest.mark.parametrize(
    ("words", "tasks"),
    [("CR_Core", [[0, 1], [2]]), ("CR_Core,CR_Pack_Nodes", [[0, 1, 2]])],
)
def test_cr_pack_nodes_fills_node_after_node(words: str, tasks: list[list[int]]) -> None:
    """Tasks are packed as with `--distribution=block,Pack` unless the step says otherwise."""
    text = FOUR_NODES.replace("CR_Core_Memory", words)
    cluster = cluster_of(conf_of(text))
    job = running(cluster, nodes_min=2, nodes_max=2, flags=REQ_EXCLUSIVE)
    message = CreateStep(
        request_id=bytes(16), job_id=job.job_id, ntasks=3, cpus_per_task=1, nodes_min=2,
        nodes_max=2, distribution="block",
    )  # fmt: skip
    rules = Context(conf_of(text), START_US, Caller(USER, USER, f"user{USER}"))
    outcome = steps.create_step(cluster, message, rules)
    assert isinstance(outcome, Decision)
    assert isinstance(outcome.reply, StepGranted)
    assert outcome.reply.tasks == tasks


TWO_SOCKETS = """
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
NodeName=n Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1000
PartitionName=main Nodes=n Default=YES
"""


@pytest.mark.parametrize(
    ("job", "step", "cores"),
    [
        ({"ntasks": 16}, {"ntasks": 2, "ntasks_per_socket": 1}, 0b0001_0001),
        ({"ntasks": 16}, {"ntasks": 4, "ntasks_per_socket": 2}, 0b0001_0001),
        ({"ntasks": 16}, {"ntasks": 4, "ntasks_per_socket": 2, "cpus_per_task": 2}, 0b0011_0011),
        ({"ntasks": 16}, {"ntasks": 3, "ntasks_per_socket": 2, "cpus_per_task": 2}, 0b0001_0011),
        ({"ntasks": 4, "ntasks_per_socket": 2}, {"ntasks": 4, "ntasks_per_socket": 2}, 0b0001_0001),
        ({"ntasks": 16}, {"ntasks": 3, "ntasks_per_socket": 1}, 0b0000_0011),
        ({"ntasks": 16}, {"ntasks": 3, "ntasks_per_socket": 1, "overcommit": True}, 0b0000_0001),
    ],
)
def test_steps_keep_their_limit_of_tasks_in_a_socket(
    job: dict[str, Any], step: dict[str, Any], cores: int
) -> None:
    """--ntasks-per-socket of srun --exact: no more tasks in a socket, if they fit that way."""
    cluster = cluster_of(conf_of(TWO_SOCKETS))
    owner = running(cluster, **job)
    reply = granted(cluster, owner, flags=EXACT, **step)
    assert int.from_bytes(step_of(owner, reply).nodes[0].cores, "little") == cores


@pytest.mark.parametrize("flags", [0, EXACT])
def test_threads_that_steps_do_without_hold_no_tasks(flags: int) -> None:
    """--threads-per-core counts cores, whether a step takes all of its nodes or not."""
    cluster = cluster_of(conf_of(TWO_SOCKETS))
    job = running(cluster, ntasks=4, threads_per_core=1)
    assert granted(cluster, job, ntasks=4, threads_per_core=1, flags=flags)
    assert ask(cluster, job, ntasks=5, threads_per_core=1, flags=flags) == Reject(
        Errno.ESLURM_TOO_MANY_REQUESTED_CPUS
    )
    more = ask(cluster, job, ntasks=5, threads_per_core=2, flags=flags)
    assert more == Reject(Errno.ESLURM_BAD_THREAD_PER_CORE)


def test_tasks_that_share_cpus_share_their_memory() -> None:
    """srun -O -c2: what a core has of memory is enough for any number of tasks on it."""
    text = TWO_SOCKETS.replace("CR_Core", "CR_Core_Memory")
    cluster = cluster_of(conf_of(text.replace("Default=YES", "Default=YES DefMemPerCPU=10")))
    job = running(cluster, ntasks=2)
    step = {"ntasks": 4, "cpus_per_task": 2, "mem_per_cpu_mib": 10, "flags": EXACT}
    assert isinstance(ask(cluster, job, **step), Reject)
    assert granted(cluster, job, overcommit=True, **step).tasks == [[0, 1, 2, 3]]


def test_cpus_may_count_cores() -> None:
    """CPUs= as many as cores: a task has one core of two threads, and there is a CPU for each."""
    text = TWO_SOCKETS.replace("NodeName=n", "NodeName=n CPUs=8")
    cluster = cluster_of(conf_of(text))
    single, rest = (running(cluster, ntasks=count, mem_per_node_mib=9) for count in (1, 7))
    assert (single.nodes[0].cpus, rest.nodes[0].cpus) == (1, 7)
    masks = [int.from_bytes(job.nodes[0].cores, "little") for job in (single, rest)]
    assert masks[0].bit_count() == 1
    assert (masks[0] | masks[1], masks[0] & masks[1]) == (0xFF, 0)


WITH_PORTS = TWO_SOCKETS.replace("ClusterName", "MpiParams=ports=40000-40004\nClusterName")


def test_no_two_steps_on_a_node_have_the_same_ports() -> None:
    """--resv-ports: one more than tasks on the node, or as many as asked for.

    They are free again at the step's end.
    """
    conf = conf_of(WITH_PORTS)
    cluster = cluster_of(conf)
    job = running(cluster, ntasks=8)
    first = ask(cluster, job, conf, ntasks=1, flags=EXACT, resv_ports=0)
    second = ask(cluster, job, conf, ntasks=1, flags=EXACT, resv_ports=3)
    assert isinstance(first, StepGranted)
    assert isinstance(second, StepGranted)
    ports = [step_of(job, granted).ports for granted in (first, second)]
    assert [len(some) for some in ports] == [2, 3]
    assert sorted(ports[0] + ports[1]) == list(range(40000, 40005))
    third = ask(cluster, job, conf, ntasks=1, flags=EXACT, resv_ports=1)
    assert isinstance(third, Reject)
    assert third.code == Errno.ESLURM_PORTS_BUSY
    plain = ask(cluster, job, conf, ntasks=1, flags=EXACT)
    assert isinstance(plain, StepGranted)
    assert step_of(job, plain).ports == ()


def test_more_ports_than_there_are() -> None:
    """srun fails and does not wait. It is the same where MpiParams has no ports."""
    for text, count in ((WITH_PORTS, 6), (TWO_SOCKETS, 1)):
        cluster = cluster_of(conf_of(text))
        job = running(cluster, ntasks=4)
        refused = ask(cluster, job, conf_of(text), ntasks=1, resv_ports=count)
        assert isinstance(refused, Reject)
        assert refused.code == Errno.ESLURM_PORTS_INVALID
    none = ask(cluster, job, conf_of(TWO_SOCKETS), ntasks=1, resv_ports=0)
    assert isinstance(none, StepGranted)
    assert step_of(job, none).ports == ()


@pytest.mark.parametrize("fields", [
    {"ntasks": 1 << 24, "distribution": "cyclic"},
    {"ntasks": 1 << 24, "distribution": "plane=1"},
    {"ntasks_per_node": 1 << 24},
    {"ntasks_per_node": 1 << 24, "nodes_min": 1 << 24},
])  # fmt: skip
def test_tasks_beyond_all_bounds_are_refused_at_once(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY 53: each such step stopped the controller for a minute."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2)

    def no_layout(*_: object) -> None:
        raise AssertionError("tasks are dealt out")

    monkeypatch.setattr("pyslurm_ng.sched.cons_tres.step_select.spread", no_layout)
    outcome = ask(cluster, job, overcommit=True, **fields)
    assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_BAD_TASK_COUNT


def test_long_texts_of_steps_have_the_room_of_their_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 54: a job of 40,000 steps with command lines of 64 KiB took gigabytes."""
    monkeypatch.setattr(queue_room, "MOST", 1 << 20)
    monkeypatch.setattr(queue_room, "MOST_OF_EACH", 0)
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2)
    outcomes = [ask(cluster, job, flags=STEP_OVERLAP, submit_line="x" * 65_536) for _ in range(18)]
    assert [isinstance(outcome, Reject) for outcome in outcomes] == [False] * 16 + [True] * 2
    assert outcomes[-1].code == Errno.ESLURM_ACCOUNTING_POLICY  # type: ignore[union-attr]
    granted(cluster, job, flags=STEP_OVERLAP, submit_line="srun hostname")


def test_the_interactive_step_has_the_first_node_and_keeps_none_of_it() -> None:
    """Whatever the job's variables ask for: one task, all CPUs, and other steps have them too."""
    cluster = cluster_of()
    job = running(cluster, nodes_min=2, nodes_max=2, ntasks=8)
    words: dict[str, Any] = {"ntasks": 8, "nodes_min": 2, "cpus_per_task": 4, "gres": "gpu:9"}
    shell = granted(cluster, job, flags=STEP_BESIDE_ALL, **words)
    assert (shell.step_id, [len(tasks) for tasks in shell.tasks]) == (STEP_INTERACTIVE, [1])
    assert shell.nodes == [cluster.node(job.nodes[0].node_id).spec.name]
    assert shell.cpus == [job.nodes[0].cpus]
    assert job.steps[STEP_INTERACTIVE].name == "interactive"
    again = ask(cluster, job, flags=STEP_BESIDE_ALL)
    assert isinstance(again, Reject) and again.code == Errno.ESLURM_DUPLICATE_STEP_ID
    step = granted(cluster, job, ntasks=8)
    assert (step.step_id, sum(step.cpus)) == (0, 8)
    end = CompleteStep(request_id=bytes(16), job_id=job.job_id, step_id=STEP_INTERACTIVE,
                       nodes=shell.nodes, exit_code=0)  # fmt: skip
    outcome = steps.complete_step(cluster, end, context())
    assert isinstance(outcome, Decision)
    apply_all(cluster, outcome.events)
    assert STEP_INTERACTIVE not in job.steps


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "gres/gpu:a100:2"),
        ({"gres": "gpu:1"}, "gres/gpu:1"),
        ({"gres": "none"}, ""),
        ({"gpus": "1"}, ""),
        ({"gpus_per_task": "1"}, ""),
    ],
)
def test_what_a_step_shows_per_node(fields: dict[str, str], shown: str) -> None:
    """A step that asks for no resources has those of its job, and says so as in 22.05."""
    cluster = cluster_of()
    job = running(cluster, partition="gpu", ntasks=1, gres="gpu:a100:2")
    step = step_of(job, granted(cluster, job, ntasks=1, **fields))
    assert step.tres_per_node == shown
