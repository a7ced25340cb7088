"""Reports add up the right periods, and show ordinary users what PrivateData leaves them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import NONE, OPERATOR, Actor, RefusedError
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.reports.answers import ReportRequest, report
from pyslurm_ng.dbd.reports.periods_covered import pieces
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.report_messages import ListJobSizes, ListReservationUsage, ListUsage
from tests.cli.accounting.reported_week import MARS, moment, store_week
from tests.dbd.accounting_room import SECOND, utc

START, END = (moment(f"2026-11-{day}T00:00:00") // SECOND for day in ("09", "16"))
GAMES = Actor(5, "games", NONE, frozenset())
OPERATING = Actor(5, "games", OPERATOR, frozenset())
LEADING = Actor(5, "games", NONE, frozenset(("chem",)))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with a week of jobs, added up; tests only read it."""
    patch = pytest.MonkeyPatch()
    utc(patch)
    path = tmp_path_factory.mktemp("week") / "accounting.sqlite"
    database = Database(sqlite_url(str(path)))
    database.open()
    store_week(database)
    yield database
    database.close()
    patch.undo()
    time.tzset()


def shown(
    database: Database, request: ReportRequest, actor: Actor, *private: str
) -> list[tuple[object, ...]]:
    """Return the rows of a report."""
    with database.read() as connection:
        answer = report(connection, request, actor, frozenset(private))
    names = answer.fields  # type: ignore[attr-defined]
    return project(answer.records, range(len(names)))  # type: ignore[attr-defined]


def names_seen(database: Database, actor: Actor, *private: str) -> set[tuple[object, object]]:
    """Return accounts and users of a report."""
    rows = shown(database, ListUsage("association", START, END, ["mars"]), actor, *private)
    return {(row[2], row[3]) for row in rows}


@pytest.mark.parametrize("word", ["users", "usage", "accounts"])
def test_one_sees_oneself_and_the_accounts_above(week: Database, word: str) -> None:
    """As in 22.05 with PrivateData=users."""
    everybody = names_seen(week, GAMES)
    assert ("chem", "bob") in everybody and names_seen(week, OPERATING, word) == everybody
    own = {("root", ""), ("science", ""), ("physics", ""), ("optics", ""), ("optics", "games")}
    assert names_seen(week, GAMES, word) == own
    led = {("chem", ""), ("chem", "alice"), ("chem", "bob")}
    assert names_seen(week, LEADING, word) == own | led


def test_only_operators_see_wckeys(week: Database) -> None:
    """In Slurm's words, which sreport prints."""
    for request in (
        ListUsage("wckey", START, END),
        ListJobSizes(START, END, by_wckey=True),
    ):
        with pytest.raises(RefusedError, match="doesn't have privilege to perform this action"):
            shown(week, request, GAMES)
        assert shown(week, request, OPERATING)


def test_private_jobs_count_for_nobody_else(week: Database) -> None:
    """In job sizes and in reservations, which are still shown."""
    sizes = ListJobSizes(START, END, ["mars"])
    assert {row[1] for row in shown(week, sizes, GAMES, "jobs")} == {"optics"}
    assert len({row[1] for row in shown(week, sizes, GAMES)}) == 4
    reserved = ListReservationUsage(START, END)
    assert [row[9] for row in shown(week, reserved, GAMES, "jobs")] == [{}] * 4
    assert any(row[9] for row in shown(week, reserved, GAMES))
    with pytest.raises(RefusedError, match="Access/permission denied"):
        shown(week, reserved, GAMES, "reservations")


def test_any_span_adds_up_to_its_hours(week: Database) -> None:
    """Months and days are used where they are stored and lie in the span, and nothing twice."""
    rng = random.Random(58)
    first, last = (moment(text) // 3600 // SECOND for text in ("2026-10-26T00:00:00",
                                                              "2026-11-20T00:00:00"))  # fmt: skip
    periods = set()
    for _ in range(60):
        begin, end = sorted(rng.randrange(first, last) * 3600 for _ in range(2))
        with week.read() as connection:
            parts = pieces(connection, MARS, Span(begin, end))
            used = sum(_used(connection, period, span) for period, span in parts)
            assert used == _used(connection, "hour", Span(begin, end)), (begin, end)
        periods |= {period for period, _ in parts}
        assert all(before.end_s == after.start_s for (_, before), (_, after) in pairwise(parts))
    assert periods == {"day", "hour"}
    with week.read() as connection:
        whole = pieces(connection, MARS, Span(first * 3600 - 26 * 86400, last * 3600))
    assert [period for period, _ in whole] == ["day", "month", "day", "hour"]


def _used(connection: sa.Connection, period: str, span: Span) -> int:
    table = schema.association_usage[period]
    query = sa.select(sa.func.sum(table.c.allocated_s)).where(
        table.c.cluster_id == MARS,
        table.c.start_us >= span.start_s * SECOND,
        table.c.start_us < span.end_s * SECOND,
    )
    return int(connection.execute(query).scalar() or 0)
