"""How many displays for X11 the running steps of each user have on this node.

There are a thousand numbers of displays. Without shares the steps of one user could have them all,
and no other user's --x11 would work here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyslurm_ng.d.spec.node_setup import SpecError

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import StepSpec

MOST_DISPLAYS = 100
"""Of one user: a tenth of all."""


class DisplayShares:
    """The displays of one node's users."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int], int] = {}  # users by step
        self._of_user: Counter[int] = Counter()

    def check(self, spec: StepSpec) -> None:
        """See that a user may have a display more, if the step is to have one.

        Raises:
            SpecError: the user's steps have as many as one user may.
        """
        uid = spec["uid"]
        if spec.get("x11") and self._of_user[uid] >= MOST_DISPLAYS:
            raise SpecError(
                f"X11: steps of uid {uid} have {MOST_DISPLAYS} displays on this node, "
                "more are not allowed"
            )

    def take(self, key: tuple[int, int, int], spec: StepSpec) -> None:
        """Count the display of a step that has one."""
        if spec.get("x11"):
            self._held[key] = spec["uid"]
            self._of_user[spec["uid"]] += 1

    def give_back(self, key: tuple[int, int, int]) -> None:
        """Count it no longer: the step has ended."""
        uid = self._held.pop(key, None)
        if uid is not None:
            self._of_user[uid] -= 1
            if not self._of_user[uid]:
                del self._of_user[uid]
