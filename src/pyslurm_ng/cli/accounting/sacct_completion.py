"""sacct --completion: records of JobCompType=jobcomp/filetxt, read from the file."""

import os

from pyslurm_ng.cli.accounting.sacct_selection import states, uids
from pyslurm_ng.cli.accounting.table_layout import TableLayout
from pyslurm_ng.cli.command import fail, split_list, write_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.accounting.table_layout import Chosen

FORMAT = "jobid,uid,jobname,partition,nnodes,nodelist,state,end"
LONG_FORMAT = "jobid,uid,jobname,partition,nnodes,nodelist,state,start,end,timelimit"
USUAL_PATH = "/var/log/slurm_jobcomp.log"

# By sacct's field: the word before = in the file.
WORDS = {
    "Account": "Account",
    "Cluster": "Cluster",
    "DerivedExitCode": "DerivedExitCode",
    "Eligible": "EligibleTime",
    "End": "EndTime",
    "ExitCode": "ExitCode",
    "JobID": "JobId",
    "JobIDRaw": "JobId",
    "JobName": "Name",
    "NCPUS": "ProcCnt",
    "NNodes": "NodeCnt",
    "NodeList": "NodeList",
    "Partition": "Partition",
    "QOS": "QOS",
    "Reservation": "ReservationName",
    "Start": "StartTime",
    "State": "JobState",
    "Submit": "SubmitTime",
    "Timelimit": "TimeLimit",
    "WCKey": "WcKey",
    "WorkDir": "WorkDir",
}
# Written as `name(number)`.
PAIRS = {"User": "UserId", "UID": "UserId", "Group": "GroupId", "GID": "GroupId"}
ALL_WORDS = (
    "JobId", "UserId", "GroupId", "Name", "JobState", "Partition", "TimeLimit", "StartTime",
    "EndTime", "NodeList", "NodeCnt", "ProcCnt", "WorkDir", "ReservationName", "Tres", "Account",
    "QOS", "WcKey", "Cluster", "SubmitTime", "EligibleTime", "ArrayJobId", "ArrayTaskId",
    "HetJobId", "HetJobOffset", "DerivedExitCode", "ExitCode",
)  # fmt: skip


def parse_line(line: str) -> "dict[str, str]":
    """Return the values of a line by word. Words have a fixed order, so a name may hold blanks."""
    values: dict[str, str] = {}
    text = " " + line.strip()
    last, begin = "", 0
    for word in ALL_WORDS:
        at = text.find(f" {word}=", begin)
        if at < 0:
            continue
        if last:
            values[last] = text[begin:at]
        last, begin = word, at + len(word) + 2
    if last:
        values[last] = text[begin:]
    return values


def cell(values: "dict[str, str]", field: str) -> str:
    """Return the text of a field for a record."""
    if field in PAIRS:
        name, _, number = values.get(PAIRS[field], "").partition("(")
        return name if field in ("User", "Group") else number.rstrip(")")
    return values.get(WORDS[field], "")


def selected(options: "dict[str, str]") -> "list[tuple[str, set[str]]]":
    """Return words and the values of them that the options select; exit on a bad value."""
    chosen = [
        (word, set(split_list(options[option])))
        for option, word in (("jobs", "JobID"), ("partition", "Partition"), ("name", "JobName"),
                             ("accounts", "Account"), ("qos", "QOS"))
        if option in options
    ]  # fmt: skip
    if "state" in options:
        chosen.append(("State", set(states(options["state"]))))
    if "user" in options:
        chosen.append(("UID", {str(uid) for uid in uids(options)}))
    return chosen


def show(
    conf: "dict[str, str]",
    options: "dict[str, str]",
    chosen: "list[Chosen]",
) -> int:
    """Print the records of the file that -f or JobCompLoc names; return the exit code."""
    path = options.get("file") or conf.get("JobCompLoc") or USUAL_PATH
    if "file" in options and not os.path.isfile(path):
        fail(f"{path} is not a valid file")
    if conf.get("JobCompType", "none").rpartition("/")[2].lower() == "none":
        fail("Slurm job completion is disabled")
    for name, _, _ in chosen:
        if name not in WORDS and name not in PAIRS:
            fail(f"sacct: error: {name} is not part of completion records")
    if not os.path.isfile(path):
        fail(f"{path} is not a valid file")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            records = [parse_line(line) for line in file]
    except OSError as error:
        fail(f"sacct: error: {path}: {error.strerror}")
    selected_jobs = selected(options)
    rows = (
        [cell(values, name) for name, _, _ in chosen]
        for values in records
        if values and all(cell(values, field) in allowed for field, allowed in selected_jobs)
    )
    layout = TableLayout(chosen, options)
    if "noheader" not in options:
        write_bytes(layout.header())
    write_bytes(layout.rows(rows))
    return 0
