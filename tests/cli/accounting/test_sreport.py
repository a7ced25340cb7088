"""sreport prints what that of Slurm 22.05 printed about the same week of jobs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyslurm_ng.dbd.database import Database, sqlite_url
from tests.cli.accounting.reported_week import recorded_reports, store_week
from tests.cli.accounting_commands import Commands, Printed
from tests.dbd.accounting_room import serving, utc
from tests.dbd.mariadb import Server

THEMES = (
    "utilization", "accounts", "users", "wckeys", "sizes", "reservations", "reserved", "forms",
    "words",
)  # fmt: skip
REPORTS = [(theme, line, printed) for theme in THEMES for line, printed in recorded_reports(theme)]


def asked(line: str) -> tuple[str, ...]:
    """Return what a report asks a database for: all but dates, values and ways to print."""
    words = [word.lower() for word in line.split() if not word.startswith("-")]
    return tuple(word.partition("=")[0] for word in words)


@pytest.fixture(scope="module")
def week_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the week, added up once."""
    patch = pytest.MonkeyPatch()
    utc(patch)
    path = tmp_path_factory.mktemp("week") / "accounting.sqlite"
    database = Database(sqlite_url(str(path)))
    database.open()
    store_week(database)
    database.close()
    patch.undo()
    return path


@contextmanager
def serving_week(database: Database, folder: Path) -> Iterator[Path]:
    """Run a slurmdbd with the week; give the slurm.conf of cluster mars."""
    with serving(database, folder) as room:
        text = room.conf_path.read_text().replace("ClusterName=demo", "ClusterName=mars")
        room.conf_path.write_text(text)
        yield room.conf_path


@pytest.fixture(scope="module")
def conf_path(week_file: Path) -> Iterator[Path]:
    """A slurmdbd with the week, and the slurm.conf of cluster mars."""
    database = Database(sqlite_url(str(week_file)))
    database.open()
    with serving_week(database, week_file.parent) as path:
        yield path
    database.close()


