"""The week of jobs whose reports are recorded of Slurm 22.05, in a store of ours.

The rows go straight into the tables, as they went into those of 22.05 when it was recorded.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from tests.cli.accounting_commands import Printed
from tests.dbd.accounting_room import SECOND
from tests.dbd.rollup.usage_room import roll_up

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sreport"
MARS, VENUS = 1, 2
CLUSTERS = {"mars": MARS, "venus": VENUS}
MARS_TRES = "cpu=64,mem=256000,node=4,billing=64,gres/gpu=8,gres/gpu:a100=8"
NODE_TRES = "cpu=16,mem=64000,node=1,billing=16,gres/gpu=2,gres/gpu:a100=2"
VENUS_TRES = "cpu=2000,mem=8000000,node=10,billing=2000"
# Id, cluster, id of the parent, account, user: ids as 22.05 gave them.
ASSOCIATIONS = (
    (1, MARS, 0, "root", ""), (2, MARS, 1, "root", "root"), (3, MARS, 1, "science", ""),
    (4, MARS, 3, "physics", ""), (5, MARS, 3, "chem", ""), (6, MARS, 4, "optics", ""),
    (7, MARS, 1, "industry", ""), (8, MARS, 7, "cars", ""), (9, MARS, 4, "physics", "alice"),
    (10, MARS, 5, "chem", "alice"), (11, MARS, 5, "chem", "bob"), (12, MARS, 4, "physics", "carol"),
    (13, MARS, 8, "cars", "carol"), (14, MARS, 8, "cars", "dan"), (15, MARS, 6, "optics", "games"),
    (21, VENUS, 0, "root", ""), (22, VENUS, 21, "science", ""), (23, VENUS, 22, "physics", ""),
    (24, VENUS, 23, "physics", "alice"), (25, VENUS, 21, "ocean", ""),
    (26, VENUS, 25, "ocean", "eve"),
)  # fmt: skip
_OF = {(cluster, account, user): number for number, cluster, _, account, user in ASSOCIATIONS}
# Id, name, flags, users, nodes, begin, end, TRES.
RESERVATIONS = (
    (1, "lesson", "", "alice,bob", "n[1-2]", "2026-11-12T10:00:00", "2026-11-12T13:00:00",
     "cpu=32,mem=128000,node=2,billing=32,gres/gpu=4,gres/gpu:a100=4"),
    (3, "moved", "", "dan", "n4", "2026-11-14T03:00:00", "2026-11-14T03:20:00",
     NODE_TRES),
    (3, "moved", "", "dan", "n[3-4]", "2026-11-14T03:20:00", "2026-11-14T05:00:00",
     "cpu=32,mem=128000,node=2,billing=32,gres/gpu=4,gres/gpu:a100=4"),
    (2, "upkeep", "MAINT", "root", "n3", "2026-11-13T20:00:00", "2026-11-13T22:00:00", NODE_TRES),
    # A day later; jobs use parts of these.
    (5, "half", "", "alice,bob", "n[1-2]", "2026-11-17T10:00:00", "2026-11-17T11:30:00",
     "cpu=32,mem=128000,node=2,billing=32,gres/gpu=4,gres/gpu:a100=4"),
    (6, "odd", "", "dan", "n4", "2026-11-17T13:07:11", "2026-11-17T14:00:00", NODE_TRES),
    (7, "mended", "MAINT", "carol,root", "n3", "2026-11-17T16:00:00", "2026-11-17T17:00:00",
     NODE_TRES),
    (8, "grown", "", "alice", "n4", "2026-11-17T18:00:00", "2026-11-17T18:20:00", NODE_TRES),
    (8, "grown", "", "alice", "n[3-4]", "2026-11-17T18:20:00", "2026-11-17T19:00:00",
     "cpu=32,mem=128000,node=2,billing=32,gres/gpu=4,gres/gpu:a100=4"),
)  # fmt: skip
NODES = {"1": "n1", "2": "n[1-2]", "3": "n[1-3]", "4": "n[1-4]"}


def moment(text: str) -> int:
    """Return a time in UTC, in microseconds."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) * SECOND


