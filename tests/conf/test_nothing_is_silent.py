"""Over the whole tables of keys and words: none without effect is accepted in silence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check, check_warnings
from pyslurm_ng.conf.effects.effect import ACCEPTED, REFUSED, effect_of, word_effect, words_of
from pyslurm_ng.conf.tables import keys
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.tables.options import OPTIONS

_NAMES = "ClusterName=t\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"
FILES = {
    "slurm.conf": ("slurm.conf", _NAMES),
    "NodeName": ("slurm.conf", _NAMES + "NodeName=n2 "),
    "PartitionName": ("slurm.conf", _NAMES + "PartitionName=q Nodes=n1 "),
    "slurmdbd.conf": ("slurmdbd.conf", "StorageType=accounting_storage/sqlite\n"),
    "cgroup.conf": ("cgroup.conf", ""),
    "topology.conf": ("topology.conf", "SwitchName=s Nodes=n1 "),
}
"""The file of each table, and the text before one of its keys."""
NUMBERS = ("int", "seconds", "minutes", "microseconds", "percent", "rate")
VALUES = {"path": "/bin/true", "user": "root", "hostlist": "h2", "duration": "1-0"}


def values_that_ask(key: Key) -> tuple[str, ...]:
    """Return values that differ from the key's default."""
    if key.kind == "bool":
        return ("no" if key.default.lower() in ("1", "yes") else "yes",)
    if key.kind in NUMBERS:
        plain = int(key.default) if key.default.isdecimal() else 0
        near = plain + 1 if plain < key.high else plain - 1
        return (str(near),) if key.low or not plain else (str(near), str(key.low))
    if key.choices:
        return tuple(choice for choice in key.choices if choice != key.default)
    return (VALUES.get(key.kind, "word"),)


def questions() -> Iterator[tuple[str, str, str]]:
    """Yield file, key and value for each value that has no effect by the tables."""
    for section in FILES:
        for key in keys.SECTIONS[section]:
            words = words_of(section, key)
            if not words and effect_of(section, key.name).kind in (ACCEPTED, REFUSED):
                yield from ((section, key.name, value) for value in values_that_ask(key))
            for word in words:
                if word_effect(section, key, word).kind in (ACCEPTED, REFUSED):
                    yield section, key.name, word


def written(word: str, section: str, name: str) -> str:
    """Return a word as a site writes it, with a value of the kind that it takes."""
    for known, kind, *_ in OPTIONS.get(name, ()) if section == "slurm.conf" else ():
        if known == word and kind != "flag":
            return word + ("=1" if "=" not in word else "")
    return word.replace("<", "").replace(">", "").replace("*", "")


@pytest.mark.parametrize(("section", "name", "value"), list(questions()))
def test_a_key_or_word_without_effect_is_named(
    section: str, name: str, value: str, tmp_path: Path
) -> None:
    """By --check and at start, whether it is refused or has no effect."""
    file, before = FILES[section]
    path = tmp_path / file
    text = f"{name}={written(value, section, name)}"
    path.write_text(before + text + "\n")
    said = check(str(path)) or check_warnings(str(path))
    assert [line for line in said if name in line], (text, said)
