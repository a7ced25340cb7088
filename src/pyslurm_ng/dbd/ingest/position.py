"""Where a cluster's journal is in the tables, and what else each message needs: one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.statements import Statement


class Position(NamedTuple):
    """A cluster as a transaction finds it.

    Attributes:
        journal_id: of the journal that is stored; None if none is.
        version: equal only if nothing has changed of what events are read with (`cluster_facts`).
        store_flags: what the controller keeps beside jobs and steps.
        claimed_us, changed_us: how far usage is added up, see `rollup.tables`; 0 if it is not.
    """

    name: str
    has_books: bool
    journal_id: str | None
    epoch: int
    sequence: int
    version: tuple[Any, ...]
    store_flags: str
    next_job_index: int
    claimed_us: int
    changed_us: int

    def moved_to(self, cursor: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the version as it is behind a message that has left this cursor."""
        return (*(cursor[name] for name in _CURSOR), *self.version[len(_CURSOR) :])


_CURSOR = ("journal_id", "epoch", "sequence", "checksum", "updated_us", "records")


def _query() -> sa.Select[Any]:
    clusters, cursors, ran = schema.clusters.c, schema.cursors.c, schema.last_ran.c
    store = schema.store.c
    next_index = sa.select(store.value).where(store.name == "next_job_index").scalar_subquery()
    newest_tres = sa.select(sa.func.max(schema.tres.c.id)).scalar_subquery()
    return (
        sa.select(
            clusters.name, clusters.is_deleted, clusters.flags, cursors.journal_id, cursors.epoch,
            cursors.sequence, cursors.checksum, cursors.updated_us, cursors.records,
            clusters.store_flags, newest_tres.label("newest_tres"),
            next_index.label("next_index"), ran.claimed_us, ran.changed_us,
        )
        .select_from(schema.clusters)
        .outerjoin(schema.cursors, cursors.cluster_id == clusters.id)
        .outerjoin(schema.last_ran, ran.cluster_id == clusters.id)
        .where(clusters.id == sa.bindparam("cluster_id", type_=sa.Integer()))
    )  # fmt: skip


_STATEMENT = Statement(_query())


def read_position(connection: sa.Connection, cluster_id: int) -> Position:
    """Return where a cluster's journal is."""
    row: Any = _STATEMENT.run(connection, {"cluster_id": cluster_id}).one()
    (
        name, is_deleted, flags, journal_id, epoch, sequence, checksum, updated_us, records,
        store_flags, newest_tres, next_index, claimed_us, changed_us,
    ) = row  # fmt: skip
    return Position(
        name=name,
        has_books=not is_deleted and flags != schema.EXTERNAL,
        journal_id=journal_id,
        epoch=epoch or 0,
        sequence=sequence or 0,
        version=(
            journal_id, epoch, sequence, checksum, updated_us, records, store_flags, newest_tres
        ),
        store_flags=store_flags or "",
        next_job_index=int(next_index),
        claimed_us=claimed_us or 0,
        changed_us=changed_us or 0,
    )  # fmt: skip
