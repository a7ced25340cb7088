"""Limits and flags that sacctmgr sets on associations and QOS: what each does here."""

from __future__ import annotations

from pyslurm_ng.conf.effects.key_tables import Keys, Words, named

LIMITS = Keys(
    same=named("""
        DefaultQOS Fairshare GraceTime GrpJobs GrpJobsAccrue GrpSubmitJobs GrpTRES GrpTRESMins
        GrpTRESRunMins GrpWall LimitFactor MaxJobs MaxJobsAccrue MaxJobsAccruePerAccount
        MaxJobsAccruePerUser MaxJobsPerAccount MaxJobsPerUser MaxSubmitJobs
        MaxSubmitJobsPerAccount MaxSubmitJobsPerUser MaxTRESMinsPerJob MaxTRESPerAccount
        MaxTRESPerJob MaxTRESPerNode MaxTRESPerUser MaxTRESRunMinsPerAccount
        MaxTRESRunMinsPerUser MaxWallDurationPerJob MinPrioThreshold MinTRESPerJob Preempt
        PreemptExemptTime PreemptMode Priority QosLevel UsageFactor UsageThreshold
    """),
)
FLAGS = Words(
    same=named("""
        DenyOnLimit EnforceUsageThreshold NoDecay NoReserve OverPartQOS PartitionMaxNodes
        PartitionMinNodes PartitionTimeLimit Relative RequiresReservation UsageFactorSafe
    """),
)
_NEVER_HELD = "no job holds any of it while it runs"
TRES = Words(
    same=named("billing cpu gres license mem node"),
    accepted={
        "bb": "room of burst buffers counts in their pools only",
        "energy": _NEVER_HELD,
        "fs": _NEVER_HELD,
        "pages": _NEVER_HELD,
        "vmem": _NEVER_HELD,
    },
)
"""Kinds of TRES, without names such as that of a licence."""


def unheld_tres(text: str) -> list[str]:
    """Return why limits on some TRES of `energy=5,cpu=3` do not limit any job, a line for each."""
    lines = []
    for word in text.split(","):
        name, _, amount = word.strip().lower().partition("=")
        why = TRES.accepted.get(name.partition("/")[0])
        if why is not None and amount != "-1":
            lines.append(f" A limit on {name} has no effect in pyslurm-ng: {why}")
    return lines
