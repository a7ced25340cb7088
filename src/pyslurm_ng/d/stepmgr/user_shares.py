"""What all step managers of a node may hold for one user: slurmd serves the others, too."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.d.stepmgr.manager import TOO_MUCH, StepManager
from pyslurm_ng.wire.step_messages import CreateStep
from pyslurm_ng.wire.stepmgr_messages import QueueStep

MOST_QUEUED_BYTES = 128 << 20
MOST_UNTOLD_BYTES = 64 << 20
"""Forty thousand steps with usual texts, of which slurmctld has not heard."""


def refusal(managers: Iterable[StepManager], uid: int, request: object) -> Reject | None:
    """Return why a user gets no further step on this node now.

    What slurmctld has not heard of waits here. A user that makes and ends steps with long texts
    faster than slurmctld takes them is slowed down: commands ask again a second later.
    """
    if not isinstance(request, CreateStep | QueueStep):
        return None
    own = [manager for manager in managers if manager.job.job.uid == uid]
    if sum(manager.news.held_bytes for manager in own) > MOST_UNTOLD_BYTES:
        text = f"slurmctld has not heard yet of {MOST_UNTOLD_BYTES >> 20} MiB of steps of uid {uid}"
        return Reject(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
    queued = sum(manager.waiting.queued_bytes for manager in own)
    if isinstance(request, QueueStep) and queued > MOST_QUEUED_BYTES:
        return Reject(Errno.ESLURM_STEP_LIMIT, TOO_MUCH)
    return None