def store_week(database: Database) -> None:
    """Store the week, and add it up until the middle of the next one."""
    begin = moment("2026-10-26T00:00:00")
    with database.write() as connection:
        _insert(connection, schema.clusters, [{"id": n, "name": c} for c, n in CLUSTERS.items()])
        _insert(
            connection,
            schema.tres,
            [{"id": 1001, "type": "gres", "name": "gpu"},
             {"id": 1002, "type": "gres", "name": "gpu:a100"}],
        )  # fmt: skip
        _insert(
            connection,
            schema.associations,
            [
                {"id": number, "cluster_id": cluster, "parent_id": parent, "account": account,
                 "user": user, "limits": "", "comment": ""}
                for number, cluster, parent, account, user in ASSOCIATIONS
            ],
        )  # fmt: skip
        connection.execute(schema.qos.delete())
        _insert(
            connection,
            schema.qos,
            [{"id": 1, "name": "normal", "limits": ""}, {"id": 2, "name": "high", "limits": ""}],
        )
        events = [
            {"cluster_id": cluster, "node_name": "", "start_us": begin, "tres": tres,
             "reason": "", "cluster_nodes": ""}
            for cluster, tres in ((MARS, MARS_TRES), (VENUS, VENUS_TRES))
        ]  # fmt: skip
        _insert(connection, schema.node_events, events)
        down = {"node_name": "n4", "state": "DOWN", "start_us": moment("2026-11-11T05:00:00"),
                "end_us": moment("2026-11-11T09:30:30"), "tres": NODE_TRES, "cluster_id": MARS,
                "reason": "broken", "cluster_nodes": ""}  # fmt: skip
        _insert(connection, schema.node_events, [down])
        _insert(connection, schema.reservations, list(_reservations()))
        jobs = list(_jobs())
        _insert(connection, schema.jobs, [job for job, _ in jobs])
        _insert(connection, schema.suspensions, [row for _, rows in jobs for row in rows])
    roll_up(database, moment("2026-11-18T12:00:00"))


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    connection.execute(table.insert(), rows)


def _reservations() -> Iterator[dict[str, Any]]:
    for number, name, flags, users, nodes, start, end, tres in RESERVATIONS:
        yield {"cluster_id": MARS, "reservation_id": number, "name": name, "flags": flags,
               "users": users, "accounts": "", "node_list": nodes, "tres": tres,
               "start_us": moment(start), "end_us": moment(end)}  # fmt: skip


def _jobs() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the row of each job, and those of its suspensions."""
    for line in (GOLDEN / "jobs.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        words = ["" if word == "-" else word for word in line.split()]
        cluster, job_id, user, uid, gid, account, partition, qos, wckey = words[:9]
        submit, eligible, start, end = (int(word) * SECOND for word in words[9:13])
        state, nodes, cpus, mem, gpus, reservation, suspended, array = words[13:]
        cluster_id = CLUSTERS[cluster]
        tres = f"cpu={cpus},mem={mem},node={nodes},billing={cpus}"
        if int(gpus):
            tres += f",gres/gpu={gpus},gres/gpu:a100={gpus}"
        spans = [tuple(int(word) * SECOND for word in suspended.split("-"))] if suspended else []
        job = {
            "job_index": int(job_id), "sluid": int(job_id), "original_sluid": int(job_id),
            "cluster_id": cluster_id, "job_id": int(job_id), "user": user, "uid": int(uid),
            "gid": int(gid), "account": account, "partition": partition, "qos": qos,
            "wckey": wckey, "submit_us": submit, "eligible_us": eligible, "start_us": start,
            "end_us": end, "state": state, "cpus_requested": int(cpus),
            "association_id": _OF[cluster_id, account, user], "reservation": reservation,
            "cpus_allocated": int(cpus) if start else 0, "tres_allocated": tres if start else "",
            "node_list": NODES[nodes] if start else "",
            "suspended_us": sum(last - first for first, last in spans),
            "array_job_id": int(array.partition("_")[0] or 0),
        }  # fmt: skip
        rows = [
            {"job_index": int(job_id), "start_us": first, "end_us": last} for first, last in spans
        ]
        yield job, rows


def recorded_reports(theme: str) -> Iterator[tuple[str, Printed]]:
    """Yield the command lines of a file of `tests/golden/sreport`, and what 22.05 printed."""
    text = (GOLDEN / f"{theme}.txt").read_text()
    for block in text.removeprefix("$ ").split("\n\n$ "):
        line, _, rest = block.partition("\n")
        stdout, _, rest = rest.partition("--- stderr\n")
        stderr, _, code = rest.rpartition("--- exit ")
        yield line, Printed(stdout, stderr, int(code))
