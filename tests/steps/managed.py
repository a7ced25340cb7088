"""Jobs with a step manager of their own."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire import node_messages as nm
from tests.ctld.rules.steps.step_requests import running
from tests.model.clusters import START_US


class Unsigned:
    """A signer that leaves the payload as it is."""

    def sign_credential(self, payload: bytes) -> bytes:
        return payload

    def open_credential(self, blob: bytes) -> bytes:
        return blob


def managed(cluster: Cluster, **request: Any) -> tuple[Job, nm.JobCredential]:
    """Start a job with a step manager; return it, and what its first node is told."""
    job = running(cluster, flags=request.pop("flags", 0) | REQ_STEPMGR, **request)
    signer = Credentials(Unsigned(), lambda: START_US)
    return job, nm.decode_credential(signer.of_job(cluster, job, manages=True))
