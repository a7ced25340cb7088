"""What the controller signs: the start of a script or step, and all that nodes know of a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pyslurm_ng.ctld.nodes.orders import credential_of, managed_nodes
from pyslurm_ng.ctld.rules.steps.managed import is_manager
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.topology import Topology, topology_of, unit_paths
from pyslurm_ng.sched.frame.answers import answers
from pyslurm_ng.steps.creation import node_address
from pyslurm_ng.steps.share import StepShare, for_step
from pyslurm_ng.wire.auth import CredentialSigner, body_digest
from pyslurm_ng.wire.node_messages import JobCredential, encode_credential

_NONCE_BYTES = 16
_UNIT_WORDS = {"block": "block.", "ring": "ring.", "torus3d": "torus."}


class Credentials:
    """Makes signed job credentials of one controller.

    They carry wall time, since nodes compare it with their own; recorded time may be hours from it.
    """

    def __init__(self, signer: CredentialSigner, wall_us: Callable[[], int]) -> None:
        """Sign with `signer`; `wall_us` is the host's clock, microseconds since the epoch."""
        self._signer = signer
        self._wall_us = wall_us

    def of_batch(self, cluster: Cluster, job: Job, script: bytes, environment: bytes) -> bytes:
        """Return the credential to start a job's script on its batch host."""
        return self._signed(
            replace(
                self._of(cluster, job, manages=is_manager(job, job.batch_node_id)),
                script_digest=body_digest(script),
                environment_digest=body_digest(environment),
            )
        )

    def of_job(self, cluster: Cluster, job: Job, *, manages: bool = False) -> bytes:
        """Return the credential that makes a job known to a node, for prolog and epilog.

        Args:
            manages: for the node that gives the job's steps their shares.
        """
        if job.nodes_leaving:
            job = replace(job, nodes=job.nodes_held)
        return self._signed(self._of(cluster, job, manages=manages))

    def of_step(self, cluster: Cluster, job: Job, share: StepShare) -> bytes:
        """Return the credential by which srun starts one step."""
        return self._signed(for_step(cluster, self._of(cluster, job), share))

    def _of(self, cluster: Cluster, job: Job, *, manages: bool = False) -> JobCredential:
        credential = credential_of(
            cluster,
            job,
            wall_us=self._wall_us(),
            nonce=os.urandom(_NONCE_BYTES),
            addresses=self._addresses(cluster, job),
        )
        if not is_manager(job, job.batch_node_id):
            return credential
        return replace(
            credential,
            manager_address=node_address(cluster.node(job.batch_node_id)),
            managed=managed_nodes(cluster, job) if manages else None,
        )

    def _signed(self, credential: JobCredential) -> bytes:
        return self._signer.sign_credential(encode_credential(credential))

    def _addresses(self, cluster: Cluster, job: Job) -> tuple[tuple[str, ...], str]:
        topology = topology_of(cluster.topologies, cluster.partitions.get(job.partition))
        if topology is None:
            return (), ""
        return addresses_of(topology, cluster, [alloc.node_id for alloc in job.nodes])


def addresses_of(
    topology: Topology, cluster: Cluster, node_ids: Sequence[int]
) -> tuple[tuple[str, ...], str]:
    """Return SLURM_TOPOLOGY_ADDR of each node, and its pattern."""
    key = ("unit paths", topology.name)
    kept = answers(cluster)
    paths = kept.get(key)
    if paths is None:
        paths = kept[key] = unit_paths(topology)
    assert isinstance(paths, dict)
    above = [paths.get(node_id, ()) for node_id in node_ids]
    names = cluster.node_names(list(node_ids))
    depth = max(map(len, above), default=0)
    unit = _UNIT_WORDS.get(topology.kind, "switch.")
    addresses = tuple(".".join((*path, name)) for path, name in zip(above, names, strict=True))
    return addresses, unit * depth + "node"
