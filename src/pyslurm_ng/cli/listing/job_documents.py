"""Jobs as JSON, for squeue and scontrol show job."""

from pyslurm_ng.base.numbers import MOST_OF_A_PAGE, SECOND_US, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.cli.command import fail, write_bytes
from pyslurm_ng.cli.documents import tail
from pyslurm_ng.cli.request_parts import show_all as ask_all
from pyslurm_ng.data_parser.jobs import encode_jobs
from pyslurm_ng.data_parser.json_text import document_parts, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyslurm_ng.wire.client import Client

_FIRST_PAGE = 300
"""So few jobs slurmctld answers at once: the document begins before most of it is known."""


def print_jobs(
    argv: "list[str]", client: "Client", job_filter: "dict[str, Any]", show_all: bool
) -> int:
    """Ask for jobs and print them as JSON, page by page: a long list is never held as a whole.

    A page shows its jobs as they are when it is asked for. No job is there twice.
    """
    if not argv:
        fail("no command")
    flags = SHOW_DETAIL | (SHOW_ALL if show_all else 0)
    request = {"filter": job_filter, "flags": flags}
    if not job_filter.get("jobs"):
        request["most"] = _FIRST_PAGE
    reply = _beginning(client, request)
    cluster = reply["cluster_name"]
    more = {
        "last_backfill": seconds(reply["now_us"] // SECOND_US * SECOND_US),
        **tail(argv, cluster, last_update_us=reply["last_update_us"]),
    }
    for part in document_parts("jobs", _jobs(client, request, reply), more):
        write_bytes(part)
    return 0


def _beginning(client: "Client", request: "dict[str, Any]") -> "dict[str, Any]":
    """Return the first page; of a slurmctld that is older than pages, all jobs."""
    from pyslurm_ng.wire.client import SlurmError

    try:
        return ask_all(client, "ShowJobs", request)
    except SlurmError as refusal:
        from pyslurm_ng.base.error_numbers import Errno

        if refusal.code != Errno.SLURM_PROTOCOL_VERSION_ERROR or not request.pop("most", 0):
            raise
    return ask_all(client, "ShowJobs", request)


def _jobs(
    client: "Client", request: "dict[str, Any]", reply: "dict[str, Any]"
) -> "Iterator[bytes]":
    """Yield the jobs of an answer and of the pages behind it."""
    yield from encode_jobs(reply)
    while after := reply.get("next_job"):
        reply = client.call("ShowJobs", {**request, "after_job": after, "most": MOST_OF_A_PAGE})
        yield from encode_jobs(reply)
