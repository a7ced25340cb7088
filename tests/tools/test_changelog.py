"""Fragments of the changelog are such as a release can collect."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["towncrier"]
LONGEST = 2000  # characters: what is longer is a page of the documentation


def test_fragments_have_a_known_kind_and_plain_text() -> None:
    """towncrier leaves a fragment of an unknown kind out, and nobody notices."""
    kinds = {kind["directory"] for kind in SETTINGS["type"]}
    assert kinds == {"breaking", "feature", "fix", "compat", "perf", "doc"}
    for path in (REPOSITORY / SETTINGS["directory"]).iterdir():
        if path.name in SETTINGS["ignore"]:
            continue
        slug, kind, ending = path.name.split(".")
        assert slug, path.name
        assert kind in kinds, path.name
        assert ending == "md", path.name
        text = path.read_text().strip()
        assert 0 < len(text) <= LONGEST, path.name
        assert not text.startswith(("#", "- ", "* ")), path.name


def test_a_release_has_its_place_in_the_changelog() -> None:
    """New releases are put behind this line; without it towncrier puts them at the top."""
    text = (REPOSITORY / SETTINGS["filename"]).read_text()
    assert text.count(SETTINGS["start_string"]) == 1
