"""Many records of one shape as JSON: what all have in common, and what each puts into it.

A shape is a dict as the document has it; leaves stand where records differ. It gives the text that
`json.dumps` with an indent of 2 gives, in a small part of the time.
"""

import json
from functools import lru_cache
from json.encoder import encode_basestring_ascii

from pyslurm_ng.kernels.records import json_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Row = tuple[Any, ...]
    Make = Callable[[int], Callable[..., Any] | None]

_FEW = 256
_MARK = "\0"


class Leaf:
    """What records put in one place: JSON text made of some of their columns.

    Args:
        columns: names of the columns that it needs.
        make: returns, for the depth of the place, a function of the values of the columns; None
            stands for the value of the only one.
        is_text: whether it has still to be quoted.
        around: what the place has instead of the bare value, if that is not None.
    """

    def __init__(
        self, columns: "tuple[str, ...]", make: "Make", is_text: bool = False,
        around: "dict[str, Any] | None" = None,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.make = make
        self.is_text = is_text
        self.around = around


def count(column: str) -> Leaf:
    """Return the leaf for an integer, or for JSON text that is there already."""
    return Leaf((column,), lambda _: None)


def text(column: str) -> Leaf:
    """Return the leaf for a text."""
    return Leaf((column,), lambda _: None, is_text=True)


def amount(function: "Callable[..., int]", *columns: str) -> Leaf:
    """Return the leaf for an integer that is made of columns."""
    return Leaf(columns, lambda _: function)


def word(function: "Callable[..., str]", *columns: str) -> Leaf:
    """Return the leaf for a text that is made of columns."""
    return Leaf(columns, lambda _: function, is_text=True)


def value(function: "Callable[..., Any]", *columns: str) -> Leaf:
    """Return the leaf for any value; few records differ in it."""
    return Leaf(
        columns,
        lambda depth: lru_cache(_FEW)(lambda *values: encoded(function(*values), depth)),
    )


def optional(function: "Callable[..., int | None]", *columns: str) -> Leaf:
    """Return the leaf for Slurm's triple of a number that may be missing."""
    return Leaf(
        columns, lambda _: function, around={"set": True, "infinite": False, "number": _MARK}
    )


_MISSING = {"set": False, "infinite": False, "number": 0}


def _quoted(key: str) -> str:
    """Return a text as JSON, all in ASCII: some terminals take other characters for commands."""
    return encode_basestring_ascii(key).replace("\x7f", "\\u007f")


def encoded(whole: "Any", depth: int) -> str:
    """Return a value as JSON whose further lines are indented for `depth` levels.

    As `json.dumps` with `indent`, which leaves cycles behind, a kilobyte each: commands search for
    none, so a long list took more memory with each job.
    """
    if isinstance(whole, str):
        return _quoted(whole)
    if type(whole) is int:
        return str(whole)
    if not whole or not isinstance(whole, dict | list | tuple):
        return json.dumps(whole)
    indent = "\n" + "  " * depth
    if isinstance(whole, dict):
        parts = [f"{_quoted(key)}: {encoded(part, depth + 1)}" for key, part in whole.items()]
        begin, end = "{}"
    else:
        parts = [encoded(part, depth + 1) for part in whole]
        begin, end = "[]"
    return f"{begin}{indent}  " + f",{indent}  ".join(parts) + f"{indent}{end}"


class Template:
    """A shape for records of some columns, at a depth of the document.

    Args:
        at: the place of each column in a record.
    """

    def __init__(self, shape: "Any", at: "Mapping[str, int]", depth: int) -> None:
        self._at = at
        self._depth = depth
        self._pieces: list[Any] = []
        self._lead = ""
        self._lay_out(shape, depth)
        self._end = self._lead.encode()
        self._between = (",\n" + "  " * depth).encode()

    def joined(self, rows: "Iterable[Row]") -> bytes:
        """Return the texts of records with what stands between elements of a list."""
        return json_rows(rows, self._pieces, self._end, self._between, _quoted_bytes)

    def listed(self, rows: "Iterable[Row]") -> bytes:
        """Return the list of some records."""
        elements = self.joined(rows)
        if not elements:
            return b"[]"
        indent = b"\n" + b"  " * self._depth
        return b"[" + indent + elements + indent[:-2] + b"]"

    def _lay_out(self, shape: "Any", depth: int) -> None:
        """Append the pieces of a part of the shape; `_lead` is what follows the last one."""
        indent = "\n" + "  " * depth
        if isinstance(shape, Leaf):
            self._put(shape, depth)
        elif isinstance(shape, dict) and shape:
            sign = "{"
            for key, part in shape.items():
                self._lead += f"{sign}{indent}  {_quoted(key)}: "
                self._lay_out(part, depth + 1)
                sign = ","
            self._lead += indent + "}"
        elif isinstance(shape, list) and shape:
            sign = "["
            for part in shape:
                self._lead += f"{sign}{indent}  "
                self._lay_out(part, depth + 1)
                sign = ","
            self._lead += indent + "]"
        else:
            self._lead += encoded(shape, depth)

    def _put(self, leaf: Leaf, depth: int) -> None:
        there, tail = "", ""
        if leaf.around is not None:
            there, _, tail = encoded(leaf.around, depth).partition(_quoted(_MARK))
        self._pieces.append(
            (
                self._lead.encode(),
                leaf.is_text,
                leaf.make(depth),
                tuple(self._at[name] for name in leaf.columns),
                encoded(_MISSING, depth).encode(),
                there.encode(),
                tail.encode(),
            )
        )
        self._lead = ""


def _quoted_bytes(key: str) -> bytes:
    return _quoted(key).encode()


def columns_of(shape: "Any") -> "list[str]":
    """Return the columns that the leaves of a shape need, each once."""
    if isinstance(shape, Leaf):
        return list(shape.columns)
    parts = shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ()
    return list(dict.fromkeys(name for part in parts for name in columns_of(part)))
