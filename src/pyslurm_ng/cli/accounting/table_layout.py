"""How sacct and sstat choose fields and lay out headings and rows."""

from pyslurm_ng.cli.command import fail, printable, split_list
from pyslurm_ng.kernels.records import MARK, RIGHT, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    Chosen: TypeAlias = tuple[str, int, bool]
    """Name, width, and whether aligned to the left."""


WIDEST = 10_000
"""The widest column that can be asked for."""
_MOST_DIGITS = 9


def choose_fields(
    command: str, text: str, fields: "Sequence[Chosen]", *, takes_all: bool = True
) -> "list[Chosen]":
    """Return the fields of a comma list of `name` or `name%width`; exit on an unknown one.

    Names may be shortened; a width aligns to the right unless it is negative, and 0 shows nothing.
    `all` means every field if the command takes that word.
    """
    chosen: list[Chosen] = []
    for word in split_list(text):
        name, percent, size = word.partition("%")
        digits = size[size[:1] in ("-", "+") :]
        if percent and not (digits.isascii() and digits.isdigit()):
            fail(f'{command}: error: Invalid field requested: "{word}"')
        if percent and (len(digits) > _MOST_DIGITS or int(digits) > WIDEST):
            fail(f"{command}: error: --format={word}: a width is at most {WIDEST}")
        meant = _fields(name, fields, takes_all) if name else []
        if not meant:
            fail(f'{command}: error: Invalid field requested: "{name or word}"')
        for full, width, is_left in meant:
            if percent:
                width, is_left = int(digits), size.startswith("-")
            chosen.append((full, width, is_left))
    if not chosen:
        fail(f"{command}: error: No fields requested")
    return chosen


def _fields(name: str, fields: "Sequence[Chosen]", takes_all: bool) -> "list[Chosen]":
    """Return the field that a name or its beginning means; the beginning of `all` means all."""
    lower_name = name.lower()
    for field in fields:
        if field[0].lower() == lower_name:
            return [field]
    if takes_all and lower_name and "all".startswith(lower_name):
        return list(fields)
    return [field for field in fields if field[0].lower().startswith(lower_name)][:1]


def field_list(fields: "Sequence[Chosen]") -> str:
    """Return the names of all fields, four a line."""
    names = [name for name, _, _ in fields]
    lines = []
    for first in range(0, len(names), 4):
        lines.append(" ".join(f"{name:<19s}" for name in names[first : first + 4]))
    return "\n".join(lines)


def ends_with_bar(options: "Iterable[str]") -> bool:
    """Return whether lines end with a separator: of -p and -P the later one counts."""
    kinds = [option for option in options if option in ("parsable", "parsable2")]
    return kinds[-1:] == ["parsable"]


class TableLayout:
    """The columns of one output: padded and cut, or with -p and -P separated."""

    def __init__(self, chosen: "Sequence[Chosen]", options: "dict[str, str]") -> None:
        self._chosen = chosen
        self._is_parsable = "parsable2" in options or "parsable" in options
        self._blanks: set[int] = set()
        if self._is_parsable:
            delimiter = options.get("delimiter", "|")
            if any("\udc80" <= char <= "\udcff" for char in delimiter):  # bytes of other texts
                fail(f"error: --delimiter={delimiter!a}: it is no UTF-8 text")
            tail = delimiter if ends_with_bar(options) else ""
            self._spec = [(0, 0, delimiter)] * (len(chosen) - 1) + [(0, 0, tail)]
        else:
            self._spec = [
                (width, (0 if is_left else RIGHT) | MARK, " ") for _, width, is_left in chosen
            ]
            self._blanks = {column for column, (_, width, _) in enumerate(chosen) if not width}

    def header(self) -> bytes:
        """Return the headings, underlined unless they are to be parsed."""
        lines = [self._seen([name for name, _, _ in self._chosen])]
        if not self._is_parsable:
            lines.append(["-" * width for width, _, _ in self._spec])
        return render(lines, [(width, flags & ~MARK, tail) for width, flags, tail in self._spec])

    def rows(self, cells: "Iterable[Sequence[str | int]]") -> bytes:
        """Return rows as lines."""
        return render(map(self._seen, cells) if self._blanks else cells, self._spec)

    def _seen(self, cells: "Sequence[str | int]") -> "Sequence[str | int]":
        """Return the cells of a line; those of columns without a width are empty."""
        return ["" if column in self._blanks else cell for column, cell in enumerate(cells)]


def shown(value: "object") -> "str | int":
    """Return a cell that is safe to print: control characters of users' texts are shown."""
    return printable(value) if isinstance(value, str) else value  # type: ignore[return-value]
