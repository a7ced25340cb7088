"""Host lists as Slurm writes them: ``node[001-128,130]`` to names and back.

A list is a sequence, not a set: order and repeats survive `expand` and `fold`, as
``scontrol show hostnames`` and ``scontrol show hostlist`` show them. Only `fold_sorted` and
`unique` change that. Commands import this module at every start, so it needs no other one.

Grammar: names are separated by commas or white space. A name holds up to 16 brackets, each with
comma separated numbers and ranges. The last bracket varies fastest. The digits at the beginning of
a range give the width to which its members are padded with zeros.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Slurm refuses more than 65,536 names in one range and more than 16 ranges; here the product
# counts.
MAX_HOSTS = 65536 * 16
MAX_BRACKETS = 16
REPEATS = 65536
"""How many names a user's list may have beyond the nodes there are: one for each task, at most."""
SPARE_BRACKETS = 1024
"""How many brackets a user's list may have beyond the nodes there are."""
# Beyond 18 digits a number no longer fits 64 bits, and no host is called like that.
_MAX_DIGITS = 18

_SEPARATORS = ", \t\n\r\v\f"

_Ranges = list[tuple[int, int, int]]


class HostlistError(ValueError):
    """A host list that cannot be read; the text names the part that is wrong."""


def expand(text: str, most: int = MAX_HOSTS) -> list[str]:
    """Return the names of a host list, in order and with repeats.

    Raises:
        HostlistError: bad bracket or range, or more than `most` names. The size is computed
            first, so a hostile list is refused without building it.
    """
    words = _split(text)
    if "[" not in text:
        _check_size(len(words), most)
        return words
    parsed = [_parse(word) if "[" in word else word for word in words]
    _check_total(parsed, most)
    names: list[str] = []
    for parts in parsed:
        if isinstance(parts, str):
            names.append(parts)
        else:
            names += _names(parts)
    return names


def expand_of_user(text: str, nodes: int) -> list[str]:
    """Return the names of a list that a user wrote, on a cluster of `nodes` nodes.

    Raises:
        HostlistError: as `expand` does; or more brackets than there are nodes to name in them,
            each of which takes some microseconds.
    """
    if text.count("[") > nodes + SPARE_BRACKETS:
        raise HostlistError(f"Invalid hostlist: more than {nodes + SPARE_BRACKETS} brackets")
    return expand(text, nodes + REPEATS)


def count(text: str) -> int:
    """Return how many names `expand` would return, without building them."""
    return _check_total([_parse(word) if "[" in word else word for word in _split(text)])


def expand_unique(text: str) -> list[str]:
    """Return the names of a host list without repeats, in order of first appearance."""
    return unique(expand(text))


def unique(names: list[str]) -> list[str]:
    """Return the names without repeats, in order of first appearance."""
    return list(dict.fromkeys(names))


def fold(names: list[str] | tuple[str, ...]) -> str:
    """Return the shortest list Slurm would print for these names in this order.

    Neighbours with the same text before their last number share a bracket; neighbours whose
    numbers follow one another in the same width become a range. Text after the last number keeps a
    name out of brackets, as in Slurm.
    """
    if len(names) == 1:
        return names[0]
    out: list[str] = []
    group_prefix: str | None = None
    ranges: list[list[int]] = []  # [first, last, width]; width is that of the padded form
    for name in names:
        prefix, digits = _split_number(name)
        if not digits:
            _flush(out, group_prefix, ranges)
            group_prefix, ranges = None, []
            out.append(name)
            continue
        if prefix != group_prefix:
            _flush(out, group_prefix, ranges)
            group_prefix, ranges = prefix, []
        number = int(digits)
        if ranges:
            last = ranges[-1]
            if number == last[1] + 1 and _same_width(last[2], digits):
                last[1] = number
                continue
        ranges.append([number, number, len(digits)])
    _flush(out, group_prefix, ranges)
    return ",".join(out)


def fold_sorted(names: list[str] | tuple[str, ...]) -> str:
    """Return the folded list of the names in natural order (``n9``, ``n10``), repeats kept."""
    return fold(sorted(names, key=sort_key))


def fold_numbers(numbers: Iterable[int]) -> str:
    """Return numbers, none of them negative, in ascending ranges."""
    parts: list[str] = []
    first = last = -2
    for number in [*sorted(numbers), -1]:
        if number == last + 1:
            last = number
            continue
        if last >= 0:
            parts.append(f"{first}" if first == last else f"{first}-{last}")
        first = last = number
    return ",".join(parts)


