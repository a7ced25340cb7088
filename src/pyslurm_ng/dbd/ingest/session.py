"""The rows that one transaction of journal batches works on."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.lengths import LEAST, MOST, fit
from pyslurm_ng.dbd.rollup.tables import note_change
from pyslurm_ng.dbd.updates import next_version
from pyslurm_ng.model.events import ScriptStored
from pyslurm_ng.model.partition import Partition

_CHUNK = 500  # ids per IN list: well below SQLite's limit of bound variables

Row = dict[str, Any]


class Session:
    """The rows one transaction works on.

    `jobs` maps job id to its current row; `dirty_jobs` maps a job index to a row to be written
    (a requeue leaves two rows of one job id dirty). Steps are keyed by job index, step id and
    het component.
    """

    def __init__(self, database: Database, connection: sa.Connection, cluster_id: int) -> None:
        self.database = database
        self.connection = connection
        self.cluster_id = cluster_id
        self.jobs: dict[int, Row] = {}
        self.dirty_jobs: dict[int, Row] = {}
        self.steps: dict[tuple[int, int, int], Row] = {}
        self._steps_of: dict[int, list[Row]] = {}
        self.dirty_steps: set[tuple[int, int, int]] = set()
        self.texts: dict[str, ScriptStored] = {}
        self.suspensions: dict[tuple[int, int], int] = {}
        self.node_names: dict[int, str] = {}
        self.node_tres: dict[int, str] = {}
        self.node_threads: dict[int, int] = {}
        self.gone_nodes: set[int] = set()
        self.partitions: dict[str, Partition] = {}
        self.tracked: list[str] = []
        self._store_flags: frozenset[str] = frozenset()
        self._most_steps = schema.STEP_ID_OFFSET
        self.changed_us = MOST
        self._times: dict[int, tuple[int, ...]] = {}
        self.next_job_index = 0
        self._first_job_index = 0
        self._job_defaults = {
            column.name: schema.default_of(column) for column in schema.jobs.columns
        }
        self._step_defaults = {
            column.name: schema.default_of(column) for column in schema.steps.columns
        }

    def load(self, job_ids: Iterable[int], step_jobs: Iterable[int]) -> None:
        """Read the rows of some jobs, and of the steps of some of these."""
        self._load_cluster()
        table = schema.jobs
        for ids in _chunks(list(job_ids)):
            query = sa.select(table).where(
                table.c.cluster_id == self.cluster_id,
                table.c.job_id.in_(ids),
                table.c.is_last == 1,
            )
            for row in self.connection.execute(query):
                self.jobs[row.job_id] = dict(row._mapping)
                self._times[row.job_index] = _times(self.jobs[row.job_id])
        indexes = [self.jobs[job_id]["job_index"] for job_id in step_jobs if job_id in self.jobs]
        for ids in _chunks(indexes):
            query = sa.select(schema.steps).where(
                schema.steps.c.job_index.in_(ids), schema.steps.c.end_us == 0
            )
            for row in self.connection.execute(query):
                key = (row.job_index, row.step_id, row.het_component)
                self._keep_step(key, dict(row._mapping))

    def new_job(self, job_id: int) -> Row:
        """Return a new row that replaces the job's current one."""
        older = self.jobs.get(job_id)
        if older is not None:
            older["is_last"] = 0
            self.dirty_jobs[older["job_index"]] = older
        row = dict(self._job_defaults)
        row.update(job_index=self.next_job_index, cluster_id=self.cluster_id, job_id=job_id)
        self.next_job_index += 1
        self.jobs[job_id] = row
        self.dirty_jobs[row["job_index"]] = row
        return row

    def job(self, job_id: int) -> Row | None:
        """Return a job's current row, to be changed in place; None if accounting never saw it."""
        row = self.jobs.get(job_id)
        if row is not None:
            self.dirty_jobs[row["job_index"]] = row
        return row

    def stores_step(self, step_id: int) -> bool:
        """Return whether a step is stored: max_step_records are, and those without a number."""
        return step_id < self._most_steps or step_id > MAX_NORMAL_STEP_ID

    def step(self, job_index: int, step_id: int, component: int = -1) -> Row:
        """Return a step's row, to be changed in place; a new step gets a new row."""
        key = (job_index, step_id, component)
        row = self.steps.get(key)
        if row is None:
            row = dict(self._step_defaults)
            row.update(job_index=job_index, step_id=step_id, het_component=component)
            self._keep_step(key, row)
        self.dirty_steps.add(key)
        return row

    def _keep_step(self, key: tuple[int, int, int], row: Row) -> None:
        self.steps[key] = row
        self._steps_of.setdefault(key[0], []).append(row)

    def open_steps(self, job_index: int) -> list[Row]:
        """Return the rows of a job's steps that have not ended."""
        return [row for row in self._steps_of.get(job_index, ()) if not row["end_us"]]

    def upsert(self, table: sa.Table, keys: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert or update rows; texts that are too long for a column are cut."""
        fit(table, rows, self.database.row_bytes)
        self.database.upsert(self.connection, table, keys, rows)

    def save(self) -> None:
        """Write what changed."""
        rows = list(self.dirty_jobs.values())
        # Rows that stop being the last of their job id go first, in the order they were made.
        self.upsert(schema.jobs, ("job_index",), rows)
        steps = [self.steps[key] for key in sorted(self.dirty_steps)]
        keys = ("job_index", "step_id", "het_component")
        self.upsert(schema.steps, keys, steps)
        self._save_texts()
        self._save_wckeys(rows)
        self._save_suspensions()
        self._note_changes(rows)
        if self.next_job_index != self._first_job_index:
            self.connection.execute(
                schema.store.update()
                .where(schema.store.c.name == "next_job_index")
                .values(value=str(self.next_job_index))
            )

    def changed_at(self, time_us: int) -> None:
        """Note that something since a time may not be as it was."""
        self.changed_us = min(self.changed_us, time_us)

    def suspended(self, job_index: int, start_us: int, end_us: int) -> None:
        """Keep a time for which a job was suspended."""
        self.suspensions[job_index, start_us] = end_us

    def _save_suspensions(self) -> None:
        rows = [
            {"job_index": job_index, "start_us": start_us, "end_us": end_us}
            for (job_index, start_us), end_us in self.suspensions.items()
        ]
        self.upsert(schema.suspensions, ("job_index", "start_us"), rows)

    def _note_changes(self, rows: Iterable[Row]) -> None:
        """Have the usage added up again since the earliest time that has changed."""
        for row in rows:
            before = self._times.get(row["job_index"])
            if before is None:
                continue
            for old_us, new_us in zip(before, _times(row), strict=True):
                if old_us != new_us:
                    self.changed_at(min(time_us for time_us in (old_us, new_us) if time_us))
        if LEAST < self.changed_us < MOST:
            note_change(self.connection, self.cluster_id, self.changed_us)

    def _save_wckeys(self, rows: Iterable[Row]) -> None:
        """Give users the keys that their jobs have, on clusters that track them."""
        keys = {(row["user"], row["wckey"].removeprefix("*")) for row in rows if row["wckey"]}
        if not keys:
            return
        if "track_wckey" not in self._store_flags:
            return
        table = schema.wckeys
        query = sa.select(table.c.user, table.c.name).where(
            table.c.cluster_id == self.cluster_id,
            table.c.is_deleted == 0,
            table.c.user.in_({user for user, _ in keys}),
        )
        new = sorted(keys - {tuple(row) for row in self.connection.execute(query)})
        if not new:
            return
        now_us = max(row["submit_us"] for row in rows)
        version = next_version(self.connection)
        stamp = {"created_us": now_us, "modified_us": now_us, "version": version, "is_deleted": 0}
        self.upsert(
            table,
            ("cluster_id", "name", "user"),
            [
                {"cluster_id": self.cluster_id, "name": key, "user": user, "is_default": 0, **stamp}
                for user, key in new
            ],
        )
        # Controllers learn the keys of users that have changed.
        users = schema.users
        self.connection.execute(
            users.update()
            .where(users.c.name.in_([user for user, _ in new]), users.c.is_deleted == 0)
            .values(version=version)
        )

    def _save_texts(self) -> None:
        """Keep scripts and environments where AccountingStoreFlags asks for them."""
        if not self.texts:
            return
        texts = {
            row[column]
            for flag, column in (("job_script", "script_hash"), ("job_env", "environment_hash"))
            if flag in self._store_flags
            for row in self.dirty_jobs.values()
        }
        rows = [
            {
                "hash": digest,
                "text": event.content.decode("utf-8", "replace"),
                "last_used_us": event.time_us,
            }
            for digest, event in self.texts.items()
            if digest in texts
        ]
        self.upsert(schema.texts, ("hash",), rows)

    def _load_cluster(self) -> None:
        clusters = schema.clusters
        flags = self.connection.execute(
            sa.select(clusters.c.store_flags).where(clusters.c.id == self.cluster_id)
        ).scalar()
        self._store_flags = frozenset((flags or "").lower().split(","))
        for flag in self._store_flags:
            word, _, number = flag.partition("=")
            if word == "max_step_records" and number.isdigit():
                self._most_steps = int(number)
        nodes = schema.cluster_nodes
        for row in self.connection.execute(
            sa.select(nodes).where(nodes.c.cluster_id == self.cluster_id)
        ):
            self.node_names[row.node_id] = row.name
            self.node_tres[row.node_id] = row.tres or ""
            self.node_threads[row.node_id] = row.threads
            if row.is_gone:
                self.gone_nodes.add(row.node_id)
        parts = schema.cluster_partitions
        for row in self.connection.execute(
            sa.select(parts).where(parts.c.cluster_id == self.cluster_id)
        ):
            self.partitions[row.name] = Partition(
                row.name,
                tres_billing_weights=row.billing_weights,
                def_mem_per_cpu_mib=row.def_mem_per_cpu_mib,
                def_mem_per_node_mib=row.def_mem_per_node_mib,
                def_mem_per_gpu_mib=row.def_mem_per_gpu_mib,
            )
        tracked = sa.select(schema.tres.c.type, schema.tres.c.name).where(
            schema.tres.c.id >= schema.FIRST_DYNAMIC_TRES_ID
        )
        self.tracked = [f"{kind}/{name}" for kind, name in self.connection.execute(tracked)]
        self.next_job_index = self._first_job_index = int(
            self.connection.execute(
                sa.select(schema.store.c.value).where(schema.store.c.name == "next_job_index")
            ).scalar_one()
        )


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    return (ids[first : first + _CHUNK] for first in range(0, len(ids), _CHUNK))


def _times(row: Row) -> tuple[int, ...]:
    """Return the times of a job that decide in which hours it counts."""
    return row["eligible_us"], row["start_us"], row["end_us"]
