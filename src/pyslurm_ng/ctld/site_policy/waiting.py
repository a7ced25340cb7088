"""Requests that wait for a process of scripts: users take turns, and some are held back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pyslurm_ng.ctld.site_policy.walks import Passage
from pyslurm_ng.wire.lanes import Lanes


class Waiting:
    """Requests by user.

    A user is held back while one of this user's requests keeps a process busy for long: so each
    user has one process at most, and others have the rest.
    """

    def __init__(self) -> None:
        self._lanes: Lanes[Passage] = Lanes()
        self._kept_back: dict[int, deque[Passage]] = {}

    def __len__(self) -> int:
        """Return how many may be asked about now."""
        return len(self._lanes)

    def of(self, uid: int) -> int:
        """Return how many requests of a user wait."""
        kept_back = self._kept_back.get(uid)
        return self._lanes.waiting(uid) if kept_back is None else len(kept_back)

    def push(self, passage: Passage) -> None:
        """Add a request behind others of its user."""
        kept_back = self._kept_back.get(passage.caller.uid)
        if kept_back is None:
            self._lanes.push(passage.caller.uid, passage)
        else:
            kept_back.append(passage)

    def put_back(self, passages: Iterable[Passage]) -> None:
        """Let requests wait again, before others of their users."""
        for passage in [*passages][::-1]:
            kept_back = self._kept_back.get(passage.caller.uid)
            if kept_back is None:
                self._lanes.push_first(passage.caller.uid, passage)
            else:
                kept_back.appendleft(passage)

    def pop(self) -> Passage:
        """Take the next request; there must be one."""
        return self._lanes.pop()[1]

    def hold(self, uid: int) -> None:
        """Let no request of a user be next until `release`."""
        if uid not in self._kept_back:
            self._kept_back[uid] = self._lanes.take(uid)

    def release(self, uid: int) -> None:
        """Let a user's requests have their turns again."""
        for passage in self._kept_back.pop(uid, ()):
            self._lanes.push(uid, passage)

    def take(self, uid: int) -> deque[Passage]:
        """Take all requests of a user, who stays held back if that is so."""
        if uid not in self._kept_back:
            return self._lanes.take(uid)
        taken, self._kept_back[uid] = self._kept_back[uid], deque()
        return taken

    def take_all(self) -> list[Passage]:
        """Take all requests of all users."""
        taken = [self.pop() for _ in range(len(self))]
        for uid in self._kept_back:
            taken += self.take(uid)
        return taken
