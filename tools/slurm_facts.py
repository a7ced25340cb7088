"""Read what is documented of Slurm's commands and configuration files: tools/facts.

Each file in `facts/commands` has the options, fields and subcommands of one command; each file in
`facts/config` has the keys of one configuration file. The wording is ours.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FACTS = Path(__file__).resolve().parent / "facts"
# What manual pages and the compatibility table need of each command.
KEPT = {
    "option": ("long", "short", "arg", "env", "tier", "help"),
    "field": ("name", "letter", "help"),
    "subcommand": ("name", "args", "tier", "help"),
    "show_entity": ("name", "tier", "help"),
    "entity": ("name", "help"),
    "report": ("name", "help"),
}


@cache
def command(name: str) -> dict[str, Any]:
    """Return all facts about one command."""
    return tomllib.loads((FACTS / "commands" / f"{name}.toml").read_text())


@cache
def config(name: str) -> dict[str, Any]:
    """Return all facts about one configuration file."""
    return tomllib.loads((FACTS / "config" / f"{name}.toml").read_text())


@cache
def _help() -> dict[str, Any]:
    return tomllib.loads((FACTS / "help.toml").read_text())


def help_sections() -> dict[str, list[str]]:
    """Return the options in each section of the --help of sbatch, salloc and srun but the first."""
    return {title: names.split() for title, names in _help()["sections"].items()}


def argument_name(name: str, option: str) -> str:
    """Return what `--help` of a command calls the argument of an option.

    Raises:
        KeyError: facts/help.toml lacks the option.
    """
    own = _help()["arguments_of"].get(name, {})
    return str(own.get(option) or _help()["arguments"][option])


@cache
def documented() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return command -> kind of entry -> what is documented of each entry, in order of the file."""
    found_facts: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for path in sorted((FACTS / "commands").glob("*.toml")):
        facts = command(path.stem)
        found_facts[path.stem] = {
            kind: entries
            for kind, keys in KEPT.items()
            if (entries := _trimmed(facts.get(kind, []), keys))
        }
    return found_facts


def _trimmed(entries: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {key: entry[key] for key in keys if key in entry}
        for entry in entries
        if entry.get("documented", True)
    ]
