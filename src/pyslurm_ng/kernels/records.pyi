from collections.abc import Callable, Iterable, Sequence
from typing import Any

RIGHT: int
"""Column flag: align to the right."""
MARK: int
"""Column flag: end a cut cell with a plus sign, as sacct does."""

def pack(value: object) -> bytes:
    """Return `value` as msgpack bytes."""

def unpack(data: bytes | bytearray | memoryview) -> Any:
    """Return the one value in `data`, or raise ValueError."""

def check_body(data: bytes | bytearray | memoryview) -> None:
    """Raise ValueError for a repeated key, NUL in text, a float or an integer beyond 2**63-1."""

def is_lean(data: bytes | bytearray | memoryview, most: int) -> bool:
    """Return whether a map has at most `most` bytes besides the byte strings in it."""

def project(blob: bytes, wanted: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the fields `wanted` of each of the arrays concatenated in `blob`."""

def render(
    rows: Iterable[Sequence[str | int | None]],
    columns: Sequence[tuple[int, int, str]],
    head: str = "",
    end: str = "\n",
) -> bytes:
    """Return rows as lines of padded, cut UTF-8 columns."""

def database_rows(
    data: bytes, sequence: int, kinds: tuple[Callable[[bytes], Any], ...], rows: list[Any]
) -> tuple[int, int]:
    """Append the rows of MariaDB's packets; return the bytes used and the next number."""

def json_rows(
    rows: Iterable[tuple[Any, ...]],
    pieces: list[Any],
    end: bytes,
    between: bytes,
    quote: Callable[[str], bytes],
) -> bytes:
    """Return rows as JSON texts of one shape, joined by `between`."""

def sql_values(
    rows: Iterable[dict[str, Any]], names: tuple[str, ...], most: int, backslashes: bool
) -> list[str]:
    """Return rows as `(value,...),...` for MariaDB, in texts of at most so many bytes."""
