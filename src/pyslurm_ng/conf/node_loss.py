"""What the loss of a node means for its jobs: words of SlurmctldParameters that Slurm has not."""

from __future__ import annotations

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int, option_text

AS_SLURM, CONFIRMED, LEASE = "slurm", "confirmed", "lease"


def policy(conf: SlurmConf) -> str:
    """Return `node_loss`: whether the next run of a job waits for the end of one that was lost."""
    return (option_text(conf.slurmctld_parameters, "node_loss") or AS_SLURM).lower()


def lease_s(conf: SlurmConf) -> int:
    """Return `node_lease`: how long a node is cut off before it ends what was given up with it.

    At least as long as the controller waits before it gives anything up.
    """
    given = option_int(conf.slurmctld_parameters, "node_lease", conf.slurmd_timeout)
    return max(given, conf.slurmd_timeout)
