"""What the loss of a node means for its jobs: words of SlurmctldParameters that are not Slurm's."""

from __future__ import annotations

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int, option_text

AS_SLURM, CONFIRMED, LEASE = "slurm", "confirmed", "lease"


def policy(conf: SlurmConf) -> str:
    """Return whether the next run of a job waits until the lost run has ended: `node_loss`."""
    return (option_text(conf.slurmctld_parameters, "node_loss") or AS_SLURM).lower()


def lease_s(conf: SlurmConf) -> int:
    """Return `node_lease`: how many seconds a node may be cut off before it ends its jobs.

    It is never shorter than the time after which the controller gives a node up.
    """
    asked_s = option_int(conf.slurmctld_parameters, "node_lease", conf.slurmd_timeout)
    return max(asked_s, conf.slurmd_timeout)
