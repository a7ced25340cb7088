"""Shares that a step manager gives: the controller's, and never more than the job has."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import STEP_EXACT, STEP_MEM_ZERO, STEP_OVERLAP
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.steps import steps
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.model.states import JobFlag
from pyslurm_ng.steps.managed_job import ManagedJob, outside
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.step_messages import CompleteStep, CreateStep, StepManagerAt
from tests.ctld.rules.steps.step_requests import USER, context, running
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.steps.managed import managed
from tests.world.examples import drawn

JOB: dict[str, Any] = {"nodes_min": 3, "nodes_max": 3, "ntasks": 12, "cpus_per_task": 1}
REQUESTS = st.fixed_dictionaries(
    {
        "ntasks": st.integers(0, 6),
        "nodes_min": st.integers(0, 3),
        "cpus_per_task": st.integers(0, 3),
        "flags": st.sampled_from((0, STEP_EXACT, STEP_EXACT | STEP_MEM_ZERO, STEP_OVERLAP)),
        "distribution": st.sampled_from(("", "block", "cyclic", "block,pack")),
        "relative": st.integers(-1, 2),
    }
)


def request(job_id: int, **fields: Any) -> CreateStep:
    return CreateStep(request_id=bytes(16), job_id=job_id, **fields)


@settings(max_examples=drawn(60), deadline=None)
@given(st.lists(st.tuples(REQUESTS, st.booleans()), max_size=8))
def test_a_step_manager_gives_what_the_controller_would(
    wishes: list[tuple[dict[str, Any], bool]],
) -> None:
    """Whatever is asked and ends in whatever order: both answer the same."""
    cluster = cluster_of()
    job = running(cluster, **JOB)
    other, credential = managed(cluster_of(), **JOB)
    manager = ManagedJob(credential)
    assert other.nodes == job.nodes
    for wish, ends in wishes:
        message = request(job.job_id, **wish)
        theirs = steps.create_step(cluster, message, context())
        own = manager.create(message, USER, conf_of(), START_US)
        if isinstance(theirs, Reject):
            assert own == theirs
            continue
        assert isinstance(theirs, Decision) and not isinstance(own, Reject)
        assert own[1] == theirs.reply
        apply_all(cluster, theirs.events)
        manager.created(own[0], START_US)
        of_srun = {number: step for number, step in job.steps.items() if number < STEP_BATCH}
        assert manager.job.steps == of_srun
        if ends:
            step = own[0]
            for alloc in step.nodes:
                node = cluster.node(alloc.node_id).spec.name
                over = nm.StepEnded(job.job_id, 0, step.step_id, 0, START_US, START_US)
                apply_all(cluster, judge(cluster, alloc.node_id, over, conf_of(), START_US))
                manager.ended(node, over, START_US)
            assert step.step_id not in manager.job.steps


def test_the_controller_says_where_the_steps_of_a_job_are_made() -> None:
    """A step of the controller's would have the number of one of the manager's."""
    cluster = cluster_of()
    job, _ = managed(cluster, **JOB)
    job.flags = JobFlag.NONE  # all nodes know it
    outcome = steps.create_step(cluster, request(job.job_id, ntasks=1), context())
    node = cluster.node(job.batch_node_id)
    where = StepManagerAt(job.job_id, node.spec.name, (node.spec.addr, node.spec.port))
    assert outcome == Decision((), where)


def test_only_the_jobs_user_has_steps_there() -> None:
    """No user starts anything in the job of another (CVE-2024-48936)."""
    _, credential = managed(cluster_of(), **JOB)
    manager = ManagedJob(credential)
    message = request(credential.job_id, ntasks=1)
    assert manager.create(message, USER + 1, conf_of(), START_US) == Reject(
        Errno.ESLURM_ACCESS_DENIED
    )
    elsewhere = request(credential.job_id + 1, ntasks=1)
    assert manager.create(elsewhere, USER, conf_of(), START_US) == Reject(
        Errno.ESLURM_INVALID_JOB_ID
    )


def test_a_step_that_was_not_launched_gives_back_what_it_had() -> None:
    """The share is free again, and the end is news."""
    _, credential = managed(cluster_of(), **JOB)
    manager = ManagedJob(credential)
    created = manager.create(request(credential.job_id), USER, conf_of(), START_US)
    assert not isinstance(created, Reject)
    manager.created(created[0], START_US)
    nodes = manager.node_names(created[0].nodes_pending)
    news = manager.not_launched(CompleteStep(bytes(16), credential.job_id, 0, nodes, 256), START_US)
    assert [(over.step_id, over.exit_code) for over in news] == [(0, 256)]
    assert not manager.job.steps


def signed(**changes: Any) -> nm.JobCredential:
    """A step credential as a manager signs it, with one thing changed."""
    _, credential = managed(cluster_of(), **JOB)
    base = msgspec.structs.replace(
        credential, issuer=credential.batch_host, step_id=0, managed=None,
        step_nodes=credential.nodes, step_allocs=credential.allocs,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def more(alloc: NodeAlloc, **changes: Any) -> NodeAlloc:
    return msgspec.structs.replace(alloc, **changes)


def test_no_credential_of_a_step_manager_reaches_beyond_its_job() -> None:
    """RELIABILITY 57: each node compares a share with what the controller signed of the job."""
    good = signed()
    first, *others = good.allocs
    assert outside(good, None) == ""
    beyond: list[dict[str, Any]] = [
        {"issuer": "n9"},
        {"step_nodes": ("n9", *good.nodes[1:])},
        {"step_allocs": (more(first, cores=b"\xff" * 8), *others)},
        {"step_allocs": (more(first, mem_mib=first.mem_mib + 1), *others)},
        {"step_allocs": (more(first, node_id=first.node_id + 1), *others)},
        {"step_allocs": (more(first, gres=(GresAlloc("gpu", "", 1, b"\x01"),)), *others)},
        {"step_nodes": good.nodes[1:]},
        {"step_id": -1},
    ]
    for changes in beyond:
        assert outside(signed(**changes), None), changes
    known = msgspec.structs.replace(good, issuer="")
    assert outside(good, known) == ""
    for changes in ({"uid": 0}, {"gid": 0}, {"user_name": "root"}):
        assert outside(signed(**changes), known), changes
    wider = tuple(more(alloc, cores=b"\xff\xff") for alloc in good.allocs)
    assert outside(signed(allocs=wider, step_allocs=wider), known)
