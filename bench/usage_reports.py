"""How long it takes to add up an hour of a million jobs, and to report on a year of 1,000 users.

    python bench/usage_reports.py [--jobs 1000000] [--users 1000] [--database sqlite|mariadb]

MariaDB is a server of its own, which the tests' set-up starts. Rows are put in by SQL, as slurmdbd
would have left them; figures are wall seconds, those of reports the median of seven.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import actor_of
from pyslurm_ng.dbd.database import Database, mysql_url, sqlite_url
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.reports.usage import list_usage
from pyslurm_ng.dbd.rollup.duty import RollUp
from pyslurm_ng.dbd.rollup.periods import month_of, next_day, next_month
from pyslurm_ng.wire.report_messages import ListUsage
from tests.dbd.accounting_room import at, configured, record, register
from tests.dbd.mariadb import Server

CLUSTER = 1
TRES = (1, 2, 4, 5)  # cpu, mem, node, billing
SEEDS = 1000
YEAR_S = 365 * 86_400


@contextmanager
def store(kind: str, folder: str) -> Iterator[Database]:
    """Give an empty store."""
    server = Server() if kind == "mariadb" else None
    url = (
        mysql_url("localhost", 0, "root", None, "bench", server.socket)
        if server is not None
        else sqlite_url(f"{folder}/bench.sqlite")
    )
    database = Database(url)
    database.open()
    register(database)
    try:
        yield database
    finally:
        database.close()
        if server is not None:
            server.remove()


def fill_associations(database: Database, users: int) -> None:
    """Add users in a hundred accounts below root."""
    table = schema.associations
    rows = [
        {
            "id": 100 + number, "cluster_id": CLUSTER, "account": f"a{number % 100}",
            "user": f"u{number}" if number >= 100 else "", "parent_id": 1,
            "lineage": f"/a{number % 100}/" + (f"0-u{number}/" if number >= 100 else ""),
        }
        for number in range(users + 100)
    ]  # fmt: skip
    for row in rows[100:]:
        row["parent_id"] = 100 + int(row["account"][1:])
    with database.write() as connection:
        connection.execute(table.insert(), [{**row, "limits": "{}"} for row in rows])


def fill_jobs(database: Database, jobs: int, users: int, hour_us: int) -> int:
    """Add jobs that ran in one hour: some rows, which the database doubles; return how many."""
    table = schema.jobs
    rows = [
        {
            "job_index": number, "cluster_id": CLUSTER, "job_id": number,
            "association_id": 200 + number % users, "account": "a1", "user": "u1",
            "qos": "normal", "partition": "main", "state": "COMPLETED",
            "submit_us": hour_us, "eligible_us": hour_us,
            "start_us": hour_us + number * SECOND_US,
            "end_us": hour_us + (number + 60 + number % 1500) * SECOND_US,
            "tres_allocated": "billing=1,cpu=1,mem=1000,node=1",
            "summed_tres": "billing=1,cpu=1,mem=1000,node=1", "tres_requested": "cpu=1",
            "cpus_requested": 1, "cpus_allocated": 1, "nodes_allocated": 1, "node_list": "n1",
        }
        for number in range(1, SEEDS + 1)
    ]  # fmt: skip
    columns = [column.name for column in table.columns]
    count = SEEDS
    with database.write() as connection:
        connection.execute(table.insert(), rows)
        while count < jobs:
            shifted = [
                (table.c[name] + count).label(name)
                if name in ("job_index", "job_id")
                else table.c[name]
                for name in columns
            ]
            query = sa.select(*shifted).where(table.c.job_index <= min(count, jobs - count))
            connection.execute(table.insert().from_select(columns, query, include_defaults=False))
            count += min(count, jobs - count)
    return count


def fill_usage(database: Database, users: int, first_s: int) -> int:
    """Add a year of usage by day and month; return the number of rows."""
    count = 0
    for period, following in (("day", next_day), ("month", next_month)):
        start_s = first_s
        while start_s < first_s + YEAR_S:
            of_users = [
                {
                    "cluster_id": CLUSTER, "start_us": start_s * SECOND_US, "tres_id": tres_id,
                    "association_id": 200 + number, "qos_id": 1, "allocated_s": 3600 + number,
                }
                for number in range(users) for tres_id in TRES
            ]  # fmt: skip
            of_cluster = [
                {
                    "cluster_id": CLUSTER, "start_us": start_s * SECOND_US, "tres_id": tres_id,
                    "count": 64, "allocated_s": 10**6,
                }
                for tres_id in TRES
            ]  # fmt: skip
            with database.write() as connection:
                connection.execute(schema.association_usage[period].insert(), of_users)
                connection.execute(schema.cluster_usage[period].insert(), of_cluster)
            count += len(of_users)
            start_s = following(start_s)
    row = {"cluster_id": CLUSTER, "changed_us": 0}
    row |= {f"{period}_us": start_s * SECOND_US for period in schema.PERIODS}
    with database.write() as connection:
        database.upsert(connection, schema.last_ran, ("cluster_id",), [row])
    return count


def report_s(database: Database, first_s: int, end_s: int) -> float:
    """Return the median time of one report of all users."""
    request = ListUsage("association", first_s, end_s)
    times = []
    for _ in range(7):
        begun_s = time.perf_counter()
        with database.read() as connection:
            list_usage(
                Scope(connection, actor_of(connection, 0, "root", True), frozenset()), request
            )
        times.append(time.perf_counter() - begun_s)
    return statistics.median(times)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--database", choices=("sqlite", "mariadb"), default="sqlite")
    options = parser.parse_args()
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    with (
        tempfile.TemporaryDirectory() as folder,
        store(options.database, folder) as database,
    ):
        hour_us = at("12:00:00")
        record(database, configured(hour_us))
        fill_associations(database, options.users)
        jobs = fill_jobs(database, options.jobs, options.users, hour_us)
        duty = RollUp(
            database, lambda work: work(), Faults(log), lambda: at("13:00:00") // SECOND_US
        )
        begun_s = time.perf_counter()
        duty.catch_up()
        print(f"an hour of {jobs} jobs: {time.perf_counter() - begun_s:.2f} s")
        first_s = month_of(at("12:00:00") // SECOND_US - 2 * YEAR_S)
        rows = fill_usage(database, options.users, first_s)
        year_s = report_s(database, first_s, first_s + YEAR_S)
        print(f"a year of {options.users} users, {rows} rows: {year_s:.3f} s")
        middle_s = first_s + 15 * 86_400
        year_s = report_s(database, middle_s, first_s + YEAR_S)
        print(f"the same from the middle of a month on: {year_s:.3f} s")


if __name__ == "__main__":
    main()
