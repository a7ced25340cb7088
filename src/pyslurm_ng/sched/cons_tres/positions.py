"""Where each node stands in an order of nodes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence


class Positions(Mapping[int, int]):
    """Positions by node id; a number per id, where a dict of 100,000 nodes takes 8 MB."""

    __slots__ = ("_order", "_places")

    def __init__(self, order: Sequence[int]) -> None:
        """Take the node ids in order, each once."""
        self._order = order
        self._places = array("i", [-1]) * (max(order, default=-1) + 1)
        for place, node_id in enumerate(order):
            self._places[node_id] = place

    def __getitem__(self, node_id: int) -> int:
        if 0 <= node_id < len(self._places):
            place = self._places[node_id]
            if place >= 0:
                return place
        raise KeyError(node_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)
