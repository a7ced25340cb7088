"""Read what people write for the manual pages: man/NAME.SECTION.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCES = Path(__file__).resolve().parents[1] / "man"


def source(page: str) -> dict[str, Any]:
    """Return the source of a page such as `sbatch.1`."""
    return tomllib.loads((SOURCES / f"{page}.toml").read_text())


def names(section: int) -> list[str]:
    """Return the names of all pages of a section that have a source."""
    end = f".{section}.toml"
    return sorted(path.name.removesuffix(end) for path in SOURCES.glob(f"*{end}"))


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line; an empty line begins the next one."""
    return [" ".join(part.split()) for part in text.strip().split("\n\n")]
