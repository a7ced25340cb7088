"""Tables of the accounting store, for SQLite and MySQL/MariaDB.

Times are microseconds since the epoch (0: not yet), memory is MiB, TRES amounts are
`name=count` lists in canonical names. Names are compared exactly (binary collation). Limits of
associations and QOS are one JSON object per row: they are always read whole, and a new limit
then needs no migration.

Columns are only ever added, by a numbered migration (`dbd.migrations`).
"""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import HOUR_US
from pyslurm_ng.dbd.columns import (
    BIG,
    LIST_CHARACTERS,
    SCRIPT_CHARACTERS,
    SUMMED_CHARACTERS,
    integer as _int,
    key as _key,
    name as _name,
    stamps as _stamps,
    text as _text,
)

metadata = sa.MetaData()

NO_TASK = -1
"""`array_task_id` and `het_job_offset` of a job that has none."""

STEP_ID_OFFSET = 2**32
"""Steps without a number (batch, extern ...) have model ids just below this.

`steps.step_id` is the id less this number: it is negative and sorts before step 0, as sacct prints
it."""

USE_PARENT_SHARES = 0x7FFFFFFF
"""`associations.shares` with the meaning "part of the parent's shares"."""

LINEAGE_CHARACTERS = 1024
"""Of the names of an association and of all above it, each between slashes."""


def default_of(column: sa.Column[Any]) -> Any:
    """Return what a new row has in a column that is not given; None where it must be given."""
    return column.default.arg if column.default is not None else None  # type: ignore[attr-defined]


def _table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        *items,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    # MariaDB refuses a text that is too long for its column. SQLite must do so, too, or tests
    # cannot see it.
    for column in table.columns:
        if isinstance(column.type, sa.String) and column.type.length:
            check = sa.CheckConstraint(f'length("{column.name}") <= {column.type.length}')
            table.append_constraint(check.ddl_if(dialect="sqlite"))
    return table


def has_books() -> sa.ColumnElement[bool]:
    """Return which clusters have associations and jobs here: neither deleted nor external."""
    return sa.and_(clusters.c.is_deleted == 0, clusters.c.flags != EXTERNAL)


store = _table(
    "store",
    _name("name", 64, primary_key=True),
    _name("value"),
)
"""Single values: schema_version, store_id, version (counts administrative changes), and which
slurmdbd serves if there is a backup (`dbd.term`)."""
TERM = "term"

clusters = _table(
    "clusters",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    _name("name", 64, unique=True),
    _name("control_host"),
    _int("control_port"),
    _int("rpc_version"),
    _name("classification", 64),
    _name("flags"),
    _name("store_flags"),
    *_stamps(),
    _name("federation"),
    _int("federation_id"),
    _int("federation_state"),
    _name("features"),
)

EXTERNAL = "External"
"""`clusters.flags` of a cluster that only says where it is: another slurmdbd has its books."""

federations = _table(
    "federations",
    _name("name", 128, primary_key=True),
    _name("flags"),
    *_stamps(),
)
"""Which clusters are in one is in `clusters`: `federation_id` is the cluster's number there, and
`federation_state` one of `dbd.federation_state`."""

cursors = _table(
    "cursors",
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    _name("journal_id", 64),
    _int("epoch"),
    _int("sequence"),
    _int("updated_us"),
    _int("records"),
    _name("checksum", 16),
)
"""How far each cluster's journal is in the tables; written with the rows it covers.

`checksum` is that of the journal's record `sequence`, in hexadecimal; empty: not known. If the
journal's record has another checksum, these rows came from another journal.
"""

problem_rows = _table(
    "problem_rows",
    sa.Column("id", BIG, primary_key=True, autoincrement=True),
    sa.Column("cluster_id", sa.Integer, nullable=False),
    _name("journal_id", 64),
    _int("sequence"),
    _int("time_us"),
    _name("kind", 64),
    _int("job_id"),
    _name("error", 1024),
    _text("record"),
)
"""Events of journals that could not be stored, with the reason; the rest of the batch was.

`record` is the event as JSON, or the beginning of it; `job_id` 0: the event concerns no job.
"""

tres = _table(
    "tres",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    _name("type", 64),
    _name("name", 128),
    _int("version"),
    sa.UniqueConstraint("type", "name", name="uq_tres"),
)

accounts = _table(
    "accounts",
    _name("name", 128, primary_key=True),
    _name("description"),
    _name("organization"),
    _name("flags"),
    *_stamps(),
)

