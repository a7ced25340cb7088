"""`pyslurm-ng report`: a week whose sums sreport prints, on a page that needs nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.report.page import page
from pyslurm_ng.report.sums import MOST_PIECES, Day, Report, Span
from pyslurm_ng.up.__main__ import main
from tests.cli.accounting.reported_week import store_week
from tests.dbd.accounting_room import Room, serving, utc

WEEK = ("--start", "2026-11-09", "--end", "2026-11-16")
EVIL = "<script>alert('$x$')</script>"


class Reader(HTMLParser):
    """Reads a page: what it loads, its elements, ids and table cells."""

    EMPTY = frozenset({"meta", "path", "use", "br", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    patch = pytest.MonkeyPatch()
    utc(patch)
    directory = tmp_path_factory.mktemp("r")
    database = Database(sqlite_url(f"{directory}/a.sqlite"))
    database.open()
    store_week(database)
    with serving(database, directory) as served:
        yield served
    database.close()
    patch.undo()


def run(room: Room, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("SLURM_CONF", str(room.conf_path))
    utc(monkeypatch)
    return main(["report", *words])


def test_a_week_on_a_page(room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All sections, a table for each plot, and no address of anything outside."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "week.html"
    assert run(room, monkeypatch, *WEEK, "--cluster", "mars", "-o", str(path)) == 0
    text = path.read_text()
    reader = Reader(text)
    assert not reader.open
    assert reader.names.count("table") == reader.names.count("svg") >= 4
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link|<img", text)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert "alice" in reader.cells and "chem" in reader.cells
    assert "2026-11-09" in reader.cells and "2026-11-16" not in reader.cells
    assert "var(--first)" in text and "currentColor" in text and "#01020" not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_nobody_waits_for_the_report_in_a_shared_folder(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file, link or pipe that another user made beforehand gets nothing of it."""
    pytest.importorskip("matplotlib")
    path, seen = tmp_path / "week.html", tmp_path / "seen"
    seen.touch(mode=0o666)
    os.link(seen, tmp_path / ".week.html.new")
    assert run(room, monkeypatch, *WEEK, "--cluster", "mars", "-o", str(path)) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_ino != seen.stat().st_ino and not seen.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"week.html", "seen", ".week.html.new"}


def test_the_calendar_may_end_with_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    utc(monkeypatch)
    span = Span(86_400, int(datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp()))
    pieces = span.pieces()
    assert (pieces[0].start_s, pieces[-1].end_s) == (span.start_s, span.end_s)
    assert len(pieces) <= MOST_PIECES + 1
    assert all(before.end_s == after.start_s for before, after in pairwise(pieces))


def test_names_are_text(room: Room) -> None:
    """Names of users and accounts reach neither the page nor a formula as anything but text."""
    plots = pytest.importorskip("pyslurm_ng.report.plots")
    report = Report("demo", Span(0, 86_400))
    report.days.append(Day(Span(0, 86_400), 0.5, 0.1, 2.0))
    for used in (report.user(EVIL), report.account(EVIL), report.user("a\x1b]0;b\n日本")):
        used.cpu_s, used.gpu_s, used.core_s, used.busy_s = 10, 3600, 100, 50
    report.shares[EVIL] = 1.0
    text = page(report, plots.Plots())
    reader = Reader(text)
    assert "script" not in reader.names and "\x1b" not in text
    assert EVIL in reader.cells
    assert "50.0%" in reader.cells


def test_waits_are_told_apart() -> None:
    report = Report("demo", Span(0, 86_400), waits_s=[0, 60, 61, 4000, 10**6])
    assert dict(report.wait_classes()) == {
        "1 min": 2, "10 min": 1, "1 h": 0, "6 h": 1, "1 day": 0, "longer": 1,
    }  # fmt: skip
    assert (report.wait_s(0.5), report.wait_s(1.0)) == (61, 10**6)
    assert Report("demo", Span(0, 1)).wait_s(0.5) == 0


def test_long_times_have_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A year is cut into pieces of several whole days, without a gap between them."""
    utc(monkeypatch)
    for days in (1, 30, 365, 4000):
        span = Span(3600, 3600 + days * 86_400)
        pieces = span.pieces()
        assert len(pieces) <= 63
        assert (pieces[0].start_s, pieces[-1].end_s) == (span.start_s, span.end_s)
        assert all(a.end_s == b.start_s for a, b in pairwise(pieces))
        assert all(piece.start_s % 86_400 == 0 for piece in pieces[1:])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--start", "2026-11-09", "--end", "2026-11-09"), "--start must be before --end"),
        (("--start", "sometime"), "--start sometime: "),
        (("--cluster", "nowhere", *WEEK), "cluster nowhere is not known to slurmdbd"),
    ],
)
def test_bad_words_are_one_line(
    room: Room,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
    told: str,
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.html"
    assert run(room, monkeypatch, *words, "-o", str(path)) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not path.exists()


def test_without_the_library_its_name_is_told(
    room: Room,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "pyslurm_ng.report.plots", raising=False)
    assert run(room, monkeypatch, "-o", str(tmp_path / "x.html")) == 2
    assert "pip install 'pyslurm-ng[report]'" in capsys.readouterr().err
