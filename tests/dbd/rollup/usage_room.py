"""Usage stored without a thread, at a time that a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.rollup.duty import RollUp
from tests.dbd.accounting_room import SECOND


def roll_up(
    database: Database, clock: int, run: Callable[[Callable[[], Any]], Any] = lambda work: work()
) -> None:
    """Store what is due at a time, in microseconds."""
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    RollUp(database, run, Faults(log), lambda: clock // SECOND).catch_up()


def cluster_row(database: Database, hour: int, tres_id: int = 1) -> dict[str, int]:
    """Return what is not zero of a cluster's hour."""
    table = schema.cluster_usage["hour"]
    with database.read() as connection:
        query = sa.select(table).where(table.c.start_us == hour, table.c.tres_id == tres_id)
        row = connection.execute(query).one()._mapping
    return {name: row[name] for name in row if name.endswith("_s") and row[name]}
