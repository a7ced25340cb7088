"""`make soak` runs every test that is marked so, in one of its parts."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_soak_test_belongs_to_one_part() -> None:
    """A test in no part would never run, and nobody would notice."""
    lines = re.findall(r"^SOAK_([a-z]+) := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    parts = {name: paths.split() for name, paths in lines}
    assert all((ROOT / path).exists() for paths in parts.values() for path in paths)
    marked = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark." + "soak" in path.read_text()
    ]
    assert len(marked) > 10
    homes = {
        name: [
            part
            for part, paths in parts.items()
            if any(name == path or name.startswith(f"{path}/") for path in paths)
        ]
        for name in marked
    }
    assert {name: part for name, part in homes.items() if len(part) != 1} == {}
