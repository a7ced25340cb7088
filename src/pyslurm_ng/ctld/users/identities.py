"""Names and groups of users, looked up where that may block and kept for a while."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.auth import Peer

T = TypeVar("T")

_MOST_KEPT = 100_000


class RunInThread(Protocol):
    """The type of a function that asks the user directory without keeping the loop waiting.

    A protocol, so its method does nothing: the controller has a pool of threads, tests their own.
    """

    def __call__(self, work: Callable[[], T], done: Callable[[T], None], /) -> None:
        """Run `work` elsewhere, then call `done` on the loop with what it returned."""


@dataclass(frozen=True, slots=True)
class Person:
    """One user as in the system's directory; names are "" for an unknown id."""

    uid: int
    gid: int
    user_name: str
    group_name: str
    groups: tuple[str, ...]


def look_up(uid: int, gid: int) -> Person:
    """Ask the system's user directory; may block for as long as the directory does."""
    try:
        name = pwd.getpwuid(uid).pw_name
        groups = tuple(_group_name(number) for number in os.getgrouplist(name, gid))
    except (KeyError, OSError, ValueError, OverflowError):
        # Unknown, or a directory that does not answer: a user without rights, and soon asked again.
        # Other errors are those of ids and names that no directory can have.
        return Person(uid, gid, "", "", ())
    return Person(uid, gid, name, _group_name(gid), groups)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except (KeyError, OSError, ValueError, OverflowError):
        return str(gid)


class Identities:
    """Callers by uid and gid, fresh for `keep_us` (GroupUpdateTime)."""

    def __init__(self, run: RunInThread, service_uid: int, keep_us: int) -> None:
        self._run = run
        self._service_uid = service_uid
        self.keep_us = keep_us
        self._known: dict[tuple[int, int], tuple[int, Person]] = {}
        self._names: dict[int, str] = {}
        self._asked: dict[tuple[int, int], list[Callable[[Person], None]]] = {}

    def find(self, peer: Peer, now_us: int, done: Callable[[Person], None]) -> None:
        """Call `done` with the person, now if known, otherwise when the directory answered."""
        key = (peer.uid, peer.gid)
        known = self._known.get(key)
        if known is not None and 0 <= now_us - known[0] < self.keep_us:
            done(known[1])
            return
        waiting = self._asked.get(key)
        if waiting is not None:
            waiting.append(done)
            return
        self._asked[key] = [done]

        def answered(person: Person) -> None:
            if len(self._known) >= _MOST_KEPT:
                self.forget()
            if person.user_name:
                self._known[key] = (now_us, person)
                self._names[person.uid] = person.user_name
            for tell in self._asked.pop(key):
                tell(person)

        self._run(lambda: look_up(*key), answered)

    def caller(self, cluster: Cluster, person: Person, peer: Peer) -> Caller:
        """Return what rules may know of a user that asks; rights come from accounting's user
        records."""
        is_admin = person.uid in (0, self._service_uid)
        is_operator = is_admin
        record = cluster.users.get(person.user_name)
        if record is not None and not is_admin:
            is_admin = record.admin_level == "Administrator"
            is_operator = is_admin or record.admin_level == "Operator"
        return Caller(
            uid=person.uid,
            gid=person.gid,
            user_name=person.user_name,
            group_name=person.group_name,
            groups=person.groups,
            is_admin=is_admin,
            is_operator=is_operator,
            host=peer.host,
            pid=peer.pid,
            until_us=peer.until_us,
        )

    def name_of(self, uid: int) -> str:
        """Return the name of a user that has asked for something lately, or ""."""
        return self._names.get(uid, "")

    def forget(self) -> None:
        """Ask the directory again about all users, as a reconfigure does."""
        self._known.clear()
        self._names.clear()
