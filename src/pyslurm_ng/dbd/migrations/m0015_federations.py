"""Federations, and what clusters say of theirs."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_TEXTS = ("federation", "features")
_NUMBERS = ("federation_id", "federation_state")


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    schema.federations.create(connection, checkfirst=True)
    present = {column["name"] for column in sa.inspect(connection).get_columns("clusters")}
    kinds = dict.fromkeys(_TEXTS, "VARCHAR(255) NOT NULL DEFAULT ''")
    kinds |= dict.fromkeys(_NUMBERS, "BIGINT NOT NULL DEFAULT 0")
    for name, kind in kinds.items():
        if name not in present:
            connection.exec_driver_sql(f"ALTER TABLE clusters ADD COLUMN {name} {kind}")