def sort_key(name: str) -> tuple[list[tuple[int, int, str]], int, int]:
    """Return a key for Slurm's order of names: prefix, then number, then width.

    Runs of digits inside the prefix compare as numbers, so ``x9y2`` sorts before ``x10y2``.
    """
    prefix, digits = _split_number(name)
    return _natural(prefix), (int(digits) if digits else -1), len(digits)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return text as runs that compare as numbers where they are numbers, numbers first."""
    runs: list[tuple[int, int, str]] = []
    start = 0
    size = len(text)
    while start < size:
        end = start
        numeric = "0" <= text[start] <= "9"
        while end < size and ("0" <= text[end] <= "9") == numeric and end - start < _MAX_DIGITS:
            end += 1
        run = text[start:end]
        runs.append((0, int(run), run) if numeric else (1, 0, run))
        start = end
    return runs


def _split(text: str) -> list[str]:
    """Split at commas and white space outside brackets; empty parts vanish."""
    if "[" not in text and "]" not in text:
        return text.replace(",", " ").split()
    words: list[str] = []
    begun = ""  # of a word that has not ended yet
    pieces = text.split("[")
    for number, piece in enumerate(pieces):
        inner, closed, rest = piece.partition("]") if number else ("", "]", piece)
        if not closed:
            more = number + 1 < len(pieces)
            problem = "bracket inside a bracket" if more else "'[' without ']'"
            raise HostlistError(f"Invalid hostlist: {text}: {problem}")
        if "]" in rest:
            raise HostlistError(f"Invalid hostlist: {text}: ']' without '['")
        if number:
            begun = f"{begun}[{inner}]"
        if not rest:
            continue
        if rest[0] in _SEPARATORS and begun:
            words.append(begun)
            begun = ""
        numbers = rest.replace(",", " ").split()
        if begun and numbers:
            numbers[0] = begun + numbers[0]
            begun = ""
        if numbers and rest[-1] not in _SEPARATORS:
            begun = numbers.pop()
        words += numbers
    if begun:
        words.append(begun)
    return words


def _parse(word: str) -> list[str | _Ranges]:
    """Return the literals and brackets of one word, in order."""
    if word.count("[") > MAX_BRACKETS:
        raise HostlistError(f"Invalid hostlist: more than {MAX_BRACKETS} brackets in a name")
    parts: list[str | _Ranges] = []
    rest = word
    while True:
        literal, bracket, rest = rest.partition("[")
        if literal:
            parts.append(literal)
        if not bracket:
            return parts
        inner, _, rest = rest.partition("]")
        parts.append([_parse_range(piece, word) for piece in inner.split(",")])


def _parse_range(piece: str, word: str) -> tuple[int, int, int]:
    first, dash, last = piece.partition("-")
    if not dash:
        last = first
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise HostlistError(f"Invalid hostlist: {word}: invalid range `{piece[:40]}'")
    if len(first) > _MAX_DIGITS or len(last) > _MAX_DIGITS:
        raise HostlistError(f"Invalid hostlist: {word}: too many digits in `{piece[:40]}'")
    low, high = int(first), int(last)
    if high < low:
        raise HostlistError(f"Invalid hostlist: {word}: invalid range `{piece}'")
    if high - low >= MAX_HOSTS:
        raise HostlistError(f"Invalid hostlist: {word}: too many hosts in range `{piece}'")
    return low, high, len(first)


def _check_total(parsed: list[str | list[str | _Ranges]], most: int = MAX_HOSTS) -> int:
    total = 0
    for parts in parsed:
        size = 1
        if not isinstance(parts, str):
            for part in parts:
                if not isinstance(part, str):
                    size *= sum([high - low + 1 for low, high, _ in part])
        total += size
        if total > most:
            _check_size(total, most)
    return total


def _check_size(total: int, most: int) -> None:
    if total > most:
        raise HostlistError(f"Invalid hostlist: more than {most} hosts")


def _names(parts: list[str | _Ranges]) -> list[str]:
    names = [""]
    for part in parts:
        if isinstance(part, str):
            names = [name + part for name in names]
            continue
        numbers = [
            str(number).zfill(width) for low, high, width in part for number in range(low, high + 1)
        ]
        names = [name + number for name in names for number in numbers]
    return names


def _split_number(name: str) -> tuple[str, str]:
    """Return what stands before the number a name ends in, and that number's digits."""
    # rstrip with a set of characters runs in C; a name's last 18 digits are the most we take.
    cut = len(name.rstrip("0123456789"))
    if len(name) - cut > _MAX_DIGITS:
        cut = len(name) - _MAX_DIGITS
    return name[:cut], name[cut:]


def _same_width(width: int, digits: str) -> bool:
    """Return whether padding the number to `width` gives exactly these digits."""
    return len(digits) == width or (len(digits) > width and digits[0] != "0")


def _flush(out: list[str], prefix: str | None, ranges: list[list[int]]) -> None:
    if prefix is None:
        return
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        number, _, width = ranges[0]
        out.append(f"{prefix}{number:0{width}d}")
        return
    texts = []
    for low, high, width in ranges:
        text = f"{low:0{width}d}"
        texts.append(text if low == high else f"{text}-{high:0{width}d}")
    out.append(f"{prefix}[{','.join(texts)}]")
