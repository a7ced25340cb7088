"""The step manager of a job: where commands find it."""

import os

from pyslurm_ng.base.numbers import REQ_STEPMGR, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.cli.command import Table
from pyslurm_ng.wire.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NODE, _ADDRESS = "SLURM_STEPMGR", "SLURM_STEPMGR_ADDRESS"
# A node daemon that is started again is away for a second or two.
_WAIT_S = 20.0


def manager_at(conf: "Mapping[str, Any]", node: str, address: "tuple[str, int]") -> Client:
    """Return a connection to the step manager on a node; it is made by the first request."""
    return Client(conf, f"slurmd:{node}", (str(address[0]), int(address[1])), wait_s=_WAIT_S)


def own_manager(conf: "Mapping[str, Any]", job_id: int) -> "Client | None":
    """Return the step manager that the variables of the job around us name; None without one."""
    if os.environ.get("SLURM_JOB_ID", "") != str(job_id):
        return None
    node = os.environ.get(_NODE, "")
    host, _, port = os.environ.get(_ADDRESS, "").partition(" ")
    if not node or not host or not port.isdecimal():
        return None
    return manager_at(conf, node, (host, int(port)))


def manager_of(
    command: str, conf: "dict[str, str]", controller: Client, job_id: int
) -> "Client | None":
    """Return the step manager of a job that runs; None if it has none.

    Raises:
        SlurmError: there is no such job.
    """
    manager = own_manager(conf, job_id)
    if manager is not None:
        return manager
    row = job_row(controller, str(job_id), is_record=True)
    if row is None or not row[1] & REQ_STEPMGR or not row[2]:
        return None
    from pyslurm_ng.cli.node_clients import node_clients

    return node_clients(command, conf, controller, row[2])[0][1]


def end_queued(controller: Client, text: str, signal: int) -> bool:
    """End a step that waits at its job's step manager; return whether there was one."""
    from pyslurm_ng.base.numbers import SIGKILL
    from pyslurm_ng.cli.command import read_conf
    from pyslurm_ng.wire.client import SlurmError

    job, _, step = text.partition(".")
    if not step.isdecimal() or signal not in (0, SIGKILL):
        return False
    try:
        row = job_row(controller, job)
        conf = read_conf("scancel")
        manager = manager_of("scancel", conf, controller, row[0]) if row is not None else None
        if row is None or manager is None:
            return False
        manager.call("SignalStep", {"job_id": row[0], "step_id": int(step), "signal": SIGKILL})
    except SlurmError:
        return False
    return True


def job_row(
    controller: Client, text: str, *, is_record: bool = False
) -> "tuple[int, int, str, int] | None":
    """Return id, request's flags, batch host and state of a job; None for several records.

    Args:
        is_record: the text is the id of one record, even if an array has the same.

    Raises:
        SlurmError: there is no such job.
    """
    query = {
        "filter": {"jobs": [text], "all_states": True},
        "flags": SHOW_ALL | SHOW_DETAIL,
        "strict": True,
    }
    reply = controller.call("ShowJobs", query)
    names = ["job_id", "request_flags", "batch_host", "state"]
    rows = Table(reply["fields"], reply["records"], names).rows
    if is_record:
        rows = [row for row in rows if str(row[0]) == text]
    return tuple(rows[0]) if len(rows) == 1 else None
