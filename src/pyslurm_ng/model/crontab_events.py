"""Events of crontabs; `events` has them among the others."""

from __future__ import annotations

from .crontab import Crontab
from .event import Event


class CrontabChanged(Event, tag=86, frozen=True, array_like=True, gc=False):
    """A user's crontab is another one now; one without text is gone.

    Its jobs have events of their own.
    """

    crontab: Crontab
