"""The rows of the compatibility table, from the tables that commands and daemons act by.

A row of `same` is proven by a test that tests/compat/proofs.toml names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from command_pages import FACTS
from option_status import (
    difference,
    recorded_options,
    refused_options,
    refused_words,
    sacctmgr_words,
    without_effect,
)
from slurm_facts import command

from pyslurm_ng.cli.differences import SACCTMGR
from pyslurm_ng.conf.effects import limits
from pyslurm_ng.conf.effects.effect import SAME, effect_of, word_effect, words_of
from pyslurm_ng.conf.tables import keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
CLI = ROOT / "src" / "pyslurm_ng" / "cli"
PROOFS = ROOT / "tests" / "compat" / "proofs.toml"


class Row(NamedTuple):
    """`part` is a command, a file or a kind of line; `name` is as the table shows it.

    `kind` is same, differs, accepted, refused or planned; `why` says what of it.
    """

    part: str
    name: str
    kind: str
    why: str = ""
    help: str = ""

    @property
    def key(self) -> str:
        """The row's name among the proofs: the long option, the key or Key=word."""
        return self.name.rpartition(" ")[2] if self.name.startswith("-") else self.name


def proofs() -> dict[str, dict[str, str]]:
    """Return by part and key the test that proves a row."""
    return {
        part: {key: test for test, keys_ in by_test.items() for key in keys_}
        for part, by_test in tomllib.loads(PROOFS.read_text()).items()
    }


def state_of(row: Row) -> str:
    """Return what the table says of a row."""
    return f"{row.kind}: {row.why}" if row.why else row.kind


def command_rows(name: str) -> Iterator[Row]:
    """Yield a row for each option and word of a command."""
    if not (CLI / f"{name.replace('-', '_')}.py").exists():
        yield Row(name, name, "planned")
        return
    refused, recorded = refused_options(name), recorded_options(name)
    for option in FACTS[name].get("option", []):
        long = option["long"]
        tag = f"-{option['short']} --{long}" if option.get("short") else f"--{long}"
        kind, why = SAME, difference(name, long)
        if long in refused:
            kind, why = "refused", ""
        elif long in recorded:
            kind, why = "accepted", recorded[long]
        elif long in without_effect(name):
            kind, why = "accepted", ""
        elif why:
            kind = "differs"
        yield Row(name, tag, kind, why, option.get("help", ""))
    yield from word_rows(name)


def word_rows(command: str) -> Iterator[Row]:
    """Yield rows of the words that a command takes behind its options."""
    if command == "sacctmgr":
        for words, works in sacctmgr_words():
            why = SACCTMGR.get(words, "")
            here = "differs" if why else SAME
            yield Row(command, words, here if works else "refused", why if works else "")
        yield from limit_rows()
        return
    refused = refused_words(command)
    for kind, lead in (("subcommand", ""), ("show_entity", "show ")):
        for word in FACTS[command].get(kind, []):
            here, why = SAME, difference(command, word["name"], is_word=not lead)
            if word["name"] in refused:
                here, why = "refused", ""
            elif why:
                here = "differs"
            yield Row(command, lead + word["name"], here, why, word.get("help", ""))


def limit_rows() -> Iterator[Row]:
    """Yield rows of the limits of associations and QOS, flags of QOS, and TRES of limits."""
    facts = command("sacctmgr")
    for limit in facts["limit"]:
        name = limit["name"]
        here = SAME if name in limits.LIMITS.same else "accepted"
        yield Row("sacctmgr", f"limit {name}", here, help=limit["help"])
    for flag in facts["qos_flag"]:
        name = flag["name"]
        here = SAME if name in limits.FLAGS.same else "accepted"
        yield Row("sacctmgr", f"QOS flag {name}", here, help=flag["help"])
    for name in sorted({*limits.TRES.same, *limits.TRES.accepted}):
        here = SAME if name in limits.TRES.same else "accepted"
        yield Row("sacctmgr", f"limits on {name}", here, limits.TRES.accepted.get(name, ""))


def key_rows(section: str) -> Iterator[Row]:
    """Yield a row for each key of a file or kind of line, and for each word of different effect."""
    for key in keys.SECTIONS[section]:
        yield Row(section, key.name, *effect_of(section, key.name), key.help)
        for word in words_of(section, key):
            yield Row(section, f"{key.name}={word}", *word_effect(section, key, word))


def every_row() -> Iterator[Row]:
    """Yield every row there is."""
    for name in FACTS:
        yield from command_rows(name)
    for section in keys.SECTIONS:
        yield from key_rows(section)
