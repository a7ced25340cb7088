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

    def clusters(self) -> list[tuple[int, str]]:
        """Return the clusters that the conditions name, by name."""
        table = schema.clusters
        query = sa.select(table.c.id, table.c.name).where(schema.has_books())
        names = self.where.values("Clusters", lower=True)
        if names:
            query = query.where(table.c.name.in_(names))
        rows = self.connection.execute(query.order_by(table.c.name))
        return [(row.id, row.name) for row in rows]

    def is_hidden(self, word: str) -> bool:
        """Whether a word of PrivateData keeps records of others from the caller."""
        return word in self.private and not self.actor.is_operator

    def sees_user(self, user: str) -> bool:
        """Whether the caller may see that this user is there."""
        return not self.is_hidden("users") or user == self.actor.name

    def sees_account(self, account: str, members: frozenset[str]) -> bool:
        """Whether the caller may see this account; `members` are those that the caller is in."""
        return (
            not self.is_hidden("accounts")
            or account in members
            or account in self.actor.coordinates
        )


def sees_usage(actor: Actor, private: frozenset[str], user: str, account: str) -> bool:
    """Whether somebody may see what a user of an account has used: any of three words hides it."""
    if actor.is_operator or private.isdisjoint(("accounts", "users", "usage")):
        return True
    return user == actor.name or account in actor.coordinates
