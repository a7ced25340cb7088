"""Pools of burst buffers: what slurm_bb_pools says there is, and what jobs have taken of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from pyslurm_ng.model.buffer import Buffer

_MOST_POOLS = 1000
_LARGEST = 2**63 - 1


class Pool(Struct, frozen=True):
    """A pool: its name, all of its room, and the least that can be taken of it."""

    name: str
    total: int
    granularity: int = 1


class _Row(Struct):
    id: str
    quantity: int = 0
    granularity: int = 1


class _Listing(Struct):
    pools: list[_Row] = []


class PoolError(Exception):
    """A text of slurm_bb_pools that says nothing of pools."""


def parse_pools(text: str) -> dict[str, Pool]:
    """Return the pools of slurm_bb_pools' JSON by name; "" is none.

    `quantity` counts units of `granularity`, as in Slurm.

    Raises:
        PoolError: it cannot be read, or a number is out of bounds.
    """
    if not text.strip():
        return {}
    try:
        rows = msgspec.json.decode(text, type=_Listing).pools
    except msgspec.DecodeError as error:
        raise PoolError(str(error).splitlines()[0][:200]) from None
    if len(rows) > _MOST_POOLS:
        raise PoolError(f"{len(rows)} pools; {_MOST_POOLS} are allowed")
    pools = {}
    for row in rows:
        total = row.quantity * row.granularity
        if not row.id or len(row.id) > 255 or row.granularity < 1 or not 0 <= total <= _LARGEST:
            raise PoolError(f"{row.id[:64]!r}: id, quantity and granularity must be above 0")
        pools[row.id] = Pool(row.id, total, row.granularity)
    return pools


def used_room(buffers: Iterable[Buffer]) -> Counter[str]:
    """Return how much of each pool jobs have taken."""
    used: Counter[str] = Counter()
    for buffer in buffers:
        if buffer.pool and buffer.holds_room:
            used[buffer.pool] += buffer.size
    return used


def free_room(buffers: Iterable[Buffer], pools: Mapping[str, Pool]) -> dict[str, int]:
    """Return how much is left of each pool; a function may have given jobs more than there is."""
    used = used_room(buffers)
    return {pool.name: max(0, pool.total - used[pool.name]) for pool in pools.values()}
