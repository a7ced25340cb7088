"""What the controller signs: the start of a script or step, and all that nodes know of a job."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyslurm_ng.conf.topology_conf import SwitchConf, TopologyConf
from pyslurm_ng.ctld.node_orders import credential_of
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, NodeAlloc
from pyslurm_ng.wire.auth import CredentialSigner, body_digest
from pyslurm_ng.wire.node_messages import JobCredential, encode_credential

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
        addresses, pattern = self._addresses(cluster, job)
        return self._signed(
            credential_of(
                cluster,
                job,
                now_us=now_us,
                nonce=os.urandom(_NONCE_BYTES),
                node_addresses=addresses,
                address_pattern=pattern,
                script_digest=body_digest(script),
                environment_digest=body_digest(environment),
            )
        )

    def of_job(self, cluster: Cluster, job: Job, now_us: int) -> bytes:
        """Return the credential that makes a job known to a node, for prolog and epilog."""
        return self.of_step(cluster, job, now_us)

    def of_step(
        self,
        cluster: Cluster,
        job: Job,
        now_us: int,
        *,
        step_id: int = STEP_BATCH,
        allocs: Sequence[NodeAlloc] = (),
        tasks: Sequence[Sequence[int]] = (),
        name: str = "batch",
        flags: int = 0,
        cpus_per_task: int = 0,
        distribution: str = "",
        gpus_per_task: int = 0,
        tres_bind: str = "",
    ) -> bytes:
        """Return the credential by which srun starts one step.

        Args:
            allocs: what the step holds on each of its nodes.
            tasks: the global task ids on each of them.
        """
        addresses, pattern = self._addresses(cluster, job)
        return self._signed(
            credential_of(
                cluster,
                job,
                now_us=now_us,
                nonce=os.urandom(_NONCE_BYTES),
                step_id=step_id,
                step_allocs=allocs,
                step_tasks=tasks,
                step_name=name,
                step_flags=flags,
                cpus_per_task=cpus_per_task,
                distribution=distribution,
                gpus_per_task=gpus_per_task,
                tres_bind=tres_bind,
                node_addresses=addresses,
                address_pattern=pattern,
            )
        )

    def _signed(self, credential: JobCredential) -> bytes:
        return self._signer.sign_credential(encode_credential(credential))

    def _addresses(self, cluster: Cluster, job: Job) -> tuple[tuple[str, ...], str]:
        if self.topology is None:
            return (), ""
        names = [
            node.spec.name
            for node in (cluster.nodes[alloc.node_id] for alloc in job.nodes)
            if node is not None
        ]
        return addresses_of(self.topology, names)


def addresses_of(topology: TopologyConf, names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return SLURM_TOPOLOGY_ADDR of each node and its pattern; nothing under a flat topology."""
    if topology.kind == "flat":
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
