"""One list request of sacctmgr: what it asks for, and who asks."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Actor
from pyslurm_ng.dbd.admin.words import Words


@dataclass(frozen=True, slots=True)
class Asked:
    """One list request: its conditions, its flag words in lower case, its user.

    `private` are the words of PrivateData.
    """

    connection: sa.Connection
    where: Words
    flags: frozenset[str]
    actor: Actor
    private: frozenset[str]
    now_us: int

    @property
    def is_private(self) -> bool:
        """Whether PrivateData hides records of other users."""
        return hides_others(self.private)

    def clusters(self) -> list[tuple[int, str]]:
        """Return the clusters that the conditions name, by name."""
        table = schema.clusters
        query = sa.select(table.c.id, table.c.name).where(schema.has_books())
        names = self.where.values("Clusters", lower=True)
        if names:
            query = query.where(table.c.name.in_(names))
        rows = self.connection.execute(query.order_by(table.c.name))
        return [(row.id, row.name) for row in rows]

    def sees(self, user: str, account: str) -> bool:
        """Whether PrivateData lets the caller see this user of this account."""
        return may_see(self.actor, self.is_private, user, account)


_OF_OTHERS = frozenset(("accounts", "users", "usage"))


def hides_others(private: frozenset[str]) -> bool:
    """Whether words of PrivateData hide other users' records."""
    return bool(private & _OF_OTHERS)


def may_see(actor: Actor, is_private: bool, user: str, account: str) -> bool:
    """Whether somebody may see what belongs to a user of an account."""
    if not is_private or actor.is_operator:
        return True
    return user == actor.name or account in actor.coordinates
