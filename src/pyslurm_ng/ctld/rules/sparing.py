"""How a rule about many things goes on without the one about which it raises.

A rule changes nothing, so it can be asked again. It is first asked about all things together. Only
if it raises, it is asked about each alone, to find those to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

from pyslurm_ng.model import events as ev

T = TypeVar("T")

Spared: TypeAlias = Callable[[str, Exception], None]
"""Is told which thing a rule raised about, and what; that thing is left out."""


def raise_it(text: str, error: Exception) -> None:
    """Spare nothing: code that calls a rule by itself is to be told of its bugs."""
    raise error


def sparing(
    name: str,
    rule: Callable[[Collection[T]], Sequence[ev.AnyEvent]],
    things: Collection[T],
    spared: Spared,
) -> Sequence[ev.AnyEvent]:
    """Return what a rule says about things, those apart about which it raises.

    Args:
        name: of one of the things, in words: `job`.
    """
    try:
        return rule(things)
    except Exception as error:  # noqa: BLE001 - which of them it is, is found out now
        first = error
    good = []
    for thing in things:
        try:
            rule((thing,))
        except Exception as error:  # noqa: BLE001 - it costs this thing only
            spared(f"{name} {thing}", error)
        else:
            good.append(thing)
    if len(good) == len(things):
        spared(f"every {name} together", first)
        return []
    try:
        return rule(good)
    except Exception as error:  # noqa: BLE001 - the next second may bring something better
        spared(f"every {name} together", error)
        return []
