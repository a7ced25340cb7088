"""`sacctmgr modify job`: what may be said about jobs, and by whom, in the words of 22.05."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from pyslurm_ng.base.sluid import sluid_number, sluid_text
from pyslurm_ng.dbd import history_rows, schema
from pyslurm_ng.dbd.admin import jobs
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.columns import TEXT_CHARACTERS
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.model import events as ev
from tests.dbd.accounting_room import (
    OpenStore,
    at,
    configured,
    finished,
    listed,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import roll_up

pytestmark = pytest.mark.usefixtures("in_utc")
NOTHING = [
    "sacctmgr: Request didn't affect anything or your user doesn't have privilege to perform this "
    "action"
]


def prepared(database: Database) -> None:
    register(database, store_flags=("track_wckey",))
    record(database, configured(at("12:00:00")))
    manage(database, "add account physics")
    manage(database, "add user alice account=physics wckeys=wa,wb")
    first, last = at("12:01:00"), at("12:11:00")
    ran: list[ev.AnyEvent] = [submitted(first, 1, wckey="wa"), *started(first, 1, on(1, 4))]
    record(database, *ran, *finished(last, 1, 5, 256))
    record(database, submitted(at("12:20:00"), 2), *started(at("12:21:00"), 2, on(2)))


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """Two jobs of alice, the second one runs; keys are tracked."""
    return open_store(prepared)


def told(store: Database) -> list[tuple[object, ...]]:
    columns = ("job_id", "comment", "admin_comment", "system_comment", "extra", "derived_exit_code")
    return rows(store, schema.jobs, *columns)


def test_a_sluid_names_a_job(store: Database) -> None:
    """As in every command that takes a job id."""
    word = sluid_text(sluid_number(at("12:20:00"), 2))
    made = manage(store, f"modify job where jobid={word} set comment=late")
    assert made.lines == [" Modified jobs...", "  2 submitted at 2026-11-20T12:20:00"]


@pytest.mark.parametrize("condition", ["jobid=", "user=", "wckey=", "cluster=", "jobid=1 user="])
def test_an_empty_condition_names_no_job(store: Database, condition: str) -> None:
    """A script whose variable is empty must not change every job of the cluster."""
    line = f"modify job where {condition} set comment=x"
    assert manage(store, line).error_lines == NOTHING
    assert [row[1] for row in told(store)] == ["", ""]


def test_comments_and_codes_are_stored(store: Database) -> None:
    """Each change has a row in the log of transactions."""
    made = manage(store, "modify job where jobid=1 set comment=late admincomment=a extra=x")
    assert made.lines == [" Modified jobs...", "  1 submitted at 2026-11-20T12:01:00"]
    manage(store, "modify job where jobid=1 set systemcomment=s derivedexitcode=5:9")
    assert told(store) == [(1, "late", "a", "s", "x", 5), (2, "", "", "", "", 0)]
    changes = [row for row in listed(store, "transaction") if row["Action"] == "Modify Job"]
    assert [(row["Where"], row["Cluster"]) for row in changes] == [("job_db_inx=1", "demo")] * 2
    assert changes[0]["Info"] == "admin_comment='a', comment='late', extra='x'"
    manage(store, "modify job where jobid=1 set comment=''")
    assert told(store)[0][1] == ""


def test_the_log_holds_the_beginning_of_a_long_text(store: Database) -> None:
    """It has a row for each job and change, and a user may make many of them."""
    manage(store, f"modify job where jobid=1 set comment={'y' * 60_000}", "alice", 1001)
    (info,) = [
        str(row["Info"]) for row in listed(store, "transaction") if row["Action"] == "Modify Job"
    ]
    assert len(info) == 1_000
    assert told(store)[0][1] == "y" * 60_000


def test_a_users_list_of_changes_and_events_is_bounded(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are made in memory; operators have all of them."""
    monkeypatch.setattr(history_rows, "MOST_ROWS", 1)
    mine = {"user": "alice", "uid": 1001}
    manage(store, "modify job where jobid=1 set comment=a", "alice", 1001)
    assert len(listed(store, "transaction", **mine)) == 1
    manage(store, "modify job where jobid=1,2 set comment=b", "alice", 1001)
    with pytest.raises(RefusedError, match="More than 1 records: name a shorter time"):
        listed(store, "transaction", **mine)
    assert len(listed(store, "transaction")) > 3
    monkeypatch.setattr(history_rows, "MOST_ROWS", 0)
    with pytest.raises(RefusedError, match="More than 0 records"):
        listed(store, "event", "", "all_time", **mine)
    assert listed(store, "event", "", "all_time")


