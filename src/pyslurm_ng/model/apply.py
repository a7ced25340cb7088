"""How each event changes the Cluster: one short function per kind, in `appliers`. Apply obeys.

It has no clock, randomness, files, configuration or messages. A broken precondition is a bug in a
rule, so it is asserted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from . import events as ev
from .appliers import (
    accounting as _accounting,
    buffers as _buffers,
    configuration as _configuration,
    control as _control,
    crontabs as _crontabs,
    duties as _duties,
    jobs as _jobs,
    nodes as _nodes,
    steps as _steps,
    times as _times,
    triggers as _triggers,
)
from .appliers.registry import APPLIERS
from .cluster import Cluster


def apply(cluster: Cluster, event: ev.AnyEvent) -> None:
    """Change `cluster` by one event."""
    cluster.time_us = max(cluster.time_us, event.time_us)
    APPLIERS[type(event)](cluster, event)


def apply_all(cluster: Cluster, events: Iterable[ev.AnyEvent]) -> None:
    """Change `cluster` by several events in order."""
    for event in events:
        apply(cluster, event)


# Importing these modules registers their functions.
_SUBJECTS = (
    _accounting,
    _buffers,
    _configuration,
    _control,
    _crontabs,
    _duties,
    _jobs,
    _nodes,
    _steps,
    _times,
    _triggers,
)
assert set(APPLIERS) == set(cast(Any, ev.AnyEvent).__args__), "an event without an applier"
