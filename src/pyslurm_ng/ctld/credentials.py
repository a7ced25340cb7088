"""What the controller signs: the start of a script or step, and all that nodes know of a job."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyslurm_ng.conf.topology_conf import SwitchConf, TopologyConf
from pyslurm_ng.ctld.queries.job_fields import (
    dependency_text,
    exclusive_text,
    first_partition,
    oversubscribe_text,
)
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import INFINITE, NO_VAL, STEP_BATCH
from pyslurm_ng.model.job import Job, NodeAlloc
from pyslurm_ng.wire.auth import CredentialSigner, body_digest
from pyslurm_ng.wire.node_messages import CREDENTIAL_LIFE_US, JobCredential, encode_credential

_MINUTE_US = 60_000_000
_NONCE_BYTES = 16


class Credentials:
    """Makes signed job credentials of one controller.

    Attributes:
        topology: of the configuration in force; the daemon replaces it.
    """

    def __init__(self, signer: CredentialSigner, topology: TopologyConf | None) -> None:
        self._signer = signer
        self.topology = topology

    def of_batch(
        self, cluster: Cluster, job: Job, now_us: int, script: bytes, environment: bytes
    ) -> bytes:
        """Return the credential to start a job's script on its batch host."""
        alloc = next(one for one in job.nodes if one.node_id == job.batch_node_id)
        return self._signed(
            self._of_job(
                cluster,
                job,
                now_us,
                step_nodes=(alloc,),
                step_tasks=((0,),),
                step_name="batch",
                script_digest=body_digest(script),
                environment_digest=body_digest(environment),
            )
        )

    def of_job(self, cluster: Cluster, job: Job, now_us: int) -> bytes:
        """Return the credential that makes a job known to a node, for prolog and epilog."""
        return self._signed(self._of_job(cluster, job, now_us))

    def of_step(
        self,
        cluster: Cluster,
        job: Job,
        now_us: int,
        *,
        step_id: int,
        nodes: Sequence[NodeAlloc],
        tasks: Sequence[Sequence[int]],
        name: str,
        flags: int = 0,
        cpus_per_task: int = 0,
        distribution: str = "",
        gpus_per_task: int = 0,
        tres_bind: str = "",
    ) -> bytes:
        """Return the credential by which srun starts one step.

        Args:
            nodes: what the step holds on each of its nodes.
            tasks: the global task ids on each of them.
        """
        return self._signed(
            self._of_job(
                cluster,
                job,
                now_us,
                step_id=step_id,
                step_nodes=tuple(nodes),
                step_tasks=tuple(tuple(of_node) for of_node in tasks),
                step_name=name,
                step_flags=flags,
                step_cpus_per_task=cpus_per_task,
                step_distribution=distribution,
                step_gpus_per_task=gpus_per_task,
                step_tres_bind=tres_bind,
            )
        )

    def _signed(self, credential: JobCredential) -> bytes:
        return self._signer.sign_credential(encode_credential(credential))

    def _of_job(
        self,
        cluster: Cluster,
        job: Job,
        now_us: int,
        *,
        step_id: int = STEP_BATCH,
        step_nodes: tuple[NodeAlloc, ...] = (),
        step_tasks: tuple[tuple[int, ...], ...] = (),
        step_name: str = "",
        step_flags: int = 0,
        step_cpus_per_task: int = 0,
        step_distribution: str = "",
        step_gpus_per_task: int = 0,
        step_tres_bind: str = "",
        script_digest: bytes = b"",
        environment_digest: bytes = b"",
    ) -> JobCredential:
        request = job.request
        names = tuple(cluster.node_names([alloc.node_id for alloc in job.nodes]))
        partition = first_partition(cluster, job)
        batch_host = cluster.node(job.batch_node_id).spec.name if job.batch_node_id >= 0 else ""
        addresses, pattern = addresses_of(self.topology, names)
        return JobCredential(
            cluster=cluster.cluster_name,
            epoch=cluster.epoch,
            job_id=job.job_id,
            attempt=job.attempt,
            uid=job.uid,
            gid=job.gid,
            user_name=job.user_name,
            group_name=job.group_name,
            request=request,
            nodes=names,
            allocs=job.nodes,
            step_id=step_id,
            step_nodes=tuple(cluster.node_names([alloc.node_id for alloc in step_nodes])),
            step_allocs=step_nodes,
            step_tasks=step_tasks,
            step_name=step_name,
            step_flags=step_flags,
            step_cpus_per_task=step_cpus_per_task,
            step_distribution=step_distribution,
            step_gpus_per_task=step_gpus_per_task,
            step_tres_bind=step_tres_bind,
            partition=job.partition,
            account=job.account,
            qos=job.qos,
            job_name=request.name,
            reservation=request.reservation,
            licenses=request.licenses,
            wckey=request.wckey,
            start_us=job.start_us,
            end_us=planned_end_us(job),
            array_job_id=job.array_job_id,
            array_task_id=job.array_task_id,
            array_count=job.array_count,
            array_min=job.array_min,
            array_max=job.array_max,
            array_step=job.array_step,
            het_job_id=job.het_job_id,
            het_offset=job.het_offset,
            dependency=dependency_text(job.dependencies, job.dependency_any),
            oversubscribe=oversubscribe_text(request.flags),
            exclusive=exclusive_text(request.flags, partition.exclusive if partition else "NO"),
            batch_host=batch_host,
            node_addresses=addresses,
            address_pattern=pattern,
            script_digest=script_digest,
            environment_digest=environment_digest,
            issued_us=now_us,
            expires_us=now_us + CREDENTIAL_LIFE_US,
            nonce=os.urandom(_NONCE_BYTES),
        )


def planned_end_us(job: Job) -> int:
    """Return when a running job's time limit is over, 0 for no limit."""
    if job.time_limit_min in (INFINITE, NO_VAL):
        return 0
    return job.start_us + job.suspended_us + job.time_limit_min * _MINUTE_US


def addresses_of(
    topology: TopologyConf | None, names: Sequence[str]
) -> tuple[tuple[str, ...], str]:
    """Return SLURM_TOPOLOGY_ADDR of each node and its pattern; nothing under a flat topology."""
    if topology is None or topology.kind == "flat":
        return (), ""
    if topology.kind != "tree":
        block_of = {name: block.name for block in topology.blocks for name in block.node_names}
        return tuple(f"{block_of.get(name, '')}.{name}" for name in names), "block.node"
    by_name = {switch.name: switch for switch in topology.switches}
    leaf_of = {
        name: switch
        for switch in topology.switches
        if switch.level == 0
        for name in switch.node_names
    }
    paths = [_path(by_name, leaf_of.get(name), name) for name in names]
    depth = max((path.count(".") for path in paths), default=0)
    return tuple(paths), "switch." * depth + "node"


def _path(by_name: dict[str, SwitchConf], leaf: SwitchConf | None, name: str) -> str:
    parts = [name]
    while leaf is not None:
        parts.append(leaf.name)
        leaf = by_name.get(leaf.parent)
    return ".".join(reversed(parts))