@pytest.mark.parametrize(
    ("where", "job_ids"),
    [
        ("jobid=2,1", [1, 2]),
        ("user=alice", [1, 2]),
        ("user=bob", []),
        ("wckey=wa", [1]),
        ("starttime=2026-11-20T12:15:00", [2]),
        ("endtime=2026-11-20T12:15:00", [1]),
        ("cluster=demo", [1, 2]),
        ("cluster=mars", []),
        ("jobid=1_0", []),
        ("jobid=1+0", []),
    ],
)
def test_conditions_select_jobs(store: Database, where: str, job_ids: list[int]) -> None:
    """All that are given must hold."""
    made = manage(store, f"modify job where {where} set comment=hit")
    assert [row[0] for row in told(store) if row[1] == "hit"] == job_ids
    assert made.error_lines == ([] if job_ids else NOTHING)
    assert made.exit_code == (not job_ids)


@pytest.mark.parametrize(
    ("line", "error_lines"),
    [
        ("where jobid=1", [" You didn't give me anything to set"]),
        ("where jobid=abc set comment=x", ["sacctmgr: fatal: Bad job/step specified: abc"]),
        ("where jobid=99 set comment=x", NOTHING),
        (
            "1 set comment=x",
            [" Unknown condition: 1", " Use keyword 'set' to modify value"],
        ),
        (
            "where foo=1 set comment=x",
            [" Unknown condition: foo=1", " Use keyword 'set' to modify value"],
        ),
        (
            "where jobid=1 set newjobname=x",
            [" Unknown option: newjobname=x", " Use keyword 'where' to modify condition"],
        ),
        (
            "where jobid=1 set derivedexitcode=abc",
            [
                "sacctmgr: error: Invalid value for DerivedExitCode (abc)",
                " Unknown option: derivedexitcode=abc",
                " Use keyword 'where' to modify condition",
            ],
        ),
        (
            "where jobid=1 set comment=a\x07b",
            [
                "sacctmgr: error: Invalid value for Comment",
                " Unknown option: comment=a\x07b",
                " Use keyword 'where' to modify condition",
            ],
        ),
    ],
)
def test_bad_words_change_nothing(store: Database, line: str, error_lines: list[str]) -> None:
    """Each gets Slurm's text and exit code 1."""
    before = told(store)
    made = manage(store, f"modify job {line}")
    assert (made.exit_code, made.error_lines or made.lines) == (1, error_lines)
    assert told(store) == before


def test_quotes_and_sql_are_text(store: Database) -> None:
    """What they hold is stored as it is."""
    text = "it's\";DROP/**/TABLE/**/jobs;--"
    assert manage(store, f"modify job where jobid=1 set comment={text}").exit_code == 0
    assert told(store)[0][1] == text
    manage(store, f"modify job where jobid=1 set comment={'y' * TEXT_CHARACTERS}")
    assert told(store)[0][1] == "y" * TEXT_CHARACTERS
    long = manage(store, f"modify job where jobid=1 set comment=z{'z' * TEXT_CHARACTERS}")
    assert long.exit_code == 1
    assert told(store)[0][1] == "y" * TEXT_CHARACTERS


def test_users_change_their_own_jobs(store: Database) -> None:
    """Comment and exit code; not what administrators say, and not the jobs of others."""
    mine, others = ("alice", 1001), ("bob", 1002)
    line = "modify job where jobid=1 set comment=mine derivedexitcode=3"
    assert manage(store, line, *others).error_lines == NOTHING
    assert manage(store, line, *mine).exit_code == 0
    assert told(store)[0] == (1, "mine", "", "", "", 3)
    for word in ("admincomment", "systemcomment", "extra"):
        refused = manage(store, f"modify job where jobid=1 set {word}=x", *mine)
        assert refused.error_lines == NOTHING
    assert told(store)[0] == (1, "mine", "", "", "", 3)


def cpu_s(store: Database) -> int:
    """Return the CPU seconds of associations that are added up."""
    pairs = rows(store, schema.association_usage["hour"], "tres_id", "allocated_s")
    return sum(seconds for tres, seconds in pairs if tres == 1)  # type: ignore[misc]


