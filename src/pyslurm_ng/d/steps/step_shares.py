"""What the steps of each user that run on this node have of what is finite here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.d.steps.display_shares import DisplayShares
from pyslurm_ng.d.steps.spool_shares import SpoolShares

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import StepSpec


class StepShares:
    """The shares of one node's users in its spool and its displays."""

    def __init__(self, spool: str) -> None:
        self._spool = SpoolShares(spool)
        self._displays = DisplayShares()

    def check(self, spec: StepSpec) -> None:
        """See that a user may begin one more step.

        Raises:
            SpecError: the user's steps have taken their share; the text says of what.
        """
        self._spool.check(spec["uid"])
        self._displays.check(spec)

    def take(self, key: tuple[int, int, int], spec: StepSpec, path: str) -> None:
        """Count a step that has begun; `path` is its file."""
        self._spool.take(key, spec["uid"], path)
        self._displays.take(key, spec)

    def give_back(self, key: tuple[int, int, int]) -> None:
        """Count it no longer: it has ended."""
        self._spool.give_back(key)
        self._displays.give_back(key)
