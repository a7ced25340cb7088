"""scontrol hold, release, requeue, suspend, resume, top, completing and wait_job."""

import os
from time import sleep

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import (
    JOB_FLAG_COMPLETING,
    JOB_FLAG_CONFIGURING,
    JOB_RUNNING,
    JOB_SUSPENDED,
    SECOND_US,
    SHOW_ALL,
)
from pyslurm_ng.cli.command import Table, fail, say, uid_of
from pyslurm_ng.cli.control.update import change_jobs
from pyslurm_ng.cli.listing.list_format import Dates, long_time
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Action, Session


def _chosen(arguments: "list[str]", keyword: str) -> "dict[str, Any]":
    """Return ids, or a name and owner, of `27,28` or `jobname=x userid=u`."""
    request: dict[str, Any] = {}
    plain = []
    for word in arguments:
        key, _, value = word.partition("=")
        if key.lower() in ("jobname", "name") and value:
            request["name"] = value
        elif key.lower() in ("userid", "user", "uid"):
            request["uid"] = uid_of(value)
        else:
            plain.append(_without_key(word))
    if plain:
        request["jobs"] = plain
    elif "name" not in request:
        fail(f"too few arguments for keyword:{keyword}")
    return request


def _without_key(word: str) -> str:
    """Return `27` of `jobid=27`."""
    key, equals, value = word.partition("=")
    return value if equals and key.lower() in ("jobid", "job") else word


def _holder(keyword: str, **more: bool) -> "Action":
    """Return the action of a command that holds or releases."""

    def act(session: "Session", arguments: "list[str]") -> int:
        request = {**_chosen(arguments, keyword), **more}
        return change_jobs(session, "HoldJobs", request, "slurm_suspend error:")

    return act


def _steer(kind: str, keyword: str, **more: bool) -> "Action":
    """Return the action of a command that takes only job ids."""

    def act(session: "Session", arguments: "list[str]") -> int:
        extra: dict[str, Any] = dict(more)
        words = list(arguments)
        while words and kind == "RequeueJobs":
            lower = words[0].lower()
            if lower == "incomplete":
                extra["incomplete"] = True
            elif lower in ("state=specialexit", "state=se", "specialexit", "se"):
                extra["special_exit"] = True
            else:
                break
            words.pop(0)
        if not words:
            fail(f"too few arguments for keyword:{keyword}")
        if kind == "RequeueJobs":
            _outlive_own_requeue()
        return change_jobs(session, kind, {"jobs": list(map(_without_key, words)), **extra})

    return act


def _outlive_own_requeue() -> None:
    """Ignore SIGTERM within a job: the requeue itself may send it before the answer is read.

    Programs that save their work and requeue their own job (submitit, Lightning) take a command
    that died of a signal for a requeue that failed.
    """
    if "SLURM_JOB_ID" in os.environ:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _completing(session: "Session", arguments: "list[str]") -> int:
    """Print jobs whose nodes still clean up."""
    try:
        query = {"filter": {"state_flags": JOB_FLAG_COMPLETING}, "flags": SHOW_ALL}
        reply = session.client.call("ShowJobs", query)
    except SlurmError as error:
        session.complain(f"slurm_load_jobs error: {error.text}")
        return 1
    dates = Dates(reply["now_us"])
    for job_id, end_us, nodes in Table(
        reply["fields"], reply["records"], ["job_id", "end_us", "nodes"]
    ).rows:
        waited = long_time(max(0, (reply["now_us"] - end_us) // SECOND_US))
        print(
            f"JobId={job_id} EndTime={dates.text(end_us)} CompletingTime={waited} "
            f"Nodes(COMPLETING)={nodes}"
        )
    return 0


def _wait_job(session: "Session", arguments: "list[str]") -> int:
    """Block until the nodes of a job are ready."""
    try:
        parse_job_id(arguments[0])
    except JobIdError:
        fail(f"Invalid job_id {arguments[0]}")
    while True:
        try:
            query = {"filter": {"jobs": arguments, "all_states": True}, "flags": SHOW_ALL}
            reply = session.client.call("ShowJobs", query)
        except SlurmError as error:
            if error.code == Errno.ESLURM_INVALID_JOB_ID:
                say(f"scontrol: Problem running job {arguments[0]}")
            else:
                say(f"slurm_load_jobs error: {error.text}")
            return 1
        rows = Table(reply["fields"], reply["records"], ["job_id", "state", "flags"]).rows
        if not rows:
            say(f"scontrol: Problem running job {arguments[0]}")  # a task that the array lacks
            return 1
        job_id, state, flags = rows[0]
        if state > JOB_SUSPENDED:
            say(f"scontrol: Job {job_id} no longer running")
            return 1
        if state == JOB_RUNNING and not flags & JOB_FLAG_CONFIGURING:
            say(f"scontrol: Nodes are ready for job {job_id}")
            return 0
        sleep(1)


ACTIONS: "dict[str, Action]" = {
    "completing": _completing,
    "hold": _holder("hold"),
    "holdu": _holder("holdu", as_user=True),
    "uhold": _holder("uhold", as_user=True),
    "release": _holder("release", release=True),
    "requeue": _steer("RequeueJobs", "requeue"),
    "requeuehold": _steer("RequeueJobs", "requeuehold", hold=True),
    "resume": _steer("SuspendJobs", "resume", resume=True),
    "suspend": _steer("SuspendJobs", "suspend"),
    "top": _steer("TopJobs", "top"),
    "wait_job": _wait_job,
}