def test_what_a_job_held_is_corrected(store: Database) -> None:
    """Only what is named changes; usage is added up again. Users may not, nor jobs that wait."""
    roll_up(store, at("13:00:10"))
    assert cpu_s(store) == 4 * 600 + 39 * 60
    columns = ("tres_allocated", "cpus_allocated")
    assert rows(store, schema.jobs, *columns)[0] == ("billing=4,cpu=4,mem=1000,node=1", 4)
    line = "modify job where jobid=1 set tres=cpu=2,energy=50"
    assert manage(store, line, "alice", 1001).error_lines == NOTHING
    corrected = manage(store, line)
    assert (corrected.exit_code, corrected.lines[0]) == (0, " Modified jobs...")
    assert not any("limit" in text for text in corrected.lines)
    assert rows(store, schema.jobs, *columns)[0] == ("billing=4,cpu=2,energy=50,mem=1000,node=1", 2)
    roll_up(store, at("13:01:00"))
    other_s = 39 * 60  # of the job that runs, on one core
    assert cpu_s(store) == 2 * 600 + other_s
    (info,) = [row["Info"] for row in listed(store, "transaction")][-1:]
    assert "tres_allocated='billing=4,cpu=2,energy=50,mem=1000,node=1'" in str(info)
    record(store, submitted(at("12:30:00"), 3))
    for bad in ("jobid=3 set tres=cpu=2", "jobid=1 set tres=foo=1", "jobid=1 set tres=cpu"):
        assert manage(store, f"modify job where {bad}").exit_code == 1, bad
    assert rows(store, schema.jobs, *columns)[2] == ("", 0)


def test_a_job_is_given_another_key(store: Database) -> None:
    """Its usage moves to it; users take one of their own, operators give a new one with it."""
    roll_up(store, at("13:00:10"))
    refused = manage(store, "modify job where jobid=1 set newwckey=wz", "alice", 1001)
    assert refused.error_lines == NOTHING
    assert manage(store, "modify job where jobid=1 set newwckey=wb", "alice", 1001).exit_code == 0
    assert rows(store, schema.jobs, "wckey")[0] == ("wb",)
    roll_up(store, at("13:01:00"))
    usage = schema.wckey_usage["hour"]
    keys = [row[0] for row in rows(store, usage, "wckey", "tres_id") if row[1] == 1]
    assert "wb" in keys
    assert "wa" not in keys
    assert manage(store, "modify job where jobid=1 set newwckey=wz").exit_code == 0
    assert [row["WCKeys"] for row in listed(store, "wckey", "users=alice")] == ["wa", "wb", "wz"]
    assert manage(store, "modify job where jobid=1 set newwckey=*x").exit_code == 1


def test_users_have_hours_added_up_again_once_an_hour(store: Database) -> None:
    """RELIABILITY 46: however often they change keys of old jobs, new hours are stored first."""
    usage, last = schema.wckey_usage["hour"], schema.last_ran

    def key() -> str:
        (word,) = {row[0] for row in rows(store, usage, "wckey", "user") if row[1] == "alice"}
        return str(word)

    def change_to(word: str) -> None:
        line = f"modify job where jobid=1 set newwckey={word}"
        assert manage(store, line, "alice", 1001).exit_code == 0
        assert rows(store, last, "changed_us") == [(0,)]

    roll_up(store, at("13:00:10"))
    change_to("wb")
    roll_up(store, at("13:00:40"))
    assert key() == "wb"
    change_to("wa")
    roll_up(store, at("13:01:10"))
    roll_up(store, at("14:00:10"))
    assert rows(store, last, "hour_us") == [(at("14:00:00"),)]
    assert key() == "wb"
    change_to("wa")  # the key that it has: nothing more to add up
    roll_up(store, at("14:00:40"))
    assert key() == "wa"
    change_to("wa")
    assert ("usage_asked_us_1", "0") in rows(store, schema.store, "name", "value")


def test_a_command_takes_few_jobs(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals wait for its transaction."""
    monkeypatch.setattr(jobs, "MOST_JOBS", 1)
    before = told(store)
    assert manage(store, "modify job where user=alice set comment=x").exit_code == 1
    assert manage(store, "modify job where jobid=1,2 set comment=x").exit_code == 1
    assert told(store) == before


def test_job_ids_of_others_cost_little(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names arrays of others must not make a statement that no database takes."""
    monkeypatch.setattr(jobs, "MOST_JOBS", 4)
    for first in range(100, 140, 10):
        for task in range(4):
            record(store, submitted(at("12:30:00"), first + task))
    with store.write() as connection:
        number = schema.jobs.c.job_id
        tasks = schema.jobs.update().where(number >= 100)
        connection.execute(tasks.values(array_job_id=number - number % 10))
    most_values = [0]

    def note(*call: Any) -> None:
        most_values[0] = max(most_values[0], len(call[3]))

    sa.event.listen(store.engine, "before_cursor_execute", note)
    words = ",".join(map(str, range(100, 140, 10)))
    line = f"modify job where jobid={words} set comment=x"
    assert manage(store, line, "mallory", 1099).error_lines == NOTHING
    assert manage(store, line).error_lines == [" More than 4 jobs match; name fewer of them"]
    assert most_values[0] <= 12
