"""RELIABILITY 50: what cannot be stored costs its own row, never the batch or those behind it."""

from __future__ import annotations

import msgspec
import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import lengths, schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import Database, is_of_one_row
from pyslurm_ng.dbd.ingest import batches
from pyslurm_ng.dbd.ingest.batches import ingest, read_cursor, store_problems
from pyslurm_ng.dbd.ingest.frames import Frame, NewerRecordError, Problem, decode_frame
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import JobRequest, Step
from tests.dbd.accounting_room import (
    JOURNAL,
    at,
    finished,
    listed,
    manage,
    on,
    record,
    rows,
    started,
    submitted,
)

T = at("12:00:00")
LONG = "ä" * 100_000


def bad_update(job_id: int) -> ev.JobUpdated:
    """An event that no version stores: a priority that is no number."""
    return ev.JobUpdated(T, job_id, {"priority": "high"})


def job_ids(database: Database) -> list[int]:
    return [job_id for (job_id,) in rows(database, schema.jobs, "job_id")]  # type: ignore[misc]


def shown(database: Database, uid: int, user: str) -> list[list[object]]:
    """Return the rows of `sacctmgr show problem` as a user sees them."""
    return [list(row.values()) for row in listed(database, "problem", uid=uid, user=user)]


def test_a_long_wckey_does_not_stop_accounting(store: Database) -> None:
    """C3: MariaDB refuses 200 characters for 128; the job's row is stored with the beginning."""
    record(store, submitted(T, 1, wckey="w" * 200))
    record(store, submitted(T, 2))
    assert rows(store, schema.jobs, "job_id", "wckey") == [(1, "w" * 128), (2, "")]
    assert rows(store, schema.problem_rows, "error") == []


def test_no_text_of_a_job_or_step_is_too_long(store: Database) -> None:
    """Every text of a submission, an update, a step and a node's reason, all too long at once."""
    texts = {
        field.name: LONG
        for field in msgspec.structs.fields(JobRequest)
        # Amounts are parsed, and submissions have checked them.
        if field.default == "" and not {"tres", "gres", "gpus"} & set(field.name.split("_"))
    }
    event = msgspec.structs.replace(
        submitted(T, 1), request=JobRequest(**texts), user_name=LONG, group_name=LONG,
        account=LONG, qos=LONG, partition=LONG, script_hash=LONG, env_hash=LONG,
    )  # fmt: skip
    record(store, event)
    words = ("account", "qos", "partition", "comment", "admin_comment", "system_comment")
    record(store, ev.JobUpdated(T, 1, dict.fromkeys(words, LONG)))
    record(store, *started(T, 1, on(1)))
    step = Step(STEP_BATCH, LONG, 1001, 1, 1, (on(1),), T, distribution=LONG, submit_line=LONG)
    record(store, ev.StepCreated(T, 1, step))
    record(store, *finished(T, 1, 3, 0))
    record(store, ev.NodesDown(T, (0,), LONG))
    assert rows(store, schema.problem_rows, "kind", "error") == []
    (row,) = rows(store, schema.jobs, "state", "account", "comment", "name")
    assert row == ("COMPLETED", "ä" * 128, "ä" * 65_536, "ä" * 255)


def test_a_row_is_made_to_fit_a_small_packet(store: Database) -> None:
    """With max_allowed_packet of one megabyte no text may make a statement larger than that."""
    store.row_bytes = (1 << 20) // 4
    record(store, submitted(T, 1, comment=LONG, submit_line=LONG, work_dir=LONG, extra="short"))
    ((comment, extra),) = rows(store, schema.jobs, "comment", "extra")
    assert isinstance(comment, str)
    assert 10_000 < len(comment) < 65_536
    assert extra == "short"
    with store.read() as connection:
        row = connection.execute(sa.select(schema.jobs)).one()
    assert sum(len(v.encode()) for v in row._mapping.values() if isinstance(v, str)) <= 1 << 18


def test_numbers_beyond_the_columns_are_brought_into_range(store: Database) -> None:
    """An int of MessagePack has 64 bits and no sign; a column has 63 bits."""
    record(store, ev.JobUpdated(T, 1, {}), submitted(T, 1, time_limit_min=2**64 - 1))
    record(store, ev.JobUpdated(T, 1, {"priority": 2**64 - 1}))
    assert rows(store, schema.jobs, "time_limit_min", "priority") == [(lengths.MOST, lengths.MOST)]


def test_an_event_that_cannot_be_stored_is_set_aside(store: Database) -> None:
    """The rest of its record and of its batch are stored, the cursor moves, the row is shown."""
    told: list[Problem] = []
    frames = [Frame(1, 2 + job_id, [submitted(T, job_id)]) for job_id in range(10)]
    frames[6].events = [submitted(T, 60), bad_update(5), submitted(T, 61)]
    frames[6].checksum = "00000000000000ff"
    after = ingest(store, 1, JOURNAL, 1, frames, lambda problem, error: told.append(problem))
    assert after[:2] == (1, 11)
    assert job_ids(store) == [0, 1, 2, 3, 4, 5, 60, 61, 7, 8, 9]
    assert rows(store, schema.problem_rows, "sequence", "kind", "job_id", "time_us") == [
        (8, "JobUpdated", 5, T)
    ]
    ((error, kept),) = rows(store, schema.problem_rows, "error", "record")
    assert "ValueError" in str(error)
    assert "high" in str(kept)
    assert [event.job_id for event in told] == [5]
    # What comes again is neither stored nor set aside again.
    assert ingest(store, 1, JOURNAL, 1, frames) == (1, 11, 0)
    assert len(rows(store, schema.problem_rows, "id")) == 1


