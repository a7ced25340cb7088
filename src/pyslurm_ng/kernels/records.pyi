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

def examined(
    rows: list[dict[str, Any]],
    names: tuple[str, ...],
    lengths: tuple[int, ...],
    defaults: tuple[Any, ...],
    most: int,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows that do not fit, and the names of columns with their default in all rows.

    A row fits if each text is as long as its column at most, and all together as `most`. A value of
    another type, and a number of more than 64 bits, does not fit. Lengths are in characters, -1 for
    numbers; a default is the very object, None for a column that has none.
    """

def picked(rows: list[dict[str, Any]], names: tuple[str, ...], group: int) -> list[tuple[Any, ...]]:
    """Return the values of rows under some names, those of so many rows in one tuple.

    The last tuple has what is left.
    """

class Part:
    """What records put in one place of a text."""

class Remembered(Part):
    """A text that many records have in common; None of `usual` stands for what `own` returns."""

    def __init__(
        self,
        places: tuple[int, ...],
        usual: Callable[..., bytes | None],
        own_places: tuple[int, ...] = (),
        own: Callable[..., bytes] | None = None,
    ) -> None: ...

class Number(Part):
    """A number between two texts: the first of some fields that is not 0, divided by `unit`."""

    def __init__(self, lead: bytes, places: tuple[int, ...], unit: int, tail: bytes) -> None: ...

class Text(Part):
    """A text as JSON, its slashes escaped; `quote` returns one that needs other escapes."""

    def __init__(self, lead: bytes, place: int, quote: Callable[[str], str]) -> None: ...

class StepOfJob(Part):
    """The SLUID of a job's newest record and the job's id, between three texts."""

    def __init__(
        self, lead: bytes, places: tuple[int, ...], between: bytes, tail: bytes
    ) -> None: ...

class RecordTexts:
    """Texts of packed records, most parts of which many records have in common."""

    def __init__(self, blob: bytes, parts: Iterable[Part], end: bytes, between: bytes) -> None: ...
    def next(self, count: int) -> bytes:
        """Return the texts of the next records, at most `count`; b"" after the last one."""
