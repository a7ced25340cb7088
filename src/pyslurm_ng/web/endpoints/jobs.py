"""Reading jobs: all, one, their states, and what one holds of its nodes."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES
from pyslurm_ng.data_parser.jobs import Compact, encode_jobs
from pyslurm_ng.data_parser.json_text import number, seconds
from pyslurm_ng.data_parser.records import Table
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.refusal import BAD_REQUEST, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

LIST_S = 60.0
"""A controller that is busy needs some seconds for a list of a hundred thousand."""
_EMPTY = {"jobs": [], "last_backfill": seconds(0), "last_update": seconds(0)}


def all_jobs(call: Call) -> Answer:
    """List all jobs."""
    try:
        return _listed(call, {"all_states": True})
    except SlurmError as error:
        raise refusal_of(error, "Unable to query jobs", "slurm_load_jobs()", _EMPTY) from None


def one_job(call: Call) -> Answer:
    """List one job, by number, task, component or SLUID."""
    text = checked_id(call.path["job_id"], "_handle_job_get", _EMPTY)
    try:
        answer = _listed(call, {"all_states": True, "jobs": [text]})
    except SlurmError as error:
        raise refusal_of(
            error,
            f"Unable to query JobId={text}",
            "_handle_job_get",
            _EMPTY,
            may_be_unknown=True,
        ) from None
    return answer


def checked_id(text: str, source: str, payload: dict[str, Any]) -> str:
    """Return an id of a job as typed.

    Raises:
        Refusal: it is none.
    """
    try:
        parse_job_id(text)
    except JobIdError:
        raise Refusal(
            BAD_REQUEST, f"Unable to parse JobId={text[:64]}", Errno.ESLURM_INVALID_JOB_ID, source,
            payload=payload,
        ) from None  # fmt: skip
    return text


def _listed(call: Call, job_filter: dict[str, Any]) -> Answer:
    since_s = update_time(call)
    # The keys of a job are the same whatever `flags` says, so its details are always needed.
    request = {"filter": job_filter, "flags": SHOW_ALL | SHOW_DETAIL}
    reply = call.controller.call("ShowJobs", request, LIST_S)
    refuse_unchanged(reply, since_s)
    more = {
        "last_backfill": seconds(reply["now_us"] // SECOND_US * SECOND_US),
        "last_update": seconds(reply["last_update_us"]),
    }
    seal = blake2b(reply["records"], digest_size=16)
    seal.update(f"{call.version} {reply['last_update_us']} {call.requester.name}".encode())
    records = encode_jobs(reply, Compact, call.version)
    return Streamed("jobs", records, more, seal.digest(), len(reply["records"]))


def update_time(call: Call) -> int:
    """Return the parameter update_time, 0 without it.

    Raises:
        Refusal: it is no time.
    """
    text = call.query.get("update_time", "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Refusal(
            BAD_REQUEST, f"update_time: {text[:32]!r} is no time: seconds since 1970",
            source="#/query/update_time/",
        )  # fmt: skip
    return int(text or 0)


def refuse_unchanged(reply: dict[str, Any], since_s: int) -> None:
    """Refuse with 304 if nothing has changed since the moment of update_time."""
    if since_s and reply["last_update_us"] // SECOND_US <= since_s:
        raise Refusal(304, "No change in data since last call", Errno.SLURM_NO_CHANGE_IN_DATA)


def states(call: Call) -> Answer:
    """List the states of jobs, which costs far less than the jobs."""
    ids = [word for word in call.query.get("job_id", "").split(",") if word]
    for text in ids:
        checked_id(text, "#/query/job_id/", _EMPTY)
    job_filter: dict[str, Any] = {"all_states": True, **({"jobs": ids} if ids else {})}
    request = {"filter": job_filter, "flags": SHOW_ALL}
    try:
        reply = call.controller.call("ShowJobs", request, LIST_S)
    except SlurmError as error:
        description = "Unable to query job states"
        raise refusal_of(error, description, "_dump_job_state", _EMPTY) from None
    fields = ["job_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset",
              "state", "flags"]  # fmt: skip
    rows = [
        {
            "job_id": _shown_id(*row[:6]),
            "state": [
                JOB_STATES[row[6]][0],
                *[name for bit, name, _ in JOB_FLAGS if row[7] & bit],
            ],
        }
        for row in Table(reply["fields"], reply["records"], fields).rows
    ]
    return {"jobs": rows}


def _shown_id(
    job_id: int, array_id: int, task_id: int, tasks: str, het_id: int, offset: int
) -> str:
    """Return the id that users know a job by."""
    if tasks:
        from pyslurm_ng.base.task_lists import written

        return f"{array_id}_[{written(tasks) if ':' in tasks else tasks}]"
    if het_id:
        return f"{het_id}+{offset}"
    if array_id and task_id < NO_VAL:
        return f"{array_id}_{task_id}"
    return str(job_id)


def resources(call: Call) -> Answer:
    """List what a job holds of each node, core by core."""
    payload: dict[str, Any] = {"nodes": []}
    text = checked_id(call.path["job_id"], "_handle_get", payload)
    query = {"filter": {"all_states": True, "jobs": [text]}, "flags": SHOW_ALL | SHOW_DETAIL}
    try:
        reply = call.controller.call("ShowJobs", query)
    except SlurmError as error:
        raise refusal_of(error, f"Unable to query JobId={text}", "_handle_get", payload) from None
    rows = Table(reply["fields"], reply["records"], ["resources"]).rows
    nodes = [
        {
            "node": name,
            "sockets_per_node": sockets,
            "cores_per_socket": cores,
            "mem_alloc": mem_mib,
            "core_bitmap": core_ids,
            "channel": number(0, is_set=False),
            "gres": [],
        }
        for (holdings,) in rows
        for name, _, _, mem_mib, _, sockets, cores, core_ids, *_ in holdings
    ]
    return {"nodes": nodes}


ROUTES = {
    ("get", "/slurm/{version}/jobs/"): all_jobs,
    ("get", "/slurm/{version}/job/{job_id}"): one_job,
    ("get", "/slurm/{version}/jobs/state/"): states,
    ("get", "/slurm/{version}/resources/{job_id}"): resources,
}