users = _table(
    "users",
    _name("name", 128, primary_key=True),
    _int("admin_level", 1),
    _name("default_wckey"),
    *_stamps(),
)
"""`admin_level`: 1 none, 2 operator, 3 administrator."""

wckeys = _table(
    "wckeys",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("cluster_id", sa.Integer, nullable=False),
    _name("name", 128),
    _name("user", 128),
    _int("is_default"),
    *_stamps(),
    sa.UniqueConstraint("cluster_id", "name", "user", name="uq_wckey"),
)
"""Which users have which workload characterisation keys, and their default on a cluster."""

coordinators = _table(
    "coordinators",
    _name("account", 128, primary_key=True),
    _name("user", 128, primary_key=True),
)

qos = _table(
    "qos",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    _name("name", 128, unique=True),
    _name("description"),
    _name("flags"),
    _name("preempt"),
    _name("preempt_mode", 64),
    _int("priority"),
    _int("grace_time_s"),
    _int("usage_reset_us"),
    _text("limits"),
    *_stamps(),
)

resources = _table(
    "resources",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    _name("name", 128),
    _name("server", 128),
    _name("description"),
    _name("server_type"),
    _name("flags"),
    _int("count"),
    _int("last_consumed"),
    *_stamps(),
    sa.UniqueConstraint("name", "server"),
)
"""Licences of licence servers."""

