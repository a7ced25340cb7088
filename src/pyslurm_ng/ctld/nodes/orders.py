"""Duties -> orders: what a node is told of a duty, from the Cluster as it is now.

Pure but for what the caller brings: signed credentials, script and environment. The sender calls
`credential_of` once per job and attempt, signs it, and keeps it while its life lasts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.request_words import exclusive_word
from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.ctld.rules.programs.program_environment import oversubscribe
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.ids import STEP_EXTERN
from pyslurm_ng.model.job import Job, NodeAlloc, limit_end_us
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.model.node import spec_with_facts
from pyslurm_ng.steps.creation import node_address
from pyslurm_ng.steps.share import node_names
from pyslurm_ng.wire import node_messages as nm


def credential_of(
    cluster: Cluster,
    job: Job,
    *,
    wall_us: int,
    nonce: bytes,
    addresses: tuple[Sequence[str], str] = ((), ""),
) -> nm.JobCredential:
    """Return the permission to start a job's script on its batch host.

    Args:
        wall_us: the wall clock's time, which its life is counted from.
        addresses: topology paths of the job's nodes, in their order, and the paths' pattern.
    """
    request = job.request
    allocs = tuple(alloc for alloc in job.nodes if cluster.nodes[alloc.node_id] is not None)
    batch_allocs = tuple(alloc for alloc in allocs if alloc.node_id == job.batch_node_id)
    batch_node = cluster.nodes[job.batch_node_id] if job.batch_node_id >= 0 else None
    return nm.JobCredential(
        cluster=cluster.cluster_name,
        epoch=cluster.epoch,
        job_id=job.job_id,
        attempt=job.attempt,
        uid=job.uid,
        gid=job.gid,
        user_name=job.user_name,
        group_name=job.group_name,
        request=whole_request(request),
        nodes=node_names(cluster, allocs),
        allocs=allocs,
        step_nodes=node_names(cluster, batch_allocs),
        step_allocs=batch_allocs,
        step_tasks=((0,),) * len(batch_allocs),
        step_name="batch",
        partition=job.partition,
        account=job.account,
        qos=job.qos,
        job_name=request.name,
        reservation=job.reservation,
        licenses=job.licenses_alloc,
        wckey=request.wckey,
        start_us=job.start_us,
        end_us=limit_end_us(job),
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        array_count=job.array_count,
        array_min=job.array_min,
        array_max=job.array_max,
        array_step=job.array_step,
        het_job_id=job.het_job_id,
        het_offset=job.het_offset,
        dependency=request.dependency,
        oversubscribe=oversubscribe(cluster, job),
        exclusive=exclusive_word(request.flags),
        batch_host=batch_node.spec.name if batch_node is not None else "",
        node_addresses=tuple(addresses[0]),
        address_pattern=addresses[1],
        issued_us=wall_us,
        expires_us=wall_us + nm.CREDENTIAL_LIFE_US,
        nonce=nonce,
        sluid=sluid_text(job.sluid),
        het_components=_components(cluster, job) if job.het_job_id == job.job_id else (),
        bind_kind=_bind_kind(cluster, job, allocs),
        has_extern=STEP_EXTERN in job.steps,
        has_script=bool(job.script_hash),
    )


def _bind_kind(cluster: Cluster, job: Job, allocs: Sequence[NodeAlloc]) -> str:
    """Return CpuBind of the job's nodes if it is the same on all, else that of its partition."""
    kinds = {cluster.node(alloc.node_id).spec.cpu_bind for alloc in allocs}
    partition = cluster.partitions.get(job.partition)
    of_partition = partition.cpu_bind if partition is not None else ""
    return (kinds.pop() if len(kinds) == 1 else "") or of_partition


def _components(cluster: Cluster, leader: Job) -> tuple[nm.HetComponent, ...]:
    """Return all components of a heterogeneous job, the leader first."""
    return tuple(
        nm.HetComponent(
            job_id=job.job_id,
            job_name=job.request.name,
            request=whole_request(job.request),
            nodes=tuple(cluster.node_names([alloc.node_id for alloc in job.nodes])),
            allocs=job.nodes,
            partition=job.partition,
            account=job.account,
            qos=job.qos,
        )
        for job in het_components(cluster, leader)
    )


def managed_nodes(cluster: Cluster, job: Job) -> nm.ManagedNodes:
    """Return what the step manager of a job must know besides its credential."""
    nodes = cluster.nodes_of(alloc.node_id for alloc in job.nodes)
    return nm.ManagedNodes(
        specs=tuple(spec_with_facts(node) for node in nodes),
        addresses=tuple(node_address(node) for node in nodes),
        partition=cluster.partitions.get(job.partition),
        next_step_id=job.next_step_id,
    )


def needs_credential(duty: Duty) -> bool:
    """Return whether a duty's order carries a credential."""
    return duty.kind in (DutyKind.PREPARE, DutyKind.LAUNCH, DutyKind.TERMINATE)


def order_of(
    duty: Duty,
    *,
    credential: bytes = b"",
    script: bytes = b"",
    environment: bytes = b"",
    statuses: tuple[int, int] = (0, 0),
) -> nm.Order:
    """Return the order for one open duty.

    Args:
        credential: signed; for the kinds that `needs_credential` names.
        script, environment: of a LAUNCH, as the job's digests name them.
        statuses: of a TERMINATE, the wait statuses of the job and of the worst of its steps.
    """
    duty_id, job_id, attempt = duty.duty_id, duty.job_id, duty.attempt
    kind = DutyKind(duty.kind)
    if kind is DutyKind.PREPARE:
        return nm.PrepareJob(duty_id, credential)
    if kind is DutyKind.LAUNCH:
        return nm.LaunchBatch(duty_id, credential, script, environment)
    if kind is DutyKind.SIGNAL:
        return nm.SignalJob(duty_id, job_id, attempt, duty.step_id, duty.signal, duty.flags)
    if kind is DutyKind.TERMINATE:
        exit_code, derived = statuses
        return nm.TerminateJob(
            duty_id,
            job_id,
            attempt,
            duty.flags,
            credential,
            exit_code=exit_code,
            derived_exit_code=derived,
        )
    if kind is DutyKind.SUSPEND:
        return nm.SuspendJob(duty_id, job_id, attempt)
    if kind is DutyKind.RESUME:
        return nm.ResumeJob(duty_id, job_id, attempt)
    if kind is DutyKind.TERMINATE_STEP:
        return nm.TerminateStep(duty_id, job_id, attempt, duty.step_id, duty.flags)
    return nm.RebootNode(duty_id)
