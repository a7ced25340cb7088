"""Commands of oci.conf: what stands for a percent sign and a letter."""

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PATTERN = re.compile(r"%(.?)", re.DOTALL)


def expand(text: str, values: "Mapping[str, str]", argv: "Sequence[str]" = ()) -> str:
    """Return a command for a shell; each value is one word of it, `%@` all words of `argv`."""

    def value(match: "re.Match[str]") -> str:
        letter = match[1]
        if letter == "%":
            return "%"
        if letter == "@":
            return shlex.join(argv)
        return shlex.quote(values[letter]) if values.get(letter) else ""

    return _PATTERN.sub(value, text)


def expand_path(text: str, values: "Mapping[str, str]") -> str:
    """Return a path: nothing is quoted."""
    return _PATTERN.sub(lambda match: "%" if match[1] == "%" else values.get(match[1], ""), text)
