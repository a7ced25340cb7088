"""A slow twin of Fair Tree: by recursion, with fractions that are rounded as Slurm rounds them."""

from __future__ import annotations

from fractions import Fraction

from pyslurm_ng._select import LEVEL_BITS
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association

_NONE, _SOME, _ALL = 0, 1, 2  # no shares, a ratio, no usage


def rounded(value: Fraction, bits: int = LEVEL_BITS) -> Fraction:
    """Return the nearest floating point number of so many bits, the even one of two."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - bits
    if value >= Fraction(2) ** (exponent + bits):
        exponent += 1
    unit = Fraction(2) ** exponent
    return round(value / unit) * unit


class SlowFairTree:
    """Ranks the users of a tree.

    Args:
        merges: whether equal accounts are ranked as if they were one. Slurm's manual says so;
            Slurm 22.05 ranks them one after another.
    """

    def __init__(
        self, assocs: list[Association], used: dict[int, int], *, merges: bool = True
    ) -> None:
        self._used = used
        self._merges = merges
        self._users = sum(bool(assoc.user) for assoc in assocs)
        self._assocs = {assoc.assoc_id: assoc for assoc in assocs}
        self._below: dict[int, list[Association]] = {}
        for assoc in assocs:
            if assoc.parent_id and (assoc.user or assoc.shares != INFINITE):
                self._below.setdefault(self.level_of(assoc), []).append(assoc)
        self._next = self._rank = self._users
        self.factors: dict[int, Fraction] = {}
        (root,) = (assoc for assoc in assocs if not assoc.parent_id)
        self._visit(self._below.get(root.assoc_id, []), is_tied=False)

    def level_of(self, assoc: Association) -> int:
        """Return the id of the account among whose children an association is ranked."""
        above = self._assocs[assoc.parent_id]
        while above.shares == INFINITE and above.parent_id:
            above = self._assocs[above.parent_id]
        return above.assoc_id

    def level(self, assoc: Association) -> tuple[int, Fraction]:
        """Return the level fair-share, as something that can be compared."""
        above = self.level_of(assoc)
        if assoc.shares == INFINITE:
            return _ALL, Fraction(0)
        whole = sum(below.shares for below in self._below[above] if below.shares != INFINITE)
        if not assoc.shares or not whole:
            return _NONE, Fraction(0)
        if not self._used[assoc.assoc_id]:
            return _ALL, Fraction(0)
        portion = rounded(Fraction(assoc.shares, whole), 53)
        used = rounded(Fraction(self._used[assoc.assoc_id], self._used[above]))
        return _SOME, rounded(portion / used)

    def _visit(self, siblings: list[Association], *, is_tied: bool) -> None:
        levels = {assoc.assoc_id: self.level(assoc) for assoc in siblings}
        users_first = sorted(siblings, key=lambda assoc: not assoc.user)
        ordered = sorted(users_first, key=lambda assoc: levels[assoc.assoc_id], reverse=True)
        before: tuple[int, Fraction] | None = None
        while ordered:
            assoc = ordered.pop(0)
            level = levels[assoc.assoc_id]
            is_tied = is_tied if before is None else level == before
            before = level
            if assoc.user:
                self._rank = self._rank if is_tied else self._next
                self._next -= 1
                self.factors[assoc.assoc_id] = Fraction(self._rank, self._users)
                continue
            below = list(self._below.get(assoc.assoc_id, ()))
            while self._merges and ordered and levels[ordered[0].assoc_id] == level:
                below += self._below.get(ordered.pop(0).assoc_id, ())
            self._visit(below, is_tied=is_tied)
