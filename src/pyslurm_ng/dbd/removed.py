"""What `is_deleted` says of a record: 0 where it is there, else one of two numbers."""

import sqlalchemy as sa

DELETED, NEVER_WAS = 1, 2
"""Removed: listed by WithDeleted, and never listed again (`dbd.admin.removed_records`)."""


def is_listed(table: sa.Table, with_deleted: bool) -> sa.ColumnElement[bool]:
    """Return which records are listed, with those that were removed or without."""
    return table.c.is_deleted < NEVER_WAS if with_deleted else table.c.is_deleted == 0
