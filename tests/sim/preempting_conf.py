"""Lines of slurm.conf with which jobs preempt others and share cores."""

from __future__ import annotations

TIERS = """
PreemptType=preempt/partition_prio
PreemptMode={mode}
PartitionName=high Nodes=n[1-4] PriorityTier=10 MaxTime=60 DefMemPerCPU=100
PartitionName=polite Nodes=n[1-4] PriorityTier=0 MaxTime=60 DefMemPerCPU=100 GraceTime=20
SchedulerTimeSlice=10
PartitionName=rows Nodes=n[1-4] PriorityTier=1 MaxTime=60 DefMemPerCPU=100 OverSubscribe=FORCE:2
"""