cluster_resources = _table(
    "cluster_resources",
    sa.Column("resource_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    _int("allowed"),
    *_stamps(),
)
"""A cluster's share of a resource: percent, or a count if it has the flag Absolute."""

associations = _table(
    "associations",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("cluster_id", sa.Integer, nullable=False),
    _name("account", 128),
    _name("user", 128),
    _name("partition", 128),
    _int("parent_id"),
    _name("lineage", LINEAGE_CHARACTERS),
    _int("is_default"),
    _int("shares", 1),
    _int("default_qos_id"),
    _name("qos", 1024),
    _name("delta_qos", 1024),
    _text("limits"),
    _text("comment"),
    _int("usage_reset_us"),
    *_stamps(),
    sa.UniqueConstraint("cluster_id", "account", "user", "partition", name="uq_association"),
    sa.Index("ix_associations_version", "version"),
)
"""`qos` is a list of ids that replaces the inherited one, `delta_qos` (`+3,-2`) edits it.

What was used before `usage_reset_us` does not count for fair-share and limits, as for QOS."""

txn = _table(
    "txn",
    sa.Column("id", BIG, primary_key=True, autoincrement=True),
    _int("time_us"),
    _name("action", 64),
    _name("actor", 128),
    _name("cluster", 64),
    _text("object"),
    _text("info"),
    sa.Index("ix_txn_time", "time_us"),
)

jobs = _table(
    "jobs",
    sa.Column("job_index", BIG, primary_key=True, autoincrement=False),
    sa.Column("cluster_id", sa.Integer, nullable=False),
    _int("job_id"),
    _int("submit_us"),
    _int("attempt"),
    _int("is_last", 1),
    _int("sluid"),
    _int("original_sluid"),
    _int("array_job_id"),
    _int("array_task_id", NO_TASK),
    _text("array_tasks", LIST_CHARACTERS),
    _int("array_max_tasks"),
    _int("het_job_id"),
    _int("het_job_offset", NO_TASK),
    _int("association_id"),
    _name("account", 128),
    _int("uid"),
    _int("gid"),
    _name("user", 128),
    _name("group", 128),
    _name("partition"),
    _name("qos", 128),
    _name("qos_requested"),
    _name("wckey", 128),
    _name("name"),
    _int("priority"),
    _name("state", 32),
    _name("reason", 128),
    _int("eligible_us"),
    _int("start_us"),
    _int("end_us"),
    _int("suspended_us"),
    _int("suspend_start_us"),
    _int("time_limit_min"),
    _int("exit_code"),
    _int("derived_exit_code"),
    _int("kill_uid", -1),
    _int("cpus_requested"),
    _int("cpus_allocated"),
    _int("nodes_requested"),
    _int("nodes_allocated"),
    _text("node_list", LIST_CHARACTERS),
    _int("mem_mib"),
    _int("mem_is_per_cpu"),
    _text("tres_requested"),
    _text("tres_allocated"),
    _text("gres_used"),
    _text("constraints"),
    _text("container"),
    _text("licenses"),
    _name("reservation"),
    _name("reservation_requested"),
    _int("reservation_id"),
    _text("work_dir"),
    _text("std_in"),
    _text("std_out"),
    _text("std_err"),
    _text("submit_line"),
    _text("comment"),
    _text("admin_comment"),
    _text("system_comment"),
    _text("extra"),
    _name("flags"),
    _name("failed_node"),
    _name("mcs_label"),
    _name("exclusive", 16),
    _name("oversubscribe", 16),
    _int("segment_size"),
    _int("requeue_count"),
    _name("script_hash", 64),
    _name("environment_hash", 64),
    _int("modified_us"),
    _name("summed_tres", SUMMED_CHARACTERS),
    sa.Index("ix_jobs_job", "cluster_id", "job_id", "submit_us"),
    sa.Index("ix_jobs_window", "cluster_id", "end_us", "eligible_us", "attempt"),
    sa.Index(
        "ix_jobs_usage",
        "cluster_id",
        "eligible_us",
        "end_us",
        "start_us",
        "association_id",
        "cpus_requested",
        "qos",
        "user",
        "wckey",
        "summed_tres",
    ),
    sa.Index("ix_jobs_array", "cluster_id", "array_job_id"),
    sa.Index("ix_jobs_het", "cluster_id", "het_job_id"),
    sa.Index("ix_jobs_uid", "cluster_id", "uid", "end_us"),
    sa.Index("ix_jobs_sluid", "cluster_id", "sluid"),
    sa.Index("ix_jobs_script", "script_hash"),
    sa.Index("ix_jobs_environment", "environment_hash"),
)
"""One row per job record: each requeue or resize begins a new one; only the newest `is_last`.

`summed_tres` is `tres_allocated` again where a sum is all that the roll-up needs (see
`rollup.job_sums`), `NO_TRES` if that is empty, and empty for all other records: `ix_jobs_usage` has
all columns of these sums.
"""
NO_TRES = "-"

SPANS_US = tuple(HOUR_US * 4**power for power in range(6))
"""How long jobs of each class were known at most; those of the last class were for longer. Stores
are made with these numbers (`migrations.m0014_job_spans`), so they stay."""
span_class: sa.ColumnClause[int] = sa.literal_column("jobs.span_class", sa.Integer())
span_class.name = "span_class"
"""0 for jobs that are not over, else the number of the class. The database computes it, so it is
none of the columns that are written."""

USAGE_COLUMNS = tuple(
    f"tres_usage_{way}_{what}"
    for way in ("in", "out")
    for what in ("ave", "max", "max_node", "max_task", "min", "min_node", "min_task", "tot")
)

steps = _table(
    "steps",
    sa.Column("job_index", BIG, primary_key=True, autoincrement=False),
    sa.Column("step_id", BIG, primary_key=True, autoincrement=False),
    sa.Column("het_component", sa.Integer, primary_key=True, autoincrement=False),
    _name("name"),
    _name("state", 32),
    _int("start_us"),
    _int("end_us"),
    _int("suspended_us"),
    _int("exit_code", -1),
    _int("kill_uid", -1),
    _text("node_list", LIST_CHARACTERS),
    _int("nodes"),
    _int("tasks"),
    _int("cpus"),
    _name("distribution", 64),
    _int("time_limit_min"),
    _int("user_cpu_us"),
    _int("system_cpu_us"),
    _int("cpu_frequency_khz"),
    _int("energy_j", -1),
    _name("frequency_min", 32),
    _name("frequency_max", 32),
    _name("frequency_governor", 32),
    _text("container"),
    _text("submit_line"),
    _text("std_in"),
    _text("std_out"),
    _text("std_err"),
    _text("tres_allocated"),
    *[_text(name) for name in USAGE_COLUMNS],
    sa.Index("ix_steps_end", "end_us"),
)
"""`exit_code` is the wait status, -1 while unknown; `het_component` is -1 outside het jobs."""

node_events = _table(
    "node_events",
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    _name("node_name", 128, primary_key=True),
    sa.Column("start_us", BIG, primary_key=True, autoincrement=False),
    _int("end_us"),
    _name("state", 64),
    _text("reason"),
    _int("reason_uid", -1),
    _text("tres"),
    _text("cluster_nodes", LIST_CHARACTERS),
    sa.Index("ix_node_events_end", "cluster_id", "end_us"),
    sa.Index("ix_node_events_start", "cluster_id", "start_us"),
)
"""Periods a node was out of service; with an empty node name: the cluster's TRES over time."""

cluster_nodes = _table(
    "cluster_nodes",
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("node_id", sa.Integer, primary_key=True, autoincrement=False),
    _name("name", 128),
    _int("is_gone"),  # no longer configured; the number is never given again
    _text("tres"),
    _int("threads"),  # of each core
)
"""The names of node numbers in the journal; the assignment is the model's."""

node_instances = _table(
    "node_instances",
    _key("cluster_id"),
    _name("node_name", 128, primary_key=True),
    sa.Column("start_us", BIG, primary_key=True, autoincrement=False),
    _int("end_us"),
    _name("instance_id"),
    _name("instance_type"),
    _text("extra"),
    sa.Index("ix_node_instances_end", "cluster_id", "end_us"),
    sa.Index("ix_node_instances_start", "cluster_id", "start_us"),
)
"""Times for which nodes were the same instances of a cloud; a change begins another row."""

reservations = _table(
    "reservations",
    _key("cluster_id"),
    _name("name", primary_key=True),
    sa.Column("start_us", BIG, primary_key=True, autoincrement=False),
    _int("end_us"),
    _int("reservation_id"),
    _name("flags"),
    _text("tres"),
    _text("node_list", LIST_CHARACTERS),
    _text("users"),
    _text("accounts"),
    sa.Index("ix_reservations_start", "cluster_id", "start_us"),
    sa.Index("ix_reservations_end", "cluster_id", "end_us"),
)
"""Times for which reservations were the same; a change begins another row.

`users` and `accounts` are names; those that begin with `-` may not use it.
"""

suspensions = _table(
    "suspensions",
    sa.Column("job_index", BIG, primary_key=True, autoincrement=False),
    sa.Column("start_us", BIG, primary_key=True, autoincrement=False),
    _int("end_us"),
    sa.Index("ix_suspensions_end", "end_us"),
)
"""Times for which jobs were suspended; one that lasts is `jobs.suspend_start_us` only."""

cluster_partitions = _table(
    "cluster_partitions",
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    _name("name", 128, primary_key=True),
    _text("billing_weights"),
    _int("def_mem_per_cpu_mib"),
    _int("def_mem_per_node_mib"),
    _int("def_mem_per_gpu_mib"),
)
"""The settings of a partition that decide what its jobs ask for and are billed."""

texts = _table(
    "texts",
    _name("hash", 64, primary_key=True),
    _text("text", SCRIPT_CHARACTERS),
    _int("last_used_us"),
)
"""Batch scripts and environments, stored once per content hash."""

last_ran = _table(
    "last_ran",
    sa.Column("cluster_id", sa.Integer, primary_key=True, autoincrement=False),
    _int("hour_us"),
    _int("day_us"),
    _int("month_us"),
    _int("claimed_us"),
    _int("changed_us"),
    _int("purged_us"),
    _int("usage_purged_us"),
)
"""The first hour, day and month whose usage is not yet stored.

`claimed_us` is the end of the hours that are stored or being read. A transaction that changes rows
of a time before it sets `changed_us` to the earliest such time. Hours since then are done again.
Hours before `purged_us` have no longer all records, and days and months that begin before
`usage_purged_us` no longer all hours: they stay as they are.
"""

PERIODS = ("hour", "day", "month")


def _usage_tables(
    name: str, keys: Callable[[], list[sa.Column[Any]]], amounts: tuple[str, ...]
) -> dict[str, sa.Table]:
    """Return the tables of one kind of usage by period; `keys` makes what a row is about."""
    return {
        period: _table(
            f"{name}_{period}",
            _key("cluster_id"),
            sa.Column("start_us", BIG, primary_key=True, autoincrement=False),
            *keys(),
            _key("tres_id"),
            *[_int(amount) for amount in amounts],
        )
        for period in PERIODS
    }


cluster_usage = _usage_tables(
    "cluster_usage",
    list,
    ("count", "allocated_s", "down_s", "planned_down_s", "idle_s", "planned_s", "over_s"),
)
"""Seconds times amount of a cluster's TRES; `count` is the amount at the end of the period."""

association_usage = _usage_tables(
    "association_usage", lambda: [_key("association_id"), _key("qos_id")], ("allocated_s",)
)
"""The same that associations have used by QOS; `qos_id` 0: unused parts of reservations."""

wckey_usage = _usage_tables(
    "wckey_usage",
    lambda: [_name("wckey", 128, primary_key=True), _name("user", 128, primary_key=True)],
    ("allocated_s",),
)
"""The same that users have used under each wckey."""

USAGE = (cluster_usage, association_usage, wckey_usage)

FIXED_TRES = (
    (1, "cpu", ""),
    (2, "mem", ""),
    (3, "energy", ""),
    (4, "node", ""),
    (5, "billing", ""),
    (6, "fs", "disk"),
    (7, "vmem", ""),
    (8, "pages", ""),
)
FIRST_DYNAMIC_TRES_ID = 1001
