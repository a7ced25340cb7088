"""Write the committed modules of tables from tools/facts: generate_tables.py.

Nothing reads the facts when the project is built or run; a test compares the committed modules
with what the facts give.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import accounting_tables
import command_texts
import conf_tables
import option_purposes
import option_tables


def modules() -> dict[Path, str]:
    """Return every generated module's text by path, not formatted yet."""
    return {
        **accounting_tables.modules(),
        **command_texts.modules(),
        **conf_tables.modules(),
        **option_purposes.modules(),
        **option_tables.modules(),
    }


def main() -> None:
    """Write and format them."""
    texts = modules()
    for path, text in texts.items():
        path.write_text(text)
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-q", *map(str, texts)],
        check=True,
    )


if __name__ == "__main__":
    main()
