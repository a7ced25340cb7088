"""The tree of associations as fair-share sees it: who shares with whom, and in which parts.

Source: Slurm's manual on Fair Tree and on `fairshare=parent`. An account whose shares are `parent`
has no level of its own: its children are shared among those of the account above. A user whose
shares are `parent` takes no part in the division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association


class ShareTree:
    """Associations by number, each account before those below it.

    Attributes:
        assoc_ids: of each, its id.
        index: the number of an association, by id.
        parents: of each, the number of the association whose level it is in; -1 for the root.
        children: of each, those whose `parents` it is; accounts without a level have none.
        is_user: of each, whether it is a user's.
        is_apart: of each, whether its shares are `parent`.
        shares: of each, its shares; 0 where they are `parent`.
        level_shares: of each, the sum of the shares of its children.
        portions: of each, its shares over those of its level, 0 to 1; without shares of its own,
            those of the association above. The root, which is in no level, has 0.
    """

    def __init__(self, assocs: Iterable[Association]) -> None:
        ordered = _downwards(list(assocs))
        self.assoc_ids = [assoc.assoc_id for assoc in ordered]
        self.index = {assoc_id: number for number, assoc_id in enumerate(self.assoc_ids)}
        self.is_user = [bool(assoc.user) for assoc in ordered]
        self.is_apart = [assoc.shares == INFINITE for assoc in ordered]
        self.shares = [0 if assoc.shares == INFINITE else assoc.shares for assoc in ordered]
        self.parents: list[int] = []
        self.children: list[list[int]] = [[] for _ in ordered]
        for number, assoc in enumerate(ordered):
            parent = self.index.get(assoc.parent_id, -1) if assoc.parent_id else -1
            if parent >= number:
                parent = -1  # a loop of parents, which accounting never makes, is cut
            while parent >= 0 and self.is_apart[parent] and self.parents[parent] >= 0:
                parent = self.parents[parent]
            self.parents.append(parent)
            if parent >= 0 and (self.is_user[number] or not self.is_apart[number]):
                self.children[parent].append(number)
        self.level_shares = [
            sum(self.shares[child] for child in children) for children in self.children
        ]
        self.portions = self.downwards(0.0, self._portion)

    def __len__(self) -> int:
        return len(self.assoc_ids)

    def downwards(
        self,
        root: float,
        own: Callable[[int, int, float], float],
        first: Callable[[int], float] | None = None,
    ) -> list[float]:
        """Return a figure of each association, from the root down.

        Args:
            own: the figure of an association with shares of its own, from its number, that of the
                association whose level it is in, and the figure of that one; the others take this.
            first: the figure of each one in the root's level, if it comes about in another way.
        """
        figures: list[float] = []
        for number, parent in enumerate(self.parents):
            if parent < 0:
                figures.append(root)
            elif first and self.parents[parent] < 0:
                figures.append(first(number))
            elif self.is_apart[number]:
                figures.append(figures[parent])
            else:
                figures.append(own(number, parent, figures[parent]))
        return figures

    def _portion(self, number: int, parent: int, _: float) -> float:
        whole = self.level_shares[parent]
        return self.shares[number] / whole if whole else 0.0


def _downwards(assocs: list[Association]) -> list[Association]:
    """Return associations with each one after its parent; those in a loop come last."""
    below: dict[int, list[Association]] = {}
    known = {assoc.assoc_id for assoc in assocs}
    for assoc in assocs:
        is_below = assoc.parent_id in known and assoc.parent_id != assoc.assoc_id
        below.setdefault(assoc.parent_id if is_below else 0, []).append(assoc)
    ordered: list[Association] = []
    level = below.pop(0, [])
    while level:
        ordered += level
        level = [child for assoc in level for child in below.pop(assoc.assoc_id, ())]
    for rest in below.values():
        ordered += rest
    return ordered
