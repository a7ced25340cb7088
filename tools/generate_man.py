"""Write all manual pages: generate_man.py DIRECTORY."""

from __future__ import annotations

import sys
from pathlib import Path

import command_pages
import conf_pages
import daemon_pages


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit("usage: generate_man.py DIRECTORY")
    pages = {**conf_pages.pages(), **command_pages.pages(), **daemon_pages.pages()}
    for name, page in pages.items():
        path = Path(arguments[0]) / f"man{name[-1]}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.text())


if __name__ == "__main__":
    main(sys.argv[1:])
