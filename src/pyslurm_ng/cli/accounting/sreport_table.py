"""The columns of sreport's reports, and how they are printed."""

from pyslurm_ng.cli.accounting.sreport_amounts import PERCENT_CHARACTERS
from pyslurm_ng.cli.accounting.sreport_fields import FIELDS
from pyslurm_ng.cli.accounting.table_layout import ends_with_bar
from pyslurm_ng.cli.command import printable, say, split_list, write_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from pyslurm_ng.cli.accounting.sreport_amounts import Unit

LINE = "-" * 80


class Amount:
    """Seconds times amount, and the total that percent are of.

    Attributes:
        has_room: whether its column is wide enough for it.
    """

    __slots__ = ("has_room", "seconds", "total")

    def __init__(self, seconds: int, total: int, has_room: bool = True) -> None:
        self.seconds = seconds
        self.total = total
        self.has_room = has_room


class Column:
    """One column.

    Attributes:
        grows: whether it has room for its greatest amount.
    """

    __slots__ = ("grows", "header", "is_left", "name", "width")

    def __init__(
        self, name: str, header: str, width: int, is_left: bool = False, grows: bool = False
    ) -> None:
        self.name = name
        self.header = header
        self.width = width
        self.is_left = is_left
        self.grows = grows


if TYPE_CHECKING:
    Cell: TypeAlias = str | int | Amount


def choose_columns(kind: str, words: "Iterable[str]", is_tree: bool) -> "tuple[list[Column], bool]":
    """Return the columns that `format=` names, and whether all of them are known.

    A name may be shortened. `%20` sets a width, a negative one aligns to the left.
    """
    columns = []
    unknown = []
    for word in words:
        name, _, size = word.partition("%")
        row = _field(kind, name)
        if row is None:
            unknown.append(name)
            continue
        full, _, header, width, grows = row
        is_left = False
        if is_tree and full == "Accounts":
            width, is_left = 20, True
        digits = size.lstrip("-")
        if digits.isdecimal() and int(digits[:4]) and not grows:
            width, is_left = min(int(digits[:4]), 1000), size.startswith("-")
        columns.append(Column(full, header, width, is_left, grows))
    for name in unknown:
        say(f" Unknown field '{name.lower()}'")
    return columns, not unknown


def _field(kind: str, name: str) -> "tuple[str, tuple[str, ...], str, int, bool] | None":
    lowered = name.lower()
    rows = FIELDS[kind]
    by_word = {word.lower(): row for row in rows for word in (row[0], *row[1])}
    if lowered in by_word:
        return by_word[lowered]
    begun = {row[0]: row for word, row in by_word.items() if word.startswith(lowered)}
    if len(begun) == 1 or (len(lowered) > 1 and begun):
        return next(iter(begun.values()))
    return None


def format_words(texts: "Iterable[str]") -> "list[str]":
    """Return the fields of all `format=` conditions; an empty one is an empty word."""
    return [word for text in texts for word in split_list(text) or [""]]


class Printer:
    """Prints a report in the way that the options say."""

    def __init__(self, options: "Mapping[str, str]", unit: "Unit") -> None:
        self._has_header = "noheader" not in options
        self._unit = unit
        self._bar = "|" if "parsable" in options or "parsable2" in options else ""
        self._tail = "|" if ends_with_bar(options) else ""

    def title(self, *lines: str) -> None:
        """Print the lines above a report."""
        if self._has_header:
            write_bytes("\n".join([LINE, *lines, LINE, ""]).encode())

    def table(self, columns: "Sequence[Column]", rows: "Sequence[Sequence[Cell]]") -> None:
        """Print the headings and the rows."""
        lines = []
        if self._unit is not None:
            self._grow(columns, rows)
        if self._has_header:
            lines.append(self._line(columns, [column.header for column in columns], ""))
            if not self._bar:
                lines.append("".join("-" * column.width + " " for column in columns))
        for row in rows:
            lines.append(self._line(columns, [self._shown(cell) for cell in row], "+"))
        write_bytes("".join(f"{line}\n" for line in lines).encode())

    def _grow(self, columns: "Sequence[Column]", rows: "Sequence[Sequence[Cell]]") -> None:
        for index, column in enumerate(columns):
            if not column.grows:
                continue
            for row in rows:
                cell = row[index]
                if isinstance(cell, Amount) and cell.has_room:
                    column.width = max(column.width, len(str(cell.seconds)))
            if self._unit.has_percent and not self._unit.is_percent:
                column.width += PERCENT_CHARACTERS

    def _shown(self, cell: "Cell") -> str:
        if isinstance(cell, Amount):
            return self._unit.shown(cell.seconds, cell.total)
        return printable(cell) if isinstance(cell, str) else str(cell)

    def _line(self, columns: "Sequence[Column]", texts: "Sequence[str]", mark: str) -> str:
        if self._bar:
            return self._bar.join(texts) + self._tail
        return "".join(
            f"{_fitted(text, column, mark)} " for column, text in zip(columns, texts, strict=True)
        )


def _fitted(text: str, column: Column, mark: str) -> str:
    """Return a text in the width of its column; headings and names are cut, numbers never."""
    width = column.width
    if len(text) > width and (not mark or not text[:1].isdecimal()):
        text = text[: width - len(mark)] + mark
    return text.ljust(width) if column.is_left else text.rjust(width)


def cells(columns: "Sequence[Column]", cell: "Callable[[str], Cell]") -> "list[Cell]":
    """Return a row: what a function returns for the name of each column."""
    return [cell(column.name) for column in columns]
