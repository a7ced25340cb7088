"""The kinds of columns that the tables of `dbd.schema` have."""

import sqlalchemy as sa

TEXT_CHARACTERS = 65_536
"""Characters of a text column; `dbd.lengths` cuts the rest off."""
LIST_CHARACTERS = 1 << 20
"""The same for lists of nodes and of array tasks."""
SCRIPT_CHARACTERS = (2**24 - 1) // 4
"""The same for scripts and environments: four bytes each fill the column."""

SUMMED_CHARACTERS = 255
"""Of a list of TRES in an index."""

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def integer(name: str, default: int = 0, **options: object) -> sa.Column[int]:
    """Return a column of integers of 64 bits."""
    return sa.Column(
        name,
        BIG,
        nullable=False,
        default=default,
        server_default=str(default),
        **options,  # type: ignore[arg-type]
    )


def name(name: str, length: int = 255, **options: object) -> sa.Column[str]:
    """Return a column of short texts."""
    return sa.Column(
        name,
        sa.String(length),
        nullable=False,
        default="",
        server_default="",
        **options,  # type: ignore[arg-type]
    )


def text(name: str, most: int = TEXT_CHARACTERS) -> sa.Column[str]:
    """Return a column of long texts; `most` are the characters of one."""
    # MySQL refuses server defaults on TEXT, so writers always give these columns.
    long_text = sa.Text().with_variant(sa.Text(2**24 - 1), "mysql")
    return sa.Column(name, long_text, nullable=False, default="", info={"most": most})


def key(name: str) -> sa.Column[int]:
    """Return a part of a primary key that is given, not counted."""
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def stamps() -> list[sa.Column[int]]:
    """Return when a row came and changed, with which change, and whether it is deleted."""
    return [
        integer("created_us"),
        integer("modified_us"),
        integer("version"),
        integer("is_deleted"),
    ]
