"""One change of accounting in progress: its user, its transaction and its output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.statements import Statement
from pyslurm_ng.dbd.tree import Tree, accounts_below, all_coordinators

NONE, OPERATOR, ADMINISTRATOR = 1, 2, 3

MOST_NEW = 2_500
"""Records that one command of a coordinator may make: journals wait for its transaction."""
MOST_NEW_OF_OPERATORS = 100_000

Row = dict[str, Any]


class RefusedError(Exception):
    """A refused change; `lines` go to stderr (or stdout with `is_output`), exit 1."""

    def __init__(self, *lines: str, is_output: bool = False) -> None:
        super().__init__(lines[0])
        self.lines = list(lines)
        self.is_output = is_output


class DeniedError(RefusedError):
    """A change or a list that this user may not make or see."""


class BadValueError(RefusedError):
    """A key's value that cannot be taken; `{word}` in its lines is the word as it was typed."""

    def __init__(self, key: str, value: str, *lines: str) -> None:
        super().__init__(*lines)
        self.key = key
        self.value = value


class BadNumberError(RefusedError):
    """A value that is no number of its kind; `modify` then has nothing to set."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__(f"sacctmgr: error: Invalid value for {key} ({value})")


@dataclass(frozen=True, slots=True)
class Actor:
    """The user that makes a change: identity from the wire, rights from the users table."""

    uid: int
    name: str
    level: int
    coordinates: frozenset[str]

    @property
    def is_operator(self) -> bool:
        """Return whether the user may do what operators may."""
        return self.level >= OPERATOR

    @property
    def is_administrator(self) -> bool:
        """Return whether the user may do everything."""
        return self.level >= ADMINISTRATOR


@dataclass(slots=True)
class Change:
    """One change in progress: the transaction and its output."""

    database: Database
    connection: sa.Connection
    actor: Actor
    version: int
    now_us: int
    lines: list[str] = field(default_factory=list)
    error_lines: list[str] = field(default_factory=list)
    changed: int = 0
    _tres: frozenset[str] = frozenset()

    def stamp(self, is_new: bool = False) -> Row:
        """Return the columns for the time and version of a row's change."""
        row: Row = {"modified_us": self.now_us, "version": self.version}
        if is_new:
            row |= {"created_us": self.now_us, "is_deleted": 0}
        return row

    def log(self, action: str, cluster: str, name: str, info: str) -> None:
        """Write the transaction log that `sacctmgr show transactions` prints."""
        self.connection.execute(
            schema.txn.insert().values(
                time_us=self.now_us,
                action=action,
                actor=self.actor.name,
                cluster=cluster,
                object=name,
                info=info,
            )
        )

    def clusters(self, words: Words, must_exist: bool = False) -> list[tuple[int, str]]:
        """Return the clusters that `Clusters` names, all if it names none.

        A condition may name clusters that do not exist: nothing is in them.

        Args:
            must_exist: refuse clusters that do not, since something is to be made on them.

        Raises:
            RefusedError: a cluster does not exist, or there is none at all.
        """
        table = schema.clusters
        rows = self.connection.execute(
            sa.select(table.c.id, table.c.name).where(schema.has_books()).order_by(table.c.name)
        )
        known = {row.name: row.id for row in rows}
        names = words.values("Clusters", lower=True)
        missing = [name for name in names if name not in known]
        if missing and must_exist:
            raise RefusedError(
                f" This cluster '{missing[0]}' doesn't exist.",
                "        Contact your admin to add it to accounting.",
            )
        if not known:
            raise RefusedError(
                "  Can't find any clusters in the accounting database. Please add a cluster first."
            )
        return [(known[name], name) for name in (names or known) if name in known]

    def tree(self, cluster_id: int) -> Tree:
        """Return the associations of a cluster as they are in this transaction."""
        return Tree(self.connection, cluster_id)

    def tres_names(self) -> frozenset[str]:
        """Return all TRES that are counted, as `gres/gpu`; asked for once."""
        if not self._tres:
            table = schema.tres
            rows = self.connection.execute(sa.select(table.c.type, table.c.name))
            self._tres = frozenset(
                f"{row.type}/{row.name}" if row.name else row.type for row in rows
            )
        return self._tres

    def qos_ids(self) -> dict[str, int]:
        """Return all QOS by name."""
        table = schema.qos
        rows = self.connection.execute(
            sa.select(table.c.name, table.c.id).where(table.c.is_deleted == 0)
        )
        return {row.name: row.id for row in rows}


_USER = sa.bindparam("user", type_=sa.String())
_ADMIN_LEVEL = Statement(
    sa.select(schema.users.c.admin_level).where(
        schema.users.c.name == _USER, schema.users.c.is_deleted == 0
    )
)
_PAIRS = all_coordinators().subquery()
_COORDINATED = Statement(sa.select(_PAIRS.c.account).where(_PAIRS.c.user == _USER))


def actor_of(
    connection: sa.Connection,
    uid: int,
    name: str,
    is_service: bool,
    has_coordinators: bool = True,
) -> Actor:
    """Return the rights of a user; root and SlurmUser (`is_service`) are administrators.

    A coordinator of an account also coordinates the accounts below it, but with DisableCoordDBD
    (not `has_coordinators`) none.
    """
    level = _ADMIN_LEVEL.run(connection, {"user": name}).scalar()
    own = set(_COORDINATED.run(connection, {"user": name}).scalars()) if has_coordinators else set()
    coordinates = frozenset(accounts_below(connection, own))
    return Actor(uid, name, ADMINISTRATOR if is_service else int(level or NONE), coordinates)


def require_operator(under_way: Change, action: str) -> None:
    """Refuse users that are not operators or administrators."""
    if not under_way.actor.is_operator:
        raise DeniedError(f" error: Only admins/operators can {action}")


def require_administrator(under_way: Change, action: str) -> None:
    """Refuse users that are not administrators."""
    if not under_way.actor.is_administrator:
        raise DeniedError(f" error: Only administrators can {action}")


def require_few(under_way: Change, count: int, what: str) -> None:
    """Refuse to make more than a user may with one command; `what` names them, all together."""
    most = MOST_NEW_OF_OPERATORS if under_way.actor.is_operator else MOST_NEW
    if count > most:
        raise RefusedError(f" error: {count} {what} are too many for one command, at most {most}")


def refuse_denied() -> DeniedError:
    """Return Slurm's refusal of a change for which the user lacks the rights."""
    return DeniedError(" Error with request: Access/permission denied")


def require_idle(under_way: Change, association_ids: Iterable[int]) -> None:
    """Refuse to remove associations that have jobs, and list those jobs."""
    ids = list(association_ids)
    jobs = schema.jobs
    busy: list[str] = []
    for first in range(0, len(ids), 500):
        query = (
            sa.select(jobs.c.job_id, jobs.c.account, jobs.c.user, schema.clusters.c.name)
            .join(schema.clusters, schema.clusters.c.id == jobs.c.cluster_id)
            .where(
                jobs.c.association_id.in_(ids[first : first + 500]),
                jobs.c.end_us == 0,
                jobs.c.is_last == 1,
            )
            .order_by(jobs.c.job_id)
        )
        for job_id, account, user, cluster in under_way.connection.execute(query):
            busy.append(
                f"  JobID = {job_id:<10d} C = {cluster:<10s} A = {account:<10s} U = {user:<9s}"
            )
    if busy:
        raise RefusedError(" Error with request: Job(s) active, cancel job(s) before remove", *busy)
