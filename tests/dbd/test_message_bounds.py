"""What a message may hold fits the column it is stored in (C3): bounds against the schema.

RELIABILITY 50.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.columns import TEXT_CHARACTERS
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import JobRequest, Step
from pyslurm_ng.wire import messages, table
from tests.dbd.accounting_room import at, on, record, submitted

T = at("12:08:08")

CUT = {
    ("request.name", "jobs.name"): "workflow tools make longer names; Slurm cuts them, too",
    ("name", "steps.name"): "as those of jobs",
    ("request.submit_line", "jobs.submit_line"): "squeue shows a MiB as Slurm does, sacct 64 KiB",
    ("request.qos", "jobs.qos_requested"): "a list of QOS; sacct shows where it begins",
    ("request.reservation", "jobs.reservation_requested"): "a list, as well",
    ("request.reservation", "jobs.reservation"): "a list, as well",
}
"""Fields that are longer than their column, and why their rows are cut (dbd.lengths)."""


READ = ("gres", "gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task", "tres_per_task")
"""Fields that accounting reads: only what they say is stored."""


def texts(kind: str, prefix: str) -> dict[str, int]:
    """Return the text fields of a message by path, with their largest lengths."""
    assert messages.row(kind)
    return {
        row.path: row.kind.max_length  # type: ignore[attr-defined]
        for row in table.bounds(kind)
        if isinstance(getattr(row.kind, "max_length", None), int)
        and type(row.kind).__name__ == "StrType"
        and row.path.startswith(prefix)
        and row.path.isidentifier() == (not prefix)
        and "[" not in row.path
    }


def columns_of(database: Database, rows: sa.Table) -> dict[str, list[str]]:
    """Return which columns a field's value was stored in: each field holds its own name."""
    with database.read() as connection:
        values = dict(connection.execute(sa.select(rows)).one()._mapping)
    columns: dict[str, list[str]] = {}
    for column, value in values.items():
        if isinstance(value, str) and value.startswith("@"):
            columns.setdefault(value[1:], []).append(column)
    return columns


def check(rows: sa.Table, columns: dict[str, list[str]], bounds: dict[str, int]) -> set[str]:
    """Compare bounds with the widths of columns; return the columns looked at."""
    looked_at = set()
    for field, names in columns.items():
        for name in names:
            width = rows.c[name].type.length or TEXT_CHARACTERS  # type: ignore[attr-defined]
            column = field, f"{rows.name}.{name}"
            assert (bounds[field] > width) == (column in CUT), (column, bounds[field], width)
            looked_at.add(name)
    return looked_at


def test_no_text_of_a_submission_is_longer_than_its_column(store: Database) -> None:
    """MariaDB refuses the row otherwise, and with it everything behind it."""
    bounds = texts("SubmitJob", "request.")
    names = {path.removeprefix("request."): path for path in bounds}
    fields = {name: f"@{path}" for name, path in names.items() if name not in READ}
    record(store, submitted(T, 1, **fields, mem_per_cpu_mib=0))
    looked_at = check(schema.jobs, columns_of(store, schema.jobs), bounds)
    assert looked_at >= {"wckey", "qos_requested", "mcs_label", "reservation_requested", "comment"}


def test_no_text_of_a_step_is_longer_than_its_column(store: Database) -> None:
    bounds = texts("CreateStep", "")
    record(store, submitted(T, 1))
    known = {name for name in Step.__struct_fields__ if name in bounds}
    step = Step(0, "@name", 1, 1, 1, (on(1),), T, **{n: f"@{n}" for n in known - {"name"}})  # type: ignore[arg-type]
    record(store, ev.StepCreated(T, 1, step))
    looked_at = check(schema.steps, columns_of(store, schema.steps), bounds)
    assert looked_at >= {"name", "distribution", "submit_line", "std_out", "container"}


@pytest.mark.parametrize(
    ("kind", "field", "column"),
    [
        ("SubmitJob", "request.account", schema.jobs.c.account),
        ("SubmitJob", "request.wckey", schema.users.c.default_wckey),
        ("RegisterCluster", "cluster", schema.clusters.c.name),
        ("RegisterCluster", "control_host", schema.clusters.c.control_host),
        ("RegisterCluster", "journal_id", schema.cursors.c.journal_id),
    ],
)
def test_names_fit_their_columns(kind: str, field: str, column: sa.Column[str]) -> None:
    assert messages.row(kind)
    (bound,) = (row for row in table.bounds(kind) if row.path == field)
    assert bound.kind.max_length <= column.type.length  # type: ignore[attr-defined]


def test_the_longest_values_are_stored(store: Database) -> None:
    """All at once, at their bounds: none is refused, and only the four known fields are cut."""
    bounds = texts("SubmitJob", "request.")
    names = {path.removeprefix("request."): most for path, most in bounds.items()}
    fields = {name: "é" * most for name, most in names.items() if name not in READ}
    record(store, submitted(T, 1, **fields))
    with store.read() as connection:
        row = connection.execute(sa.select(schema.jobs)).one()._mapping
    for column in ("wckey", "comment", "extra", "std_out", "constraints", "licenses", "mcs_label"):
        value = row[column]
        assert set(value) == {"é"} and len(value) > 100, column
    assert len(row["name"]) == 255
    assert isinstance(JobRequest(**fields), JobRequest)
