"""Lines of entries to typed values, by the tables of keys. Errors and warnings name the line."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyslurm_ng.conf.effects.effect import note_gaps
from pyslurm_ng.conf.lexer import ConfText, Entry
from pyslurm_ng.conf.old_words import with_todays_words
from pyslurm_ng.conf.out_of_bounds import within_bounds
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.values import BadValue, convert

_EMPTY_TUPLE_KINDS = frozenset(
    "list options words lower_words plugins paths frequencies hosts codes licenses gres".split()
)
_NUMBER_KINDS = frozenset(
    "int seconds minutes microseconds mem_mib percent duration duration_s rate limit_min "
    "count".split()
)


class Table:
    """The keys of one kind of line with their default values; case does not matter."""

    def __init__(
        self, keys: tuple[Key, ...], section: str, aliases: dict[str, str] | None = None
    ) -> None:
        """Keep the keys by name; `section` is the file or kind of line in the tables of effects."""
        self.keys = keys
        self.section = section
        self._by_name = {key.name.lower(): key for key in keys}
        for alias, name in (aliases or {}).items():
            self._by_name[alias.lower()] = self._by_name[name.lower()]

    def find(self, name: str) -> Key | None:
        """Return the key with this name or alias."""
        return self._by_name.get(name.lower())

    def defaults(self) -> dict[str, Any]:
        """Return a fresh dict of default values by attribute."""
        return {key.attribute: default_value(key) for key in self.keys}

    def suggest(self, name: str) -> str:
        """Return a hint for an unknown key: the nearest known one, if any is near."""
        # Imported here because only a faulty configuration needs it.
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), self._by_name, n=1, cutoff=0.75)
        return f"; did you mean {self._by_name[near[0]].name}" if near else ""


@cache
def default_value(key: Key) -> Any:
    """Return the value of a key that no line gives."""
    if key.default == "":
        if key.kind == "bool":
            return False
        if key.kind == "purge":
            return (0, "")
        if key.kind in _EMPTY_TUPLE_KINDS:
            return ()
        return 0 if key.kind in _NUMBER_KINDS else ""
    return convert(key, key.default)


def read_line(
    text: ConfText,
    entries: list[Entry],
    table: Table,
    what: str,
) -> dict[str, tuple[Any, Entry]]:
    """Return attribute -> (value, entry) of one line; problems go to ``text.errors``.

    Args:
        what: the file or kind of line, for the text about an unknown key.
    """
    values: dict[str, tuple[Any, Entry]] = {}
    for entry in entries:
        entry = with_todays_words(text, table.section, entry)
        entry = within_bounds(text, table.section, entry)
        key = table.find(entry.key)
        if key is None:
            text.fail(entry, f"unknown key in {what}{table.suggest(entry.key)}")
            continue
        if key.attribute in values:
            text.warn(entry, "given twice in this line; the last one counts")
        try:
            values[key.attribute] = (convert(key, entry.value), entry)
        except BadValue as error:
            text.fail(entry, str(error))
            continue
        note_gaps(text, table.section, key, entry, values[key.attribute][0])
    return values
