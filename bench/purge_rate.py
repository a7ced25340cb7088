"""How long each step of a purge of a million jobs holds the writing thread, beside what comes in.

    python bench/purge_rate.py [--jobs 1000000] [--job-steps 0] [--database sqlite|mariadb]
                               [--steps 0]

The journal of a controller waits for the step that is going on, and for no other. After every tenth
step a message of 100 jobs is stored, as a controller sends it.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurmdbd_conf import parse_slurmdbd_conf
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import Frame
from pyslurm_ng.dbd.purge.duty import Purge
from pyslurm_ng.dbd.purge.rules import policy_of
from pyslurm_ng.dbd.rollup.duty import RollUp
from tests.dbd.accounting_room import (
    JOURNAL,
    at,
    configured,
    finished,
    on,
    record,
    started,
    submitted,
)
from usage_reports import YEAR_S, fill_associations, fill_jobs, store

JOBS_OF_MESSAGE = 100
CONF = "StorageType=accounting_storage/sqlite\nPurgeJobAfter=1days\n"


class EnoughError(Exception):
    """As many steps as were asked for are done."""


class Steps:
    """Does the steps of a purge as the writing thread would, and times them."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        self._sequence = 1
        self.gone = 0
        self.steps_s: list[float] = []
        self.messages_s: list[float] = []

    def run(self, step: Callable[[], int]) -> int:
        """Do one step, and store a message after every tenth."""
        begun_s = time.perf_counter()
        gone = step()
        self.gone += gone
        self.steps_s.append(time.perf_counter() - begun_s)
        if len(self.steps_s) == self._most:
            raise EnoughError
        if len(self.steps_s) % 10 == 0:
            frames = self._message(at("12:00:00") + YEAR_S * SECOND_US)
            begun_s = time.perf_counter()
            ingest(self._database, 1, JOURNAL, frames[0].sequence - 1, frames)
            self.messages_s.append(time.perf_counter() - begun_s)
        return gone

    def _message(self, when: int) -> list[Frame]:
        frames = []
        for _ in range(JOBS_OF_MESSAGE):
            self._sequence += 1
            number = 10**7 + self._sequence
            events = [submitted(when, number), *started(when, number, on(1))]
            events += finished(when + SECOND_US, number, 3, 0)
            frames.append(Frame(1, self._sequence, events))
        return frames


def fill_steps(database: Database, steps: int) -> None:
    """Add steps to each job: one row, which the database copies."""
    jobs, table = schema.jobs, schema.steps
    row = {
        "name": "work", "state": "COMPLETED", "node_list": "n1", "nodes": 1, "tasks": 1, "cpus": 1,
        "tres_allocated": "billing=1,cpu=1,mem=1000,node=1", "submit_line": "srun work",
    }  # fmt: skip
    columns = [column.name for column in table.columns]
    for number in range(steps):
        own: dict[str, Any] = {
            "job_index": jobs.c.job_index, "step_id": sa.literal(number),
            "het_component": sa.literal(-1), "start_us": jobs.c.start_us, "end_us": jobs.c.end_us,
        }  # fmt: skip
        shown = [
            own[name]
            if name in own
            else sa.literal(row.get(name, schema.default_of(table.c[name])))
            for name in columns
        ]
        with database.write() as connection:
            query = sa.select(*shown)
            connection.execute(table.insert().from_select(columns, query, include_defaults=False))


def figures(seconds: list[float]) -> str:
    """Return median, 99th percentile and greatest in milliseconds."""
    ordered = sorted(seconds)
    values = (statistics.median(ordered), ordered[len(ordered) * 99 // 100], ordered[-1])
    return ", ".join(f"{1000 * value:.1f}" for value in values)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--job-steps", type=int, default=0, help="of each job")
    parser.add_argument("--database", choices=("sqlite", "mariadb"), default="sqlite")
    parser.add_argument("--steps", type=int, default=0, help="stop after so many")
    options = parser.parse_args()
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    with tempfile.TemporaryDirectory() as folder, store(options.database, folder) as database:
        record(database, configured(at("12:00:00")))
        fill_associations(database, 100)
        fill_jobs(database, options.jobs, 100, at("12:00:00"))
        fill_steps(database, options.job_steps)
        clock_s = at("13:00:00") // SECOND_US
        RollUp(database, lambda work: work(), Faults(log), lambda: clock_s).catch_up()
        steps = Steps(database, options.steps)
        policy = policy_of(parse_slurmdbd_conf(CONF))
        duty = Purge(database, steps.run, Faults(log), policy, lambda: clock_s + 3 * 86_400)
        begun_s, used_s = time.perf_counter(), time.process_time()
        with contextlib.suppress(EnoughError):
            duty.purge(policy)
        took_s, used_s = time.perf_counter() - begun_s, time.process_time() - used_s
        print(f"{steps.gone} rows in {took_s:.1f} s, {used_s:.1f} s of this process's CPU")
        print(f"steps: {len(steps.steps_s)}; ms median, p99, most: {figures(steps.steps_s)}")
        print(f"messages of {JOBS_OF_MESSAGE} jobs beside: {figures(steps.messages_s)}")


if __name__ == "__main__":
    main()
