"""What all reports share: clusters, TRES, and which users PrivateData hides."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Actor, DeniedError
from pyslurm_ng.dbd.list_request import sees_usage

NO_PRIVILEGE = "Your user doesn't have privilege to perform this action"


@dataclass(frozen=True, slots=True)
class Scope:
    """One request for a report: its connection, who asks, and the words of PrivateData."""

    connection: sa.Connection
    actor: Actor
    private: frozenset[str]

    def clusters(self, names: list[str]) -> list[tuple[int, str]]:
        """Return ids and names of the clusters with some names, all without names, by name."""
        table = schema.clusters
        query = sa.select(table.c.id, table.c.name).where(schema.has_books())
        if names:
            query = query.where(table.c.name.in_({name.lower() for name in names}))
        return [(row.id, row.name) for row in self.connection.execute(query.order_by(table.c.name))]

    def tres(self) -> dict[int, str]:
        """Return the names of all TRES by id, in the order of the ids."""
        table = schema.tres
        return {
            row.id: f"{row.type}/{row.name}" if row.name else row.type
            for row in self.connection.execute(sa.select(table).order_by(table.c.id))
        }

    def sees(self, user: str, account: str) -> bool:
        """Whether PrivateData lets the caller see what this user of this account has used."""
        return sees_usage(self.actor, self.private, user, account)

    def refuse_ordinary_users(self) -> None:
        """Refuse what only operators may see, in Slurm's words.

        Raises:
            DeniedError: the caller is no operator.
        """
        if not self.actor.is_operator:
            raise DeniedError(NO_PRIVILEGE)
