"""Which operations there are: the paths of the OpenAPI table, and what answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.data_parser.schemas import table
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints import (
    accounting,
    accounting_changes,
    accounting_jobs,
    cluster,
    job_changes,
    job_submission,
    jobs,
    nodes,
    partition_changes,
    reservations,
    utilities,
)

Handler = Callable[[Call], Answer]
HANDLERS: dict[tuple[str, str], Handler] = {
    **cluster.ROUTES,
    **jobs.ROUTES,
    **job_changes.ROUTES,
    **job_submission.ROUTES,
    **nodes.ROUTES,
    **partition_changes.ROUTES,
    **reservations.ROUTES,
    **accounting.ROUTES,
    **accounting_changes.ROUTES,
    **accounting_jobs.ROUTES,
    **utilities.ROUTES,
}
"""By method and path, for each operation of the table."""


OWN_SHAPE = ("/slurm/{version}/jobs/state/",)
"""Paths whose answer Slurm lays out in another way than its schema says."""


@dataclass(frozen=True)
class Operation:
    """One method of one path in one version; `body` and `answer` are names of schemas."""

    path: str
    method: str
    version: str
    tag: str
    body: str
    answer: str
    parameters: tuple[dict[str, Any], ...]
    handler: Handler


def operations() -> dict[tuple[str, str, str], Operation]:
    """Return all operations by version, method and path."""
    return {
        (version, method, path): Operation(
            path,
            method,
            version,
            row["tag"],
            row.get("body", ""),
            "" if path in OWN_SHAPE else row.get("answer", ""),
            tuple(row.get("parameters", ())),
            HANDLERS[method, path],
        )
        for version in VERSIONS
        for path, methods in table(version)["paths"].items()
        for method, row in methods.items()
    }
