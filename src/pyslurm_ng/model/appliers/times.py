"""How all times move when the machine's clock was set."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyslurm_ng.base.numbers import HOUR_US

from .. import events as ev
from ..cluster import Cluster
from .registry import applies

# Times of a job from which durations are counted: those of a started job, those of a waiting one.
_RUN_TIMES = (
    "start_us", "suspend_us", "last_eval_us", "kill_us", "preempt_us", "preempt_end_us",
    "resize_us", "charged_us", "boot_by_us",
)  # fmt: skip
_WAIT_TIMES = ("eligible_us", "accrue_us")
_STEP_TIMES = ("created_us", "start_us", "end_us")
_NODE_TIMES = ("reason_us", "registered_us", "last_busy_us", "resume_after_us", "power_us")
_LONGEST_REQUEUE_US = 2 * HOUR_US  # longer than a requeued job has to wait


@applies(ev.TimesMoved)
def _times_moved(cluster: Cluster, event: ev.TimesMoved) -> None:
    shift_us = event.shift_us
    for job_id in event.job_ids:
        job = cluster.jobs[job_id]
        _move_times(job, _RUN_TIMES, shift_us)
        for step in job.steps.values():
            _move_times(step, _STEP_TIMES, shift_us)
    if not event.is_all:
        return
    before_us, cluster.time_us = cluster.time_us, event.time_us
    moved = frozenset(event.job_ids)
    for job in cluster.jobs.values():
        _move_times(job, _WAIT_TIMES, shift_us)
        if job.job_id not in moved:
            _move_times(job, (*_RUN_TIMES, "end_us"), shift_us)
        # A begin time that a requeue has set moves, too; other begin times are wall time.
        if job.attempt and 0 < job.begin_us - before_us < _LONGEST_REQUEUE_US:
            job.begin_us += shift_us
    for node in cluster.living_nodes():
        _move_times(node, _NODE_TIMES, shift_us)
    for name, reservation in cluster.reservations.items():
        if reservation.idle_since_us:
            idle_us = reservation.idle_since_us + shift_us
            cluster.reservations[name] = msgspec.structs.replace(reservation, idle_since_us=idle_us)
    for trigger_id, trigger in cluster.triggers.items():
        due_us = trigger.due_us + shift_us if trigger.due_us else 0
        fired_us = trigger.fired_us + shift_us if trigger.fired_us else 0
        moved_trigger = msgspec.structs.replace(trigger, due_us=due_us, fired_us=fired_us)
        cluster.triggers[trigger_id] = moved_trigger
    for job_id, buffer in cluster.buffers.items():
        if buffer.created_us:
            created_us = buffer.created_us + shift_us
            cluster.buffers[job_id] = msgspec.structs.replace(buffer, created_us=created_us)
    cluster.usage_until_us = max(0, cluster.usage_until_us + shift_us)
    if cluster.usage_since_us:
        cluster.usage_since_us += shift_us
    for key, used in cluster.usage.items():
        since_us = used.since_us + shift_us if used.since_us else 0
        cluster.usage[key] = msgspec.structs.replace(
            used, at_us=used.at_us + shift_us, since_us=since_us
        )


def _move_times(record: msgspec.Struct, names: Iterable[str], shift_us: int) -> None:
    """Move those times of a record that are known; 0 means not known."""
    for name in names:
        time_us = getattr(record, name)
        if time_us:
            setattr(record, name, time_us + shift_us)
