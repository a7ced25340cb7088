"""What a key or word does here, and the lines that name keys and words without effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.conf.effects.key_tables import Keys, Words
from pyslurm_ng.conf.effects.other_files import FILES
from pyslurm_ng.conf.effects.slurm_conf import (
    CLUSTER,
    DOWN_NODES,
    NODE,
    NODE_SET,
    PARTITION,
    POWER_ACTION,
)
from pyslurm_ng.conf.effects.words import (
    ACCT_GATHER_WORDS,
    BURST_BUFFER_WORDS,
    DBD_WORDS,
    GRES_WORDS,
    NODE_WORDS,
    PARTITION_WORDS,
    SLURM_WORDS,
)
from pyslurm_ng.conf.lexer import ConfError, ConfText, Entry
from pyslurm_ng.conf.tables.key import Key
from pyslurm_ng.conf.tables.options import OPTIONS

SAME = "same"
DIFFERS = "differs"
ACCEPTED = "accepted"
REFUSED = "refused"

SECTIONS: dict[str, Keys] = {
    "slurm.conf": CLUSTER,
    "NodeName": NODE,
    "PartitionName": PARTITION,
    "NodeSet": NODE_SET,
    "DownNodes": DOWN_NODES,
    "PowerAction": POWER_ACTION,
    **FILES,
}
"""The table of each file, and of each kind of line in slurm.conf."""
_WORDS: dict[str, dict[str, Words]] = {
    "slurm.conf": SLURM_WORDS,
    "NodeName": NODE_WORDS,
    "PartitionName": PARTITION_WORDS,
    "slurmdbd.conf": DBD_WORDS,
    "gres.conf": GRES_WORDS,
    "acct_gather.conf": ACCT_GATHER_WORDS,
    "burst_buffer.conf": BURST_BUFFER_WORDS,
}
_NOTHING = ("", "0", "no")
"""Default values that turn nothing on."""
_LISTS = frozenset(("frequencies", "list", "options", "plugins"))


class Effect(NamedTuple):
    """`kind` is SAME, DIFFERS, ACCEPTED (without effect) or REFUSED; `why` may be empty."""

    kind: str
    why: str = ""


def effect_of(section: str, key: str) -> Effect:
    """Return what a key does; a key that no table names has no effect."""
    effects = SECTIONS[section]
    if key in effects.same:
        return Effect(SAME)
    if key in effects.differs:
        return Effect(DIFFERS, effects.differs[key])
    if key in effects.refused:
        return Effect(REFUSED, effects.refused[key])
    return Effect(ACCEPTED, effects.accepted.get(key, ""))


def word_effect(section: str, key: Key, word: str) -> Effect:
    """Return what a word of a key does; if the key has no table of words, what the key does."""
    words = _WORDS.get(section, {}).get(key.name)
    if words is None:
        key_effect = effect_of(section, key.name)
        return key_effect if key_effect.kind != DIFFERS else Effect(SAME)
    name = plain_word(key, word)
    if name in words.same:
        return Effect(SAME)
    for kind, table in (
        (DIFFERS, words.differs),
        (REFUSED, words.refused),
        (ACCEPTED, words.accepted),
    ):
        if name in table:
            return Effect(kind, table[name])
    return Effect(ACCEPTED)


def words_of(section: str, key: Key) -> tuple[str, ...]:
    """Return the words of a key that need a row each because their effects differ."""
    if section == "slurm.conf" and key.name in OPTIONS:
        return tuple(name for name, *_ in OPTIONS[key.name])
    if key.name in _WORDS.get(section, {}):
        return key.choices
    is_used = effect_of(section, key.name).kind in (SAME, DIFFERS)
    return key.choices if is_used and key.kind in _LISTS else ()


def plain_word(key: Key, word: str) -> str:
    """Return a word as the tables have it: lower case, no value, no kind of plugin before it."""
    name = word.strip().partition("=")[0].lower()
    return name.rpartition("/")[2] if key.kind in ("plugin", "plugins", "mpi") else name


def gaps(section: str, key: Key, entry: Entry, value: Any) -> list[str]:
    """Return a line for a key or each of its words that has no effect.

    A default that turns nothing on, such as none or NO, is not named.
    """
    if _asks_nothing(key, value):
        return []
    key_effect = effect_of(section, key.name)
    if not words_of(section, key) or (key_effect.kind == ACCEPTED and key.kind not in _LISTS):
        return [_gap(entry, key.name, key_effect.why)] if key_effect.kind == ACCEPTED else []
    lines = []
    for word in _words(key, entry):
        effect = word_effect(section, key, word)
        if key.kind == "frequencies" and word.partition("=")[2] == "0":
            continue  # nothing is sampled, which is so
        if effect.kind == ACCEPTED and _is_known(section, key, word):
            why = effect.why or key_effect.why
            lines.append(_gap(entry, f"{key.name}={word.partition('=')[0]}", why))
    return lines


def refusals(section: str, key: Key, entry: Entry, value: Any) -> list[ConfError]:
    """Return an error for a key or word whose promise is not kept here."""
    if _asks_nothing(key, value):
        return []
    key_effect = effect_of(section, key.name)
    if key_effect.kind == REFUSED:
        return [_refusal(entry, f"{entry.value} is refused", key_effect.why)]
    return [
        _refusal(entry, f"{word} is refused", effect.why)
        for word in _words(key, entry)
        if (effect := word_effect(section, key, word)).kind == REFUSED
    ]


def note_gaps(text: ConfText, section: str, key: Key, entry: Entry, value: Any) -> None:
    """Add keys without effect to a file's warnings, each key of repeated lines once."""
    for line in gaps(section, key, entry, value):
        gap = line.partition(": ")[2]
        if (section, gap) not in text.named:
            text.named.add((section, gap))
            text.warnings.append(line)


def _gap(entry: Entry, name: str, why: str) -> str:
    tail = f": {why}" if why else " yet"
    return f"{entry.file}:{entry.line}: {name} has no effect in pyslurm-ng{tail}"


def _refusal(entry: Entry, text: str, why: str) -> ConfError:
    return ConfError(entry.file, entry.line, entry.key, f"{text}: {why}" if why else text)


def _asks_nothing(key: Key, value: Any) -> bool:
    """Return whether a value turns its key off. 0 does so only if the default turns nothing on."""
    if not value:
        return key.default.lower() in _NOTHING
    return value in (NO_VAL, INFINITE)


def _words(key: Key, entry: Entry) -> Iterable[str]:
    if key.kind not in _LISTS:
        return (entry.value.strip(),)
    return tuple(word.strip() for word in entry.value.split(",") if word.strip())


def _is_known(section: str, key: Key, word: str) -> bool:
    """Return whether a word is one of Slurm's; other words are named as unknown."""
    name = plain_word(key, word)
    return any(
        name == known or (mark in known and name.startswith(known.partition(mark)[0]))
        for known in (plain_word(key, known_word) for known_word in words_of(section, key))
        for mark in ("*", "<")
    )
