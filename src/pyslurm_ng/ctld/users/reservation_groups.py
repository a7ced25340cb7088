"""Asks the user directory for members of groups that reservations draw jobs of."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Mapping, Sequence

from pyslurm_ng.ctld.rules.reservation.groups import groups_to_ask, members_known
from pyslurm_ng.ctld.users.identities import RunInThread
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster

Members = Mapping[str, tuple[str, ...]]


def look_up_members(names: Sequence[str]) -> Members:
    """Return the users of each group, those whose own group it is too; may block.

    A group that the directory does not know, or whose name it cannot even read, has none.
    """
    members: dict[str, tuple[str, ...]] = {}
    everybody = pwd.getpwall()
    for name in names:
        try:
            group = grp.getgrnam(name)
        except (KeyError, OSError, ValueError):
            members[name] = ()
            continue
        own = (person.pw_name for person in everybody if person.pw_gid == group.gr_gid)
        members[name] = (*group.gr_mem, *own)
    return members


class ReservationGroups:
    """Keeps members of groups fresh.

    It asks as soon as a reservation names a group, and again every `keep_us` (GroupUpdateTime; 0:
    never).
    """

    def __init__(
        self, run: RunInThread, record: Callable[[Sequence[ev.AnyEvent]], None], keep_us: int
    ) -> None:
        self._run = run
        self._record = record
        self.keep_us = keep_us
        self._names: tuple[str, ...] = ()
        self._members: Members = {}
        self._asked_us = 0
        self._is_asking = False

    def tick(self, cluster: Cluster, now_us: int) -> None:
        """Ask if it is time to, and give reservations the known members."""
        names = groups_to_ask(cluster)
        if names:
            self._record(members_known(cluster, self._members, now_us))
        is_stale = self.keep_us > 0 and not 0 <= now_us - self._asked_us < self.keep_us
        if not names or self._is_asking or (names == self._names and not is_stale):
            return
        self._names, self._asked_us, self._is_asking = names, now_us, True
        self._run(lambda: look_up_members(names), self._answered)

    def forget(self) -> None:
        """Ask again, as a reconfigure does."""
        self._names = ()

    def _answered(self, members: Members) -> None:
        self._members, self._is_asking = members, False
