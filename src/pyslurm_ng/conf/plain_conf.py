"""Reading of files in which a key stands once: cgroup.conf and slurmdbd.conf."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.conf.effects.effect import gaps, refusals
from pyslurm_ng.conf.lexer import ConfErrors, ConfText, Entry
from pyslurm_ng.conf.old_words import with_todays_words
from pyslurm_ng.conf.out_of_bounds import within_bounds
from pyslurm_ng.conf.schema import Table, default_value
from pyslurm_ng.conf.values import BadValue, convert


def read_keys(
    text: ConfText, table: Table, file_name: str, removed: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Entry], tuple[str, ...]]:
    """Return values by attribute, the place of each key, and warnings; errors stay in ``text``.

    Args:
        removed: lower-case names that older releases knew, with a hint or "".
    """
    values = table.defaults()
    given_entries: dict[str, Entry] = {}
    warnings: list[str] = []
    effects: dict[str, list[str]] = {}  # warnings about what the entry that counts does
    for entry in (entry for line in text.lines for entry in line):
        entry = within_bounds(text, table.section, with_todays_words(text, table.section, entry))
        key = table.find(entry.key)
        where = f"{entry.file}:{entry.line}: {entry.key}"
        if key is None:
            hint = removed.get(entry.key.lower())
            if hint is None:
                text.fail(entry, f"unknown key in {file_name}{table.suggest(entry.key)}")
            else:
                warnings.append(f"{where}: no longer exists and is ignored{hint and '; ' + hint}")
            continue
        try:
            values[key.attribute] = convert(key, entry.value)
        except BadValue as error:
            text.fail(entry, str(error))
            continue
        if key.name in given_entries:
            warnings = [line for line in warnings if line not in effects[key.name]]
            warnings.append(
                f"{where}: also in line {given_entries[key.name].line}; this one counts"
            )
        given_entries[key.name] = entry
        effects[key.name] = gaps(table.section, key, entry, values[key.attribute])
        warnings += effects[key.name]
        if values[key.attribute] != default_value(key):
            text.errors += refusals(table.section, key, entry, values[key.attribute])
    return values, given_entries, (*warnings, *text.warnings)


def raise_errors(text: ConfText) -> None:
    """Raise all errors of a text, if it has any.

    Raises:
        ConfErrors: with every problem found.
    """
    if text.errors:
        raise ConfErrors(sorted(text.errors, key=lambda error: error.line))
