"""How events of triggers change the Cluster."""

from __future__ import annotations

from msgspec.structs import replace

from .. import events as ev
from ..cluster import Cluster
from .registry import applies


@applies(ev.TriggerSet)
def _trigger_set(cluster: Cluster, event: ev.TriggerSet) -> None:
    trigger_id = event.trigger.trigger_id
    assert trigger_id not in cluster.triggers, event
    cluster.triggers[trigger_id] = event.trigger
    cluster.last_trigger_id = trigger_id


@applies(ev.TriggersCleared)
def _triggers_cleared(cluster: Cluster, event: ev.TriggersCleared) -> None:
    for trigger_id in event.trigger_ids:
        del cluster.triggers[trigger_id]


@applies(ev.TriggerPulled)
def _trigger_pulled(cluster: Cluster, event: ev.TriggerPulled) -> None:
    trigger = cluster.triggers[event.trigger_id]
    due_us = trigger.due_us or event.due_us
    cluster.triggers[event.trigger_id] = replace(trigger, due_us=due_us, seen=event.seen)


@applies(ev.TriggerFired)
def _trigger_fired(cluster: Cluster, event: ev.TriggerFired) -> None:
    trigger = cluster.triggers[event.trigger_id]
    assert trigger.due_us, event
    if trigger.is_permanent:
        waiting = replace(trigger, due_us=0, seen="", fired_us=event.time_us)
        cluster.triggers[event.trigger_id] = waiting
    else:
        del cluster.triggers[event.trigger_id]