def test_the_cursor_keeps_the_checksum_of_the_newest_record(store: Database) -> None:
    """By it a journal is known whose end has been lost."""
    ingest(store, 1, JOURNAL, 1, [Frame(1, 2, [submitted(T, 1)], "00000000000000ff")])
    ingest(store, 1, JOURNAL, 2, [Frame(1, 3, [bad_update(1)], "0000000000000abc")])
    with store.read() as connection:
        assert read_cursor(connection, 1) == (JOURNAL, 1, 3, "0000000000000abc")


def test_an_event_that_cannot_be_decoded_costs_only_itself(store: Database) -> None:
    """A value that a newer version's bounds refuse, in the middle of a record."""
    good = [encode_batch([submitted(T, job_id)])[1:] for job_id in (1, 2)]
    bad = msgspec.msgpack.encode([2, T, 7, "not a map"])
    assert _kind(2) == "JobUpdated"
    frame = decode_frame(1, 2, b"\x93" + good[0] + bad + good[1])
    assert ingest(store, 1, JOURNAL, 1, [frame])[1] == 2
    assert job_ids(store) == [1, 2]
    assert rows(store, schema.problem_rows, "kind", "job_id") == [("JobUpdated", 7)]


def _kind(tag: int) -> str:
    return next(k.__name__ for k in ev.AnyEvent.__args__ if k.__struct_config__.tag == tag)


def test_a_record_that_is_no_record_costs_only_itself(store: Database) -> None:
    """Bytes that no version wrote."""
    frame = decode_frame(1, 2, b"\xc1\xff")
    assert ingest(store, 1, JOURNAL, 1, [frame, Frame(1, 3, [submitted(T, 1)])])[1] == 3
    assert job_ids(store) == [1]
    assert rows(store, schema.problem_rows, "kind", "sequence") == [("record", 2)]


def test_events_of_a_newer_controller_wait(store: Database) -> None:
    """RELIABILITY 47: nothing is dropped that an updated slurmdbd can store; it is named."""
    payload = msgspec.msgpack.encode([[999, T, 1]])
    with pytest.raises(NewerRecordError, match=r"record 2 .*999.*Update slurmdbd"):
        decode_frame(1, 2, payload)


def test_operators_see_and_delete_problems(store: Database) -> None:
    """After Slurm's own problems, in its columns; other users may not ask, as in Slurm."""
    record(store, submitted(T, 5))
    record(store, bad_update(5))
    manage(store, "add account chem")
    problems = shown(store, 0, "root")
    assert problems[0] == ["demo", "chem", "", "Account has no users"]
    assert problems[1][:3] == ["demo", "physics", "alice"]
    assert str(problems[1][3]).startswith("Not stored: JobUpdated of job 5 (record 3): ValueError")
    with pytest.raises(RefusedError, match=r"^Access/permission denied"):
        shown(store, 1001, "alice")
    refused = manage(store, "delete problem", user="alice", uid=1001)
    assert refused.exit_code == 1
    assert manage(store, "delete problem").lines == [" Deleting 1 problem of cluster demo"]
    assert len(shown(store, 0, "root")) == 1


def test_problems_are_kept_in_bounds(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who can make problems at will must not fill the database."""
    monkeypatch.setattr(batches, "MOST_PROBLEMS", 3)
    for number in range(5):
        problem = Problem(number, T, "JobUpdated", 1, "x" * 5000, "y" * 200_000)
        with store.write() as connection:
            store_problems(connection, 1, JOURNAL, [problem], store.row_bytes)
    assert [sequence for (sequence,) in rows(store, schema.problem_rows, "sequence")] == [2, 3, 4]


def test_a_broken_database_sets_nothing_aside(store: Database) -> None:
    """A missing table is no fault of a row: everything waits until somebody mends it."""
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE steps RENAME TO steps_gone")
    with pytest.raises(sa.exc.SQLAlchemyError) as caught:
        record(store, submitted(T, 1), *started(T, 1, on(1)))
    assert not is_of_one_row(caught.value)
    with store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE steps_gone RENAME TO steps")
    assert rows(store, schema.problem_rows, "id") == []
    record(store, submitted(T, 1), *started(T, 1, on(1)))
    assert job_ids(store) == [1]


def test_both_dialects_refuse_what_is_too_long(store: Database) -> None:
    """SQLite by itself does not check. Without this check the tests could not see a missing cut."""
    with pytest.raises(sa.exc.DBAPIError) as caught, store.write() as connection:
        connection.execute(schema.users.insert().values(name="n" * 129))
    assert is_of_one_row(caught.value)


def test_a_partition_that_is_too_long_is_refused_in_one_line(store: Database) -> None:
    """sacctmgr's answer names the column. Nothing of it is stored, and no other change waits."""
    refused = manage(store, f"add user bob account=root partition={'p' * 300}")
    assert refused.exit_code == 1
    (line,) = refused.error_lines
    assert line.startswith(" Not stored: ")
    assert "partition" in line
    assert manage(store, "add user bob account=root").exit_code == 0


def test_what_makes_submissions_fail_is_listed(store: Database) -> None:
    """In Slurm's words: accounts and users that have nothing, and users this host does not know."""
    for line in (
        "add account empty", "add account full", "add user daemon account=full",
        "add user no-such-user account=full", "add cluster other", "add account away cluster=other",
        "add user bin account=away cluster=other", "delete account away cluster=other",
    ):  # fmt: skip
        assert manage(store, line).exit_code == 0, line
    listed_rows = shown(store, 0, "root")
    for row in (
        ["", "away", "", "Account has no Associations"],
        ["demo", "empty", "", "Account has no users"],
        ["", "", "bin", "User has no Associations"],
        ["", "", "no-such-user", "User does not have a uid"],
    ):
        assert listed_rows.count(row) == 1, row
    assert not any(row[2] == "daemon" or row[1] == "full" for row in listed_rows)
