"""Collect what is documented of each command: generate_command_facts.py SPEC_DIR.

SPEC_DIR holds one TOML file for each command, with its options, fields and subcommands. What manual
pages and the compatibility table need of them goes to tools/facts/commands.json, which is
committed, so that the project builds without that directory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TARGET = Path(__file__).parent / "facts" / "commands.json"
KEPT = {
    "option": ("long", "short", "arg", "env", "tier", "help"),
    "field": ("name", "letter", "help"),
    "subcommand": ("name", "args", "tier", "help"),
    "show_entity": ("name", "tier", "help"),
    "entity": ("name", "help"),
    "report": ("name", "help"),
}


def trimmed(entries: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {key: entry[key] for key in keys if key in entry}
        for entry in entries
        if entry.get("documented", True)
    ]


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("usage: generate_command_facts.py SPEC_DIR")
    lines = []
    for path in sorted(Path(arguments[0]).glob("*.toml")):
        found = tomllib.loads(path.read_text())
        parts = []
        for kind, keys in KEPT.items():
            entries = trimmed(found.get(kind, []), keys)
            if entries:
                rows = ",\n".join("   " + json.dumps(entry) for entry in entries)
                parts.append(f'  "{kind}": [\n{rows}\n  ]')
        lines.append(f' "{path.stem}": {{\n' + ",\n".join(parts) + "\n }")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
