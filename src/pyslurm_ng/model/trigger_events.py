"""Events of triggers; `events` has them among the others."""

from __future__ import annotations

from .event import Event
from .trigger import Trigger


class TriggerSet(Event, tag=80, frozen=True, array_like=True, gc=False):
    """A user wants a program to run when something happens."""

    trigger: Trigger


class TriggersCleared(Event, tag=81, frozen=True, array_like=True, gc=False):
    """Triggers were deleted, or their job is over and they can never run."""

    trigger_ids: tuple[int, ...]


class TriggerPulled(Event, tag=82, frozen=True, array_like=True, gc=False):
    """What a trigger waits for has happened; its program runs at `due_us`.

    `seen` is all that it has happened to by now: nodes, the job, or the event's own name. The same
    trigger may be pulled again before it runs; then the first time counts.
    """

    trigger_id: int
    due_us: int
    seen: str


class TriggerFired(Event, tag=83, frozen=True, array_like=True, gc=False):
    """The program of a trigger runs; the trigger is gone unless it is permanent."""

    trigger_id: int
