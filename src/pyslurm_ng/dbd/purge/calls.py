"""`sacctmgr archive dump` and `load`: they take long, so a thread of their own does them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.tables.keys import SLURMDBD
from pyslurm_ng.conf.values import BadValue, convert
from pyslurm_ng.dbd.admin.change import Actor
from pyslurm_ng.dbd.database import Database, error_text
from pyslurm_ng.dbd.purge.archive import ArchiveError
from pyslurm_ng.dbd.purge.duty import Purge, changed
from pyslurm_ng.dbd.purge.rules import ARCHIVE_KEYS, Policy, Rule
from pyslurm_ng.wire.dbd_messages import ArchiveDump, ArchiveLoad, ChangeResult
from pyslurm_ng.wire.stream import Call

_KEYS = {key.name.lower(): key for key in SLURMDBD if key.kind == "purge"}
WAITING = 4
"""The most commands of one user that wait: rights are known only when a command's turn comes."""


class ArchiveCalls:
    """Answers the commands, one after the other.

    Args:
        actor_of: returns the rights of the user that calls.
        post: runs a function on the loop, from any thread.
    """

    def __init__(
        self,
        database: Database,
        purge: Purge,
        faults: Faults,
        *,
        actor_of: Callable[[sa.Connection, Call], Actor],
        post: Callable[..., None],
    ) -> None:
        self._database = database
        self._purge = purge
        self._faults = faults
        self._actor_of = actor_of
        self._post = post
        self._waiting: Counter[int] = Counter()  # by user
        self._thread = ThreadPoolExecutor(1, "archive")

    def take(self, call: Call, request: ArchiveDump | ArchiveLoad) -> None:
        """Begin with a command when those before it are done."""
        uid = call.peer.uid
        if self._waiting[uid] >= WAITING:
            text = f"{WAITING} of your archive commands wait; ask again later"
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
            return
        self._waiting[uid] += 1
        self._thread.submit(self._work, call, request)

    def close(self) -> None:
        """Drop the commands that wait; the one at work has been told to stop."""
        self._thread.shutdown(cancel_futures=True)

    def _work(self, call: Call, request: ArchiveDump | ArchiveLoad) -> None:
        answer: ChangeResult | None = None
        try:
            answer = self._answer(call, request)
        except CancelledError:
            pass  # the daemon ends, and with it the connection
        except sa.exc.SQLAlchemyError as error:
            self._post(call.error, int(Errno.ESLURM_DB_CONNECTION), error_text(error))
        except Exception as bug:  # noqa: BLE001 - reported; the thread must go on
            self._faults.note("internal", f"{call.kind}: internal error", bug)
            text = "Slurm internal error, contact system administrator"
            self._post(call.error, int(Errno.ESLURM_INTERNAL), text)
        self._post(self._done, call, answer)

    def _done(self, call: Call, answer: ChangeResult | None) -> None:
        self._waiting[call.peer.uid] -= 1
        self._waiting = +self._waiting
        if answer is not None:
            call.reply(answer)

    def _answer(self, call: Call, request: ArchiveDump | ArchiveLoad) -> ChangeResult:
        with self._database.read() as connection:
            actor = self._actor_of(connection, call)
        if not actor.is_administrator:
            return _refused(" Error with request: Access/permission denied")
        if not self._purge.policy.is_for_users:
            return _refused(" Archive commands are disabled (DisableArchiveCommands)")
        if isinstance(request, ArchiveLoad):
            return self._load(request)
        if request.directory and not os.path.isdir(request.directory):
            return _refused(
                f" dump: {request.directory} is no directory on the slurmdbd host",
                " Note: For archive dump, the directory must be on the slurmdbd host.",
            )
        try:
            count = self._purge.purge(_policy(self._purge.policy, request))
        except BadValue as bad:
            return _refused(f"sacctmgr: error: Invalid purge string: {bad}")
        except ArchiveError as error:
            return _refused(f" Problem dumping archive: {error}")
        return _done("Archived and purged", count)

    def _load(self, request: ArchiveLoad) -> ChangeResult:
        try:
            return _done("Loaded", self._purge.load(request.path))
        except (ArchiveError, OSError) as error:
            text = error.strerror if isinstance(error, OSError) else str(error)
            return _refused(
                f" Problem loading archive file: {text}",
                " Note: For archive load, the file must be accessible on the slurmdbd host.",
            )


def _done(what: str, count: int) -> ChangeResult:
    return ChangeResult([f" {what} {count} record{'' if count == 1 else 's'}"], [], count, 0)


def _refused(*lines: str) -> ChangeResult:
    return ChangeResult([], list(lines), 0, 1)


def _policy(policy: Policy, request: ArchiveDump) -> Policy:
    """Return slurmdbd.conf's policy with the words of a command.

    Raises:
        BadValue: no such key, or a time that is none.
    """
    rules: dict[str, Rule] = {}
    for pair in request.purge:
        key = _KEYS.get(pair.key.lower())
        if key is None:
            raise BadValue(f"'{pair.key}' is no Purge key")
        amount, unit = convert(key, pair.value)
        kind = key.attribute.removeprefix("purge_").removesuffix("_after")
        rules[kind] = Rule(amount, unit, policy.rule(kind).is_archived)
    archived = {name.lower() for name in request.archived}
    for kind, name in ARCHIVE_KEYS.items():
        if name.removeprefix("archive_").replace("_", "") in archived:
            rule: Any = rules.get(kind, policy.rule(kind))
            rules[kind] = Rule(rule.amount, rule.unit, True)
    return changed(policy, rules, request.directory, request.script)
