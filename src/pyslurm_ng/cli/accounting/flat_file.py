"""The flat file of `sacctmgr dump` and `load`: one `KIND - 'NAME':KEY=VALUE:KEY=VALUE` a line."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {
    "qos": "QOS",
    "cluster": "Cluster",
    "machine": "Cluster",
    "parent": "Parent",
    "account": "Account",
    "project": "Account",
    "user": "User",
}
"""Words at the beginning of a line, two of them older, and what they mean."""
_QUOTES = "'\""


class LineError(Exception):
    """A line that cannot be read; its text is for the user."""


def quoted(text: str) -> str:
    """Return a text as `read` takes it: in quotes of the other kind around those it has."""
    text = "".join(char if char.isprintable() else "?" for char in text)
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    return "".join(f'"{part}"' if part == "'" else f"'{part}'" for part in _parts(text))


def _parts(text: str) -> "Iterator[str]":
    """Yield the single quotes of a text and what is between them."""
    for index, part in enumerate(text.split("'")):
        if index:
            yield "'"
        if part:
            yield part


def read(number: int, line: str) -> "list[object]":
    """Return a line as a `FileLine`: its number, kind, name and settings.

    Raises:
        LineError: with Slurm's text.
    """
    misformatted = f" Misformatted line({number}): {line}"
    words = _split(number, line)
    word, _, name = words[0].partition(" - ")
    kind = KINDS.get(word.strip().lower(), "")
    name = _unquoted(name.strip())
    if not kind or name in ("", "''"):
        raise LineError(misformatted)
    settings = []
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise LineError(f" Unknown option: {word}\n Problem with line({number})")
        settings.append([key.strip(), "=", _unquoted(value.strip())])
    return [number, kind, name, settings]


def _split(number: int, line: str) -> "list[str]":
    """Return what stands between colons outside quotes."""
    words, word, quote = [], "", ""
    for char in line:
        if quote or char in _QUOTES:
            if char == quote:
                quote = ""
            elif not quote:
                quote = char
        elif char == ":" and not _is_in_tres(word):
            words.append(word)
            word = ""
            continue
        word += char
    if quote:
        raise LineError(
            f" There is a problem with option {word} with quotes.\n Problem with line({number})"
        )
    return [word for word in (*words, word) if word.strip()] or [""]


def _is_in_tres(word: str) -> bool:
    """Return whether a colon behind this belongs to a TRES as `gres/gpu:a100`, which has no quotes.

    Slurm writes limits without them.
    """
    _, equals, value = word.partition("=")
    last = value.rpartition(",")[2]
    return bool(equals) and last.startswith("gres/") and "=" not in last and ":" not in last


def _unquoted(text: str) -> str:
    """Return a text without its quotes."""
    plain, quote = "", ""
    for char in text:
        if quote:
            if char == quote:
                quote = ""
                continue
        elif char in _QUOTES:
            quote = char
            continue
        plain += char
    return plain or ("''" if text else "")
