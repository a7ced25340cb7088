"""JSON as Slurm writes it: two blanks a level, slashes escaped, empty lists on two lines."""

from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


def quote(text: str) -> str:
    """Return a text as a JSON string."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text.replace("/", "\\/") + '"'
    from json import dumps

    quoted = dumps(text, ensure_ascii=False).replace("/", "\\/")
    if quoted.isprintable():
        return quoted
    # JSON lets U+009B stand as it is, and a terminal takes it for the begin of a command.
    return "".join(char if char.isprintable() else dumps(char)[1:-1] for char in quoted)


def encode(value: "Any", depth: int) -> str:
    """Return a value as JSON text whose further lines are indented for `depth` levels."""
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, (int, float)):
        return repr(value)
    indent = "  " * (depth + 1)
    close = "\n" + "  " * depth
    if isinstance(value, dict):
        if not value:
            return "{" + close + "}"
        pairs = [
            f"{indent}{quote(key)}: {encode(element, depth + 1)}" for key, element in value.items()
        ]
        return "{\n" + ",\n".join(pairs) + close + "}"
    if not value:
        return "[" + close + "]"
    cells = [indent + encode(element, depth + 1) for element in value]
    return "[\n" + ",\n".join(cells) + close + "]"


def number(value: int, *, is_set: bool = True, is_infinite: bool = False) -> "dict[str, Any]":
    """Return an optional number."""
    return {"set": is_set, "infinite": is_infinite, "number": value if is_set else 0}


def limit(value: int) -> "dict[str, Any]":
    """Return an optional number from Slurm's marks for infinite and not set."""
    if value >= INFINITE:
        return number(0, is_set=False, is_infinite=True)
    return number(value, is_set=value != NO_VAL)


def seconds(when_us: int) -> "dict[str, Any]":
    """Return a moment."""
    return number(max(0, when_us) // SECOND_US)


_SIGNALS = {9: "SIGKILL", 15: "SIGTERM", 2: "SIGINT", 6: "SIGABRT", 11: "SIGSEGV", 10: "SIGUSR1"}


def exit_code(status: int) -> "dict[str, Any]":
    """Return a wait status as Slurm's object."""
    signal, code = status & 0x7F, status >> 8 & 0xFF
    word = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
    return {
        "status": [word],
        "return_code": number(code, is_set=not signal),
        "signal": {
            "id": number(signal, is_set=bool(signal)),
            "name": _SIGNALS.get(signal, str(signal)) if signal else "",
        },
    }


def document(key: str, records: "list[str]", more: "dict[str, Any]") -> bytes:
    """Return a whole document: a list of encoded records (at depth 2) and what follows."""
    return b"".join(document_parts(key, (record.encode() for record in records), more))


def document_parts(
    key: str, records: "Iterable[bytes]", more: "dict[str, Any]"
) -> "Iterator[bytes]":
    """Yield a document piece by piece."""
    yield f'{{\n  "{key}": ['.encode()
    lead = b"\n    "
    for record in records:
        yield lead + record
        lead = b",\n    "
    tail_text = ["\n  ]"]
    for name, value in more.items():
        tail_text.append(f',\n  "{name}": {encode(value, 1)}')
    tail_text.append("\n}\n")
    yield "".join(tail_text).encode()
