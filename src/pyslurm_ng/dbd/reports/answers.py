"""Which report answers which request of sreport."""

from __future__ import annotations

import time
from typing import TypeAlias

import msgspec
import sqlalchemy as sa

from pyslurm_ng.dbd.admin.change import Actor
from pyslurm_ng.dbd.reports.job_sizes import list_job_sizes
from pyslurm_ng.dbd.reports.reserved import list_reservation_usage
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.reports.usage import list_usage
from pyslurm_ng.wire.report_messages import ListJobSizes, ListReservationUsage, ListUsage

REQUESTS = (ListUsage, ListJobSizes, ListReservationUsage)
ReportRequest: TypeAlias = ListUsage | ListJobSizes | ListReservationUsage


def report(
    connection: sa.Connection, request: ReportRequest, actor: Actor, private: frozenset[str]
) -> msgspec.Struct:
    """Return the answer to a request.

    Args:
        private: words of PrivateData.

    Raises:
        RefusedError: the caller may not see it, or it is too much.
    """
    scope = Scope(connection, actor, private)
    match request:
        case ListUsage():
            return list_usage(scope, request)
        case ListJobSizes():
            return list_job_sizes(scope, request, int(time.time()))
        case ListReservationUsage():
            return list_reservation_usage(scope, request)
