"""Requests about many jobs, sent in parts: slurmctld hears other users between two of them."""

from pyslurm_ng.base.numbers import MOST_IDS, SHOW_ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.wire.client import Client


def change_all(
    ids: "list[str]", ask: "Callable[[list[str], dict[str, int]], dict[str, Any]]"
) -> "dict[str, Any]":
    """Change the jobs named, or all that `ask` means without ids; return the answers as one.

    Args:
        ids: job ids as typed.
        ask: sends the change of some of the ids with some more fields, and returns the answer.
    """
    whole: dict[str, Any] = {"count": 0, "errors": [], "done": []}
    progress: dict[str, int] = {}
    first = 0
    while True:
        part = ids[first : first + MOST_IDS]
        reply = ask(part, progress)
        whole["count"] += reply["count"]
        whole["errors"] += reply["errors"]
        whole["done"] += reply.get("done", [])
        if reply.get("is_partial"):
            first += reply["next_id"]
            progress = {"from_job": reply["next_job"], "below_job": reply["below_job"]}
            continue
        first += len(part)
        progress = {}
        if first >= len(ids):
            return whole


def show_all(
    client: "Client", kind: str, request: "dict[str, Any]", name: str = "jobs"
) -> "dict[str, Any]":
    """Return the answer to a query about the ids in its filter, or of its own list `steps`."""
    holder = request["filter"] if name == "jobs" else request
    ids = holder.get(name) or []
    if len(ids) <= MOST_IDS:
        return client.call(kind, request)
    ids = [*dict.fromkeys(ids)]
    # Of one size, since a single unknown id is an error and one among others is not.
    count = -(-len(ids) // MOST_IDS)
    size = -(-len(ids) // count)
    whole: dict[str, Any] = {}
    for first in range(0, len(ids), size):
        part = {**holder, name: ids[first : first + size]}
        reply = client.call(kind, {**request, "filter": part} if name == "jobs" else part)
        if whole:
            reply["records"] = whole["records"] + reply["records"]
        whole = reply
    return whole


def record_id(client: "Client", text: str) -> int:
    """Return the number of the job that an id as typed names: a task, a component, a SLUID.

    Raises:
        SlurmError: no job has it.
    """
    from pyslurm_ng.cli.command import Table

    query = {"filter": {"jobs": [text], "all_states": True}, "flags": SHOW_ALL}
    reply = client.call("ShowJobs", query)
    rows = Table(reply["fields"], reply["records"], ["job_id"]).rows
    if not rows:
        from pyslurm_ng.base.error_numbers import Errno
        from pyslurm_ng.base.error_texts import error_text
        from pyslurm_ng.wire.client import SlurmError

        number = Errno.ESLURM_INVALID_JOB_ID
        raise SlurmError(number, error_text(number))
    return int(rows[0][0])