@pytest.fixture
def commands(
    conf_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    return Commands(conf_path, monkeypatch, capfd)


def newer(line: str, printed: Printed) -> Printed:
    """Return what 26.11 prints where it is known to differ from 22.05."""
    stderr = printed.stderr.replace(
        '"AccountUtilizationByUser", ', '"AccountUtilizationByUser", "AccountUtilizationByQOS", '
    )
    stdout = printed.stdout
    if "cluster utilization" in line and "all" in line.lower().split():
        # The time of whole nodes is no longer among that of a cluster.
        lines = stdout.splitlines(keepends=True)
        stdout = "".join(text for text in lines if "node" not in text.replace("|", " ").split())
    return Printed(stdout, stderr, printed.code)


def older(line: str, text: str) -> str:
    """Return a report of job sizes without the column `Total Count`, which 22.05 does not have."""
    if not line.startswith("sreport job"):
        return text
    kept = []
    for row in text.splitlines(keepends=True):
        if row.startswith(("Job Sizes", "Time", "TRES", "Units")) or not row.strip("-\n"):
            kept.append(row)
        elif "|" in row:
            cells = row.rstrip("\n").split("|")
            del cells[-3 if not cells[-1] else -2]
            kept.append("|".join(cells) + "\n")
        else:
            kept.append(row[:-26] + row[-14:])
    return "".join(kept)


@pytest.mark.parametrize(
    ("line", "printed"), [pytest.param(*rest, id=f"{theme}: {rest[0]}") for theme, *rest in REPORTS]
)
def test_reports_are_those_of_slurm(line: str, printed: Printed, commands: Commands) -> None:
    ours = commands.run(*line.split())
    expected = newer(line, printed)
    assert older(line, ours.stdout) == expected.stdout
    assert (ours.stderr, ours.code) == (expected.stderr, expected.code)


@pytest.fixture
def mariadb_week() -> Iterator[Database]:
    """The week in a MariaDB."""
    server = Server("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")
    database = Database(server.url("week"))
    database.open()
    store_week(database)
    yield database
    database.close()
    server.remove()


def test_reports_are_the_same_with_mariadb(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """One of each kind, in one test: a server is slow to start, and each has a test above."""
    utc(monkeypatch)
    chosen = {asked(line): (line, printed) for _, line, printed in REPORTS}
    assert len(chosen) > 100
    with serving_week(request.getfixturevalue("mariadb_week"), tmp_path) as path:
        commands = Commands(path, monkeypatch, capfd)
        different = [
            line
            for line, printed in chosen.values()
            if older(line, commands.run(*line.split()).stdout) != newer(line, printed).stdout
        ]
    assert different == []


def test_reports_by_wckey_name_no_other_word(commands: Commands) -> None:
    """Seen in 22.05, whose other reports say what sets a value."""
    printed = commands.run("sreport", "cluster", "UserUtilizationByWckey", "accounts=chem")
    assert (printed.stderr, printed.code) == (" Unknown condition: accounts=chem\n", 1)


def test_clusters_have_rows_of_what_they_have(commands: Commands) -> None:
    """Seen in 22.05: no row of GPUs for a cluster that has none; energy is counted everywhere."""
    words = "start=2026-11-09 end=2026-11-16"
    line = f"sreport -nP -M mars,venus -T cpu,energy,gres/gpu cluster utilization {words}"
    printed = commands.run(*line.split())
    assert [row.split("|")[:2] for row in printed.stdout.splitlines()] == [
        ["mars", "cpu"], ["mars", "energy"], ["mars", "gres/gpu"],
        ["venus", "cpu"], ["venus", "energy"],
    ]  # fmt: skip


def test_federations_have_this_cluster_only(commands: Commands) -> None:
    """There are none, so both words mean the cluster of slurm.conf."""
    words = ("cluster", "Utilization", "start=2026-11-09", "end=2026-11-16", "-nP")
    plain = commands.run("sreport", *words)
    assert plain.stdout.startswith("mars|") and plain.stdout.count("\n") == 1
    assert commands.run("sreport", "--federation", *words) == plain
    assert commands.run("sreport", "--local", *words) == plain


def test_usage_by_qos_adds_up_to_that_of_accounts(commands: Commands) -> None:
    """Below each account stand the QOS of all that is below it."""
    words = ("start=2026-11-09", "end=2026-11-12", "-nP", "-t", "s", "-M", "mars")
    printed = commands.run("sreport", "cluster", "AccountUtilizationByQOS", *words)
    by_qos: dict[str, int] = {}
    sums = {}
    for line in printed.stdout.splitlines():
        _, account, qos, used, _ = line.split("|")
        if qos:
            by_qos[account] = by_qos.get(account, 0) + int(used)
        else:
            sums[account] = int(used)
    assert sums == by_qos and len(sums) == 7
    accounts = commands.run("sreport", "cluster", "AccountUtilizationByUser", *words)
    rows = [line.split("|") for line in accounts.stdout.splitlines()]
    assert sums == {row[1]: int(row[4]) for row in rows if not row[2]}


def test_a_session_reads_commands(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """As recorded of 22.05: lines are repeated, `!!` runs the last one, an error is remembered."""
    lines = (
        "cluster utilization start=2026-11-09 end=2026-11-10\n!!\ntime hours\nparsable\n"
        "cluster utilization start=2026-11-09 end=2026-11-10\nfrob\nuser\nquit\nversion\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    printed = commands.run("sreport", "-n")
    row = "     mars    15204        0        0    76020      936    92160 \n"
    asked = "sreport: cluster utilization start=2026-11-09 end=2026-11-10\n"
    assert printed.stdout == (
        f"{asked}{row}sreport: !!\n{row}sreport: time hours\nsreport: parsable\n"
        f"{asked}mars|253|0|0|1267|16|1536|\nsreport: frob\nsreport: user\nsreport: quit\n"
    )
    assert printed.stderr == "invalid keyword: frob\ntoo few arguments for keyword:user\n"
    assert printed.code == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-T frob cluster Utilization", "sreport: fatal: No valid TRES given\n"),
        ("job Sizes grouping=5,x", "sreport: error: Invalid size in grouping: 'x'\n"),
        ("-t percent -T node,cpu job Sizes", "sreport: fatal: TRES node usage is no longer "
         "reported in percent format reports.  Please use TRES CPU instead.\n"),
        ("job Sizes nodes=n[1-", "sreport: error: Invalid hostlist: n[1-: '[' without ']'\n"),
        ("-a --local user Top", "Only one cluster option can be used (--all_clusters OR --cluster "
         "OR --local)\n"),
        ("--json user Top", "sreport: unrecognized option '--json'\nTry \"sreport --help\" for "
         "more information\n"),
    ],
)  # fmt: skip
def test_bad_words_cost_one_line(commands: Commands, words: str, text: str) -> None:
    printed = commands.run("sreport", *words.split())
    assert (printed.stdout, printed.stderr, printed.code) == ("", text, 1)


def test_what_means_nothing_is_said_and_the_rest_is_shown(commands: Commands) -> None:
    """As in 22.05: a bad unit, time or number does not keep a report from being printed."""
    words = ("cluster", "utilization", "end=2026-11-16", "-nP", "-t", "bad")
    printed = commands.run("sreport", *words, "start=2026-11-09")
    assert printed == Printed(
        "mars|88914|4328|1920|536544|13414|645120\n", "unknown time format bad\n", 0
    )
    printed = commands.run("sreport", "user", "top", "start=xyz", "topcount=x", "-nP")
    assert printed.code == 1 and printed.stderr == (
        "Invalid time specification (pos=0): xyz\nsreport: error: Invalid value for TopCount (x)\n"
    )


def test_long_options_mean_what_letters_mean(commands: Commands) -> None:
    """-p and -P, -Q and -v, which change nothing here, and the order of users by name."""
    week = ("user", "TopUsage", "start=2026-11-09", "end=2026-11-16", "-n")
    bars = commands.run("sreport", "-nP", *week)
    ended = commands.run("sreport", "--parsable", *week)
    assert ended.stdout == bars.stdout.replace("\n", "|\n") and bars.stdout.count("|") == 8 * 5
    assert commands.run("sreport", "--quiet", "--verbose", "-P", *week) == bars
    by_name = commands.run("sreport", "--sort", "name", "-P", *week).stdout.splitlines()
    names = [line.split("|")[1] for line in by_name]
    assert names == sorted(names) and sorted(by_name) == sorted(bars.stdout.splitlines())
