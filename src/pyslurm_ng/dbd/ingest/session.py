"""The rows that one transaction of journal batches works on."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest.cluster_facts import ClusterFacts
from pyslurm_ng.dbd.ingest.position import Position
from pyslurm_ng.dbd.lengths import LEAST, MOST, fit
from pyslurm_ng.dbd.rollup.tables import ask_again, note_change
from pyslurm_ng.dbd.statements import NUMBERS, Statement
from pyslurm_ng.dbd.updates import next_version
from pyslurm_ng.model.events import ScriptStored

_CHUNK = 500  # ids per IN list: well below SQLite's limit of bound variables

Row = dict[str, Any]

_jobs, _steps = schema.jobs, schema.steps
_JOB_NAMES = tuple(_jobs.columns.keys())
_STEP_NAMES = tuple(_steps.columns.keys())
_OF_CLUSTER = _jobs.c.cluster_id == sa.bindparam("cluster_id", type_=sa.Integer())
_IS_LAST = sa.and_(
    _OF_CLUSTER,
    _jobs.c.job_id.in_([NUMBERS]),
    _jobs.c.is_last == 1,
)
_LAST_ROWS = Statement(sa.select(_jobs).where(_IS_LAST))
_HIGHEST_ID = Statement(sa.select(sa.func.max(_jobs.c.job_id)).where(_OF_CLUSTER))
_ARE_REPLACED = Statement(_jobs.update().where(_IS_LAST).values(is_last=sa.text("0")))
_OPEN_STEPS = Statement(
    sa.select(_steps).where(_steps.c.job_index.in_([NUMBERS]), _steps.c.end_us == 0)
)
_NEW_JOB = {column.name: schema.default_of(column) for column in _jobs.columns}
_NEW_STEP = {column.name: schema.default_of(column) for column in _steps.columns}
_SET_NEXT_INDEX = Statement(
    schema.store.update()
    .where(schema.store.c.name == "next_job_index")
    .values(value=sa.bindparam("next_index", type_=sa.String()))
)


class Session:
    """The rows one transaction works on.

    `jobs` maps job id to its current row; `dirty_jobs` maps a job index to a row to be written
    (a requeue leaves two rows of one job id dirty). Steps are keyed by job index, step id and
    het component. `keeps_scripts` and `keeps_environments`: AccountingStoreFlags asks for them.
    """

    def __init__(
        self,
        database: Database,
        connection: sa.Connection,
        cluster_id: int,
        position: Position,
        facts: ClusterFacts,
    ) -> None:
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
        self.reservation_ids: dict[str, int] = {}  # as the last event of a reservation left them
        self.node_names = facts.node_names
        self.node_tres = facts.node_tres
        self.node_threads = facts.node_threads
        self.gone_nodes = facts.gone_nodes
        self.partitions = facts.partitions
        self.tracked = facts.tracked
        self.keeps_scripts = "job_script" in facts.store_flags
        self.keeps_environments = "job_env" in facts.store_flags
        self._facts = facts
        self._position = position
        self.changed_us = MOST
        self._energy_since_us = MOST
        self._times: dict[int, tuple[int, ...]] = {}
        self.next_job_index = position.next_job_index

    def load(
        self, job_ids: Iterable[int], step_jobs: Iterable[int], new_ids: Iterable[int]
    ) -> None:
        """Read the rows of some jobs, and of the steps of some of these.

        Args:
            new_ids: ids that are given to new jobs; records that had them before are the last of
                them no longer.
        """
        of_cluster = {"cluster_id": self.cluster_id}
        for ids in _chunks(list(job_ids)):
            for values in _LAST_ROWS.run(self.connection, of_cluster, ids):
                row = dict(zip(_JOB_NAMES, values, strict=True))
                self.jobs[row["job_id"]] = row
                self._times[row["job_index"]] = _times(row)
        for ids in _chunks(self._used_before(new_ids)):
            _ARE_REPLACED.run(self.connection, of_cluster, ids)
        indexes = [self.jobs[job_id]["job_index"] for job_id in step_jobs if job_id in self.jobs]
        for ids in _chunks(indexes):
            for values in _OPEN_STEPS.run(self.connection, {}, ids):
                step = dict(zip(_STEP_NAMES, values, strict=True))
                key = (step["job_index"], step["step_id"], step["het_component"])
                self._keep_step(key, step)

    def _used_before(self, new_ids: Iterable[int]) -> list[int]:
        """Return ids of new jobs that a job had before: none, until ids begin again."""
        ids = list(new_ids)
        if not ids:
            return ids
        highest = _HIGHEST_ID.run(self.connection, {"cluster_id": self.cluster_id}).scalar() or 0
        return [job_id for job_id in ids if job_id <= highest]

    def new_job(self, job_id: int) -> Row:
        """Return a new row that replaces the job's current one."""
        older = self.jobs.get(job_id)
        if older is not None:
            older["is_last"] = 0
            self.dirty_jobs[older["job_index"]] = older
        row = _NEW_JOB.copy()
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
        return step_id < self._facts.most_steps or step_id > MAX_NORMAL_STEP_ID

    def step(self, job_index: int, step_id: int, component: int = -1) -> Row:
        """Return a step's row, to be changed in place; a new step gets a new row."""
        key = (job_index, step_id, component)
        row = self.steps.get(key)
        if row is None:
            row = _NEW_STEP.copy()
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

    def upsert(self, table: sa.Table, keys: Sequence[str], rows: list[Row]) -> None:
        """Insert or update rows; texts that are too long for a column are cut."""
        usual = fit(table, rows, self.database.row_bytes)
        self.database.upsert(self.connection, table, keys, rows, usual)

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
        if self.next_job_index != self._position.next_job_index:
            _SET_NEXT_INDEX.run(self.connection, {"next_index": str(self.next_job_index)})

    def changed_at(self, time_us: int) -> None:
        """Note that something since a time may not be as it was."""
        self.changed_us = min(self.changed_us, time_us)

    def energy_known(self, row: Row) -> None:
        """Note that the energy of a job that is over counts in all hours in which it ran."""
        self._energy_since_us = min(self._energy_since_us, row["start_us"] or MOST)

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
            if row["end_us"] and not before[-1] and "energy=" in row["tres_allocated"]:
                self.energy_known(row)
        claimed_us, changed_us = self._position.claimed_us, self._position.changed_us
        is_earlier = not changed_us or changed_us > self.changed_us
        if LEAST < self.changed_us < claimed_us and is_earlier:
            note_change(self.connection, self.cluster_id, self.changed_us)
        if self._energy_since_us < claimed_us:
            since_us = self._energy_since_us
            ask_again(self.connection, self.database, self.cluster_id, since_us)

    def _save_wckeys(self, rows: Iterable[Row]) -> None:
        """Give users the keys that their jobs have, on clusters that track them."""
        if "track_wckey" not in self._facts.store_flags:
            return
        named = ((row["user"], row["wckey"].removeprefix("*")) for row in rows)
        keys = {(user, key) for user, key in named if key}
        if not keys:
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
        """Keep the scripts and environments that jobs name."""
        if not self.texts:
            return
        kept = []
        if self.keeps_scripts:
            kept.append("script_hash")
        if self.keeps_environments:
            kept.append("environment_hash")
        texts = {row[column] for column in kept for row in self.dirty_jobs.values()}
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


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    return (ids[first : first + _CHUNK] for first in range(0, len(ids), _CHUNK))


def _times(row: Row) -> tuple[int, ...]:
    """Return the times of a job that decide in which hours it counts."""
    return row["eligible_us"], row["start_us"], row["end_us"]
