"""sacctmgr show runawayjobs: jobs that slurmdbd has open and slurmctld does not know."""

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.accounting.sacctmgr_session import Session, agreed, rows_of
from pyslurm_ng.cli.command import Table, connect, fail, say
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
    for row in rows:
        if row["Cluster"] != session.cluster:
            fail(
                f"sacctmgr: error: runaway jobs of cluster {row['Cluster']} can only be found "
                f"where it is the cluster of slurm.conf; this is {session.cluster}"
            )
    if not rows:
        return rows
    try:
        reply = connect(session.conf).call(
            "ShowJobs", {"filter": {"all_states": True}, "flags": SHOW_ALL}
        )
    except SlurmError as error:
        fail(f"sacctmgr: error: Slurm controller, which knows its jobs: {error.text}")
    known = {
        job_id
        for row in Table(reply["fields"], reply["records"], ["job_id", "array_job_id"]).rows
        for job_id in row
    }
    if known.issuperset(row["ID"] for row in rows):
        return []
    # A job that ended after the first question may be forgotten by now: its record is closed.
    again = session.call("ListEntities", {"entity": "runawayjobs", "where": where, "flags": []})
    return [row for row in rows_of(again) if row["ID"] not in known]


def offer(session: Session, rows: "list[Row]") -> int:
    """Ask whether the jobs are to be over, and let them; return the exit code."""
    if "readonly" in session.options:
        return 0
    if "immediate" not in session.options and not agreed(_QUESTION):
        return 0
    ids = [str(row["ID"]) for row in rows]
    for first in range(0, len(ids), _AT_ONCE):
        job_ids = ",".join(ids[first : first + _AT_ONCE])
        request = {
            "verb": "modify",
            "entity": "runawayjobs",
            "where": [["Clusters", "=", session.cluster], ["IDs", "=", job_ids]],
            "commit": True,
        }
        result = session.call("ChangeEntities", request, changing=True)
        for line in result["error_lines"]:
            say(line)
        if result["exit_code"]:
            return int(result["exit_code"])
    return 0
