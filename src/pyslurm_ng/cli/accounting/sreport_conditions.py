"""What follows the name of a report on sreport's command line: conditions and flags."""

from pyslurm_ng.cli.command import say, split_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_ALL = ("all_clusters", "clusters", "end", "format", "start")
KEYS = {
    "utilization": _ALL,
    "association": (*_ALL, "accounts", "tree", "users"),
    "wckey": (*_ALL, "users", "wckeys"),
    "job": (
        *_ALL, "accounts", "acctasparent", "flatview", "gid", "grouping", "jobs", "nodes",
        "partitions", "printjobcount", "users", "wckeys",
    ),
    "reservation": (*_ALL, "names", "nodes"),
    "user": (*_ALL, "accounts", "group", "topcount", "users"),
}  # fmt: skip
"""The conditions that each kind of report takes."""
FLAGS = frozenset(("all_clusters", "tree", "acctasparent", "flatview", "printjobcount", "group"))
_NAMES = {"utilization": "clusters", "job": "accounts", "reservation": "names"}
"""What words without a key are names of; of users if a report is not listed."""
_ALIASES = {"accts": "accounts"}


class Conditions:
    """The conditions of a report.

    Attributes:
        is_good: False if a word meant nothing.
    """

    def __init__(self, kind: str, words: "Iterable[str]") -> None:
        self._texts: dict[str, list[str]] = {}
        self.is_good = True
        for word in words:
            key, equals, value = word.partition("=")
            if not equals:
                self._take_word(kind, word)
                continue
            meant = _key(kind, key)
            if not meant or meant in FLAGS:
                hint = "" if kind == "wckey" else "\nUse keyword set to modify value"
                say(f" Unknown condition: {word}{hint}")
                self.is_good = False
                continue
            self._texts.setdefault(meant, []).append(_unquoted(value))

    def _take_word(self, kind: str, word: str) -> None:
        if word.lower() in ("where", "set"):
            return
        flag = _key(kind, word) if len(word) > 1 else ""
        if flag in FLAGS:
            self._texts[flag] = [""]
        else:
            self._texts.setdefault(_NAMES.get(kind, "users"), []).append(word)

    def __contains__(self, key: str) -> bool:
        return key in self._texts

    def texts(self, key: str) -> "list[str]":
        """Return the value of each time that a key was given."""
        return self._texts.get(key, [])

    def last(self, key: str) -> str:
        """Return a key's last value, "" without one."""
        return self.texts(key)[-1] if key in self._texts else ""

    def names(self, key: str) -> "list[str]":
        """Return the words of a key's comma lists."""
        return [name for text in self.texts(key) for name in split_list(text)]

    def lowered(self, key: str) -> "frozenset[str]":
        """Return names that are the same in either case."""
        return frozenset(name.lower() for name in self.names(key))


def _key(kind: str, word: str) -> str:
    """Return the key that a word or its beginning means, "" if there is none."""
    lowered = word.lower()
    if not lowered:
        return ""
    for key in KEYS[kind]:
        if key.startswith(lowered):
            return key
    for alias, key in _ALIASES.items():
        if alias.startswith(lowered) and key in KEYS[kind]:
            return key
    return ""


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
