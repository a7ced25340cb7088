"""Lay the sources of the documentation's site out: stage_site.py MAN TARGET.

Pages keep the places that they have in the repository, so their links to each other work in both.
MAN is the directory that generate_man.py wrote.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from roff_to_markdown import markdown

REPOSITORY = Path(__file__).resolve().parents[1]
SITE = REPOSITORY / "docs" / "site"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/RESULTS.md", "LICENSE")


def pages() -> list[Path]:
    """Return the pages and pictures of the repository that the site shows, as paths in it."""
    paths = [path for path in REPOSITORY.glob("docs/**/*.md") if path.parent != SITE]
    paths += REPOSITORY.glob("docs/pictures/*.png")
    return [*map(Path, PAGES), *(path.relative_to(REPOSITORY) for path in sorted(paths))]


def main(man: Path, target: Path) -> None:
    """Write everything anew."""
    shutil.rmtree(target, ignore_errors=True)
    for page in pages():
        copy = target / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / page, copy)
    for name in ("index.md", "conf.py"):
        shutil.copyfile(SITE / name, target / name)
    texts = {path.name: path.read_text() for path in sorted(man.glob("man*/*"))}
    (target / "man").mkdir()
    for name, text in texts.items():
        (target / "man" / f"{name}.md").write_text(markdown(name, text, frozenset(texts)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: stage_site.py MAN TARGET")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
