"""A rule about many jobs or nodes goes on without the one about which it raises.

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
    """Raise what a rule has raised: code that calls a rule by itself learns of its bugs."""
    raise error


def sparing(
    name: str,
    rule: Callable[[Collection[T]], Sequence[ev.AnyEvent]],
    ids: Collection[T],
    spared: Spared,
) -> Sequence[ev.AnyEvent]:
    """Return what a rule says about all things but those about which it raises.

    Args:
        name: of one of the things, in words: `job`.
    """
    try:
        return rule(ids)
    except Exception as error:  # noqa: BLE001 - which of them it is, is found out now
        first = error
    good = []
    for one_id in ids:
        try:
            rule((one_id,))
        except Exception as error:  # noqa: BLE001 - it costs this thing only
            spared(f"{name} {one_id}", error)
        else:
            good.append(one_id)
    if len(good) == len(ids):
        spared(f"every {name} together", first)
        return []
    try:
        return rule(good)
    except Exception as error:  # noqa: BLE001 - the next second may bring something better
        spared(f"every {name} together", error)
        return []
