"""YAML as Slurm writes it: JSON documents line by line, every value with its tag.

Texts are plain if YAML 1.1 allows it, otherwise in single quotes, and in double quotes only with
unprintable characters. Long texts are folded at blanks beyond column 80.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WIDTH = 80
_NEVER_FIRST = frozenset("#,[]{}&*!|>'\"%@`")
_ESCAPES = {"\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
            "\f": "\\f", "\r": "\\r", "\x1b": "\\e", '"': '\\"', "\\": "\\\\"}  # fmt: skip


def from_json(text: "bytes | str") -> bytes:
    """Return a JSON document as YAML."""
    from json import loads

    lines = ["%YAML 1.1", "--- !!map"]
    _mapping(lines, loads(text), 0)
    return ("\n".join([*lines, "...", "", ""])).encode()


def begin_of_list(key: str) -> bytes:
    """Return the beginning of a document that begins with a list."""
    return f"%YAML 1.1\n--- !!map\n!!str {key}: !!seq".encode()


def elements_of(text: bytes) -> bytes:
    """Return elements of that list, from JSON with commas between them."""
    from json import loads

    lines = [""]
    for element in loads(b"[" + text + b"]"):
        _value(lines, "-", element, 0)
    return "\n".join(lines).encode()


def end_of_document(more: "dict[str, Any]", *, is_empty: bool) -> bytes:
    """Return what follows the list."""
    lines = [" []" if is_empty else ""]
    _mapping(lines, more, 0)
    return "\n".join([*lines, "...", "", ""]).encode()


def _mapping(lines: "list[str]", mapping: "dict[str, Any]", depth: int) -> None:
    """Add the lines of a mapping whose keys stand at a depth."""
    blanks = "  " * depth
    for key, value in mapping.items():
        _value(lines, f"{blanks}!!str {key}:", value, depth)


def _value(lines: "list[str]", lead: str, value: "Any", depth: int) -> None:
    """Add `lead` and a value after it; a value that does not fit the line is put below, deeper."""
    if isinstance(value, dict):
        lines.append(f"{lead} !!map" + ("" if value else " {}"))
        _mapping(lines, value, depth + 1)
    elif isinstance(value, list):
        lines.append(f"{lead} !!seq" + ("" if value else " []"))
        for element in value:
            _value(lines, "  " * depth + "-", element, depth)
    else:
        lines += _scalar(lead, value, "  " * (depth + 1))


def _scalar(lead: str, value: "Any", indent: str) -> "list[str]":
    if value is None:
        return [f"{lead} !!null null"]
    if isinstance(value, bool):
        return [f"{lead} !!bool {'true' if value else 'false'}"]
    if isinstance(value, int):
        return [f"{lead} !!int {value}"]
    if isinstance(value, float):
        return [f"{lead} !!float {value:f}"]
    if not value:
        return [f"{lead} !!str"]
    if not all(char.isprintable() and char != "\ufeff" for char in value):
        return [f'{lead} !!str "{_escaped(value)}"']
    if _is_plain(value):
        return _folded(f"{lead} !!str ", value, indent)
    quoted = value.replace("'", "''")
    return _folded(f"{lead} !!str '", quoted + "'", indent)


def _is_plain(text: str) -> bool:
    """Return whether a text needs no quotes in a block: YAML 1.1, section 9.1."""
    if text[0] in _NEVER_FIRST or text[0] == " " or text[-1] == " ":
        return False
    if text.startswith(("---", "...")) or (text[0] in "-?" and text[1:2] in ("", " ")):
        return False
    return ": " not in text and not text.endswith(":") and " #" not in text


def _folded(lead: str, text: str, indent: str) -> "list[str]":
    """Return a text after `lead`, broken at single blanks beyond the width."""
    lines, line = [], lead
    for index, char in enumerate(text):
        is_single = char == " " != text[index - 1] and text[index + 1 : index + 2] != " "
        if is_single and len(line) > _WIDTH and 0 < index < len(text) - 1:
            lines.append(line)
            line = indent
        else:
            line += char
    return [*lines, line]


def _escaped(text: str) -> str:
    out = ""
    for char in text:
        if char in _ESCAPES:
            out += _ESCAPES[char]
        elif char.isprintable():
            out += char
        else:
            code = ord(char)
            form = "\\x{:02X}" if code < 256 else "\\u{:04X}" if code < 65536 else "\\U{:08X}"
            out += form.format(code)
    return out
