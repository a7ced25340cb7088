"""Job credentials as this node takes them: signed by the controller, for it, and in time."""

from __future__ import annotations

import time

import msgspec

from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.steps.managed_job import outside
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import AuthError, body_digest, check_time
from pyslurm_ng.wire.identity import Identity


class CredentialChecks:
    """Opens and checks the credentials that come with orders and with requests of srun."""

    def __init__(self, node: LocalNode, identity: Identity) -> None:
        self._node = node
        self._signer = identity.signer

    def decode(self, blob: bytes) -> nm.JobCredential:
        """Return what the controller signed, for any use.

        Raises:
            AuthError: the controller did not sign it, or it is malformed.
        """
        payload = self._signer.open_credential(blob)
        try:
            return nm.decode_credential(payload)
        except msgspec.DecodeError as error:
            raise AuthError("malformed_credential", f"job credential: {error}") from None

    def open(self, blob: bytes) -> nm.JobCredential:
        """Return what the controller signed, if it is for this node and this time.

        Raises:
            AuthError: it is not.
        """
        credential, node = self.decode(blob), self._node
        if credential.cluster != node.conf.cluster_name:
            raise AuthError("wrong_cluster", f"credential is for {credential.cluster!r:.64}")
        if node.name not in credential.nodes:
            raise AuthError("wrong_node", f"credential is not for {node.name}")
        if credential.epoch < node.core.epoch:
            raise AuthError("old_epoch", f"credential is of epoch {credential.epoch}")
        if credential.issuer:
            job = node.core.jobs.get(credential.job_id)
            problem = outside(credential, job.credential if job is not None else None)
            if problem:
                text = f"credential of the step manager on {credential.issuer:.64}: {problem}"
                raise AuthError("outside_job", text)
        return credential

    def check_order(self, order: nm.Order, credential: nm.JobCredential) -> None:
        """Raise AuthError unless a start is in time and its script is the signed one."""
        if isinstance(order, nm.TerminateJob):
            return
        self.check_time(credential)
        if isinstance(order, nm.LaunchBatch) and (
            body_digest(order.script) != credential.script_digest
            or body_digest(order.environment) != credential.environment_digest
        ):
            raise AuthError("altered", "script or environment is not what was signed")

    def check_time(self, credential: nm.JobCredential) -> None:
        """Raise AuthError unless a credential may be used to start something now."""
        now_us = time.time_ns() // 1000
        check_time("Job credential", credential.issued_us, credential.expires_us, now_us)
