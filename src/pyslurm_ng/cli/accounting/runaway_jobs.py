"""sacctmgr show runawayjobs: jobs that slurmdbd has open and slurmctld does not know."""

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.accounting.sacctmgr_session import Session, agreed
from pyslurm_ng.cli.clusters import confs_of
from pyslurm_ng.cli.command import Table, connect, fail, say
from pyslurm_ng.data_parser.records import rows_of
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

NOTE = (
    "NOTE: Runaway jobs are jobs that don't exist in the controller but have a start time and no "
    "end time"
)
_QUESTION = (
    "\nWould you like to fix these runaway jobs?\n"
    "(This will set the end time for each job to the latest out of the start, eligible, or submit "
    "times, and set the state to completed.)\n\n(You have 30 seconds to decide)"
)
_AT_ONCE = 1_000


def of_all_open(session: Session, where: "list[list[str]]", rows: "list[Row]") -> "list[Row]":
    """Return the open jobs that slurmctld does not know; exit if it cannot be asked."""
    known = {
        (conf["ClusterName"].lower(), job_id)
        for conf in _clusters_of(session, rows)
        for job_id in _known_jobs(conf)
    }
    if known.issuperset((row["Cluster"], row["ID"]) for row in rows):
        return []
    # A job that ended after the first question may be forgotten by now: its record is closed.
    again = session.call("ListEntities", {"entity": "runawayjobs", "where": where, "flags": []})
    return [row for row in rows_of(again) if (row["Cluster"], row["ID"]) not in known]


def _clusters_of(session: Session, rows: "list[Row]") -> "list[dict[str, str]]":
    """Return how to reach the clusters of some rows; exit if one cannot be reached."""
    names = ",".join(dict.fromkeys(row["Cluster"] for row in rows))
    if not names:
        return []
    conf = {"ClusterName": "cluster", **session.conf}
    confs = confs_of("sacctmgr", names, conf)
    if len(confs) < len(names.split(",")):
        raise SystemExit(1)
    return confs


def _known_jobs(conf: "dict[str, str]") -> "set[int]":
    """Return the jobs that a cluster's controller knows; exit if it cannot be asked."""
    try:
        request = {"filter": {"all_states": True}, "flags": SHOW_ALL}
        reply = connect(conf).call("ShowJobs", request)
    except SlurmError as error:
        fail(f"sacctmgr: error: Slurm controller, which knows its jobs: {error.text}")
    rows = Table(reply["fields"], reply["records"], ["job_id", "array_job_id"]).rows
    return {job_id for row in rows for job_id in row}


def offer(session: Session, rows: "list[Row]") -> int:
    """Ask whether the jobs are to be over, and let them; return the exit code."""
    if "readonly" in session.options:
        return 0
    if "immediate" not in session.options and not agreed(_QUESTION):
        return 0
    of_cluster: dict[str, list[str]] = {}
    for row in rows:
        of_cluster.setdefault(row["Cluster"], []).append(str(row["ID"]))
    parts = [
        (cluster, ",".join(ids[first : first + _AT_ONCE]))
        for cluster, ids in of_cluster.items()
        for first in range(0, len(ids), _AT_ONCE)
    ]
    for cluster, job_ids in parts:
        request = {
            "verb": "modify",
            "entity": "runawayjobs",
            "where": [["Clusters", "=", cluster], ["IDs", "=", job_ids]],
            "commit": True,
        }
        result = session.call("ChangeEntities", request, changing=True)
        for line in result["error_lines"]:
            say(line)
        if result["exit_code"]:
            return int(result["exit_code"])
    return 0
