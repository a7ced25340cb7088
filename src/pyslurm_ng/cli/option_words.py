"""The words of a command line by getopt_long's rules; one reader for all commands.

Long names may be abbreviated while unique. Values follow `=` or are the next word. Letters may be
joined. `--` ends the options.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeAlias

    Row: TypeAlias = Sequence[Any]
    """Long name, short letter or "", NONE, REQUIRED or OPTIONAL; the rest is the command's."""
    Pair: TypeAlias = tuple[str, str | None]

NONE, REQUIRED, OPTIONAL = 0, 1, 2
"""Whether an option takes an argument."""


class OptionError(Exception):
    """An option that cannot be used: the lines for stderr, without the command's name.

    Slurm exits with 255 if a value has the wrong form and with 1 if a number is out of range.
    """

    def __init__(self, text: str, code: int = 255, level: str = "error: ") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.level = level


class UsageError(Exception):
    """Options that cannot be read; the text is getopt's, without the command's name."""


def split_words(
    words: "list[str]",
    by_name: "Mapping[str, Row]",
    by_letter: "Mapping[str, Row]",
    *,
    mixed: bool = False,
) -> "tuple[list[Pair], list[str]]":
    """Return (long name, value) pairs in order, and the operands.

    Args:
        mixed: options and operands may alternate; otherwise the first operand ends the options.

    Raises:
        UsageError: unknown or ambiguous option, argument missing or not allowed.
    """
    pairs: list[Pair] = []
    operands: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word == "--":
            position += 1
            break
        if word[:1] != "-" or word == "-":
            if not mixed:
                break
            operands.append(word)
            position += 1
            continue
        position += 1
        if word.startswith("--"):
            position = _long(word[2:], words, position, by_name, pairs)
        else:
            position = _letters(word[1:], words, position, by_letter, pairs)
    return pairs, operands + words[position:]


def _long(
    text: str, words: "list[str]", position: int, by_name: "Mapping[str, Row]", pairs: "list[Pair]"
) -> int:
    """Read one long option; return where to go on."""
    name, equals, rest = text.partition("=")
    name = _full_name(name, text, by_name)
    argument = by_name[name][2]
    value: str | None = rest if equals else None
    if equals and argument == NONE:
        raise UsageError(f"option '--{name}' doesn't allow an argument")
    if argument == REQUIRED and not equals:
        if position == len(words):
            raise UsageError(f"option '--{name}' requires an argument")
        value = words[position]
        position += 1
    pairs.append((name, value))
    return position


def _full_name(name: str, text: str, by_name: "Mapping[str, Row]") -> str:
    if name in by_name:
        return name
    matches = [other for other in by_name if other.startswith(name)] if name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        shown = " ".join(f"'--{match}'" for match in matches)
        raise UsageError(f"option '--{text}' is ambiguous; possibilities: {shown}")
    raise UsageError(f"unrecognized option '--{text}'")


def _letters(
    text: str,
    words: "list[str]",
    position: int,
    by_letter: "Mapping[str, Row]",
    pairs: "list[Pair]",
) -> int:
    """Read one word of short options; return where to go on."""
    for index, letter in enumerate(text):
        row = by_letter.get(letter)
        if row is None:
            raise UsageError(f"invalid option -- '{letter}'")
        if row[2] == NONE:
            pairs.append((row[0], None))
            continue
        value: str | None = text[index + 1 :]
        if row[2] == REQUIRED and not value:
            if position == len(words):
                raise UsageError(f"option requires an argument -- '{letter}'")
            value = words[position]
            position += 1
        pairs.append((row[0], None if row[2] == OPTIONAL and not value else value))
        break
    return position


def suggestions(word: str, by_name: "Mapping[str, Row]") -> str:
    """Return the long options that begin with a word, one a line; those with a value end in `=`.

    This is what `--autocomplete` prints for a shell's completion; `-`, `--` and nothing begin all.
    """
    start = word.lstrip("-").partition("=")[0]
    return "".join(
        f"--{name}{'=' if by_name[name][2] == REQUIRED else ''}\n"
        for name in sorted(by_name)
        if name.startswith(start) and name != "autocomplete"
    )


def split_line(line: str) -> "list[str]":
    """Return the words of a line that was typed; quotes keep blanks and are taken off."""
    words: list[str] = []
    word, quote, is_open = "", "", False
    for letter in line:
        if quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "\"'":
            quote, is_open = letter, True
        elif letter in " \t\r\n":
            if word or is_open:
                words.append(word)
            word, is_open = "", False
        else:
            word += letter
    if word or is_open:
        words.append(word)
    return words
