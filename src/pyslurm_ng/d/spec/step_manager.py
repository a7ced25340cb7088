"""The variables by which commands find the step manager of their job. Pure."""

from __future__ import annotations

from pyslurm_ng.wire.node_messages import JobCredential


def manager_variables(credential: JobCredential) -> dict[str, str]:
    """Return where srun and swait find the step manager of a job that has one.

    Slurm has only the first, a host; a name of this cluster's nodes needs an address, too.
    """
    host, port = credential.manager_address
    if not host:
        return {}
    return {
        "SLURM_STEPMGR": credential.batch_host,
        "SLURM_STEPMGR_ADDRESS": f"{host} {port}",
    }
