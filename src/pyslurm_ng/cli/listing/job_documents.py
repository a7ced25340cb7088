"""Jobs as JSON, for squeue and scontrol show job."""

from pyslurm_ng.base.numbers import SECOND_US, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.cli.command import fail, write_bytes
from pyslurm_ng.cli.documents import tail
from pyslurm_ng.cli.request_parts import show_all as ask_all
from pyslurm_ng.data_parser.jobs import encode_jobs
from pyslurm_ng.data_parser.json_text import document_parts, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client


def print_jobs(
    argv: "list[str]", client: "Client", job_filter: "dict[str, Any]", show_all: bool
) -> int:
    """Ask for jobs and print them as JSON."""
    if not argv:
        fail("no command")
    flags = SHOW_DETAIL | (SHOW_ALL if show_all else 0)
    reply = ask_all(client, "ShowJobs", {"filter": job_filter, "flags": flags})
    cluster = reply["cluster_name"]
    more = {
        "last_backfill": seconds(reply["now_us"] // SECOND_US * SECOND_US),
        **tail(argv, cluster, last_update_us=reply["last_update_us"]),
    }
    for part in document_parts("jobs", encode_jobs(reply), more):
        write_bytes(part)
    return 0
