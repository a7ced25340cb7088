"""Triggers: what each waits for, and what it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.trigger_messages import ShowTriggers, TriggerShown, TriggersShown

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller


def show_triggers(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowTriggers,
    caller: Caller,
    now_us: int,
) -> TriggersShown | Reject:
    """Return all triggers that wait; all users see them, as in Slurm."""
    shown = [
        TriggerShown(
            trigger_id=trigger.trigger_id,
            user=trigger.user_name or str(trigger.uid),
            uid=trigger.uid,
            events=list(trigger.events),
            program=trigger.program,
            job_id=trigger.job_id,
            nodes=trigger.nodes,
            offset_s=trigger.offset_s,
            is_permanent=trigger.is_permanent,
        )
        for trigger in cluster.triggers.values()
    ]
    return TriggersShown(sorted(shown, key=lambda trigger: trigger.trigger_id))
