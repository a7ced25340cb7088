"""Changing, cancelling, signalling and requeueing jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import CANCEL_BATCH, CANCEL_FULL, CANCEL_VERBOSE, MOST_IDS
from pyslurm_ng.base.signal_names import parse_signal
from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES
from pyslurm_ng.data_parser.json_text import number
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.jobs import checked_id
from pyslurm_ng.web.job_update import update_settings
from pyslurm_ng.web.refusal import BAD_REQUEST, UNPROCESSABLE, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

_NO_RESULTS: dict[str, Any] = {"results": []}
_NO_STATUS: dict[str, Any] = {"status": []}
_CANCEL_FLAGS = {"BATCH_JOB": CANCEL_BATCH, "FULL_JOB": CANCEL_FULL}
REQUEST_ID_BYTES = 16


def update(call: Call) -> Answer:
    """Change one job."""
    source = "slurm_update_job2()"
    text = checked_id(call.path["job_id"], source, _NO_RESULTS)
    body = call.body or {}
    settings = update_settings(call, body)
    changes: list[tuple[str, dict[str, Any]]] = (
        [("UpdateJob", {"settings": settings})] if settings else []
    )
    if body.get("hold") is not None:
        changes.append(("HoldJobs", {"release": not body["hold"]}))
    if not changes:
        raise Refusal(BAD_REQUEST, "No changes specified", source=source, payload=_NO_RESULTS)
    description = "Job update requested failed"
    for kind, fields in changes:
        try:
            reply = _change_all(call, kind, [text], fields)
        except SlurmError as error:
            raise refusal_of(error, description, source, _NO_RESULTS) from None
        _refuse_errors(reply, description, source, _NO_RESULTS)
    return {"results": []}


def _change_all(call: Call, kind: str, ids: list[str], fields: dict[str, Any]) -> dict[str, Any]:
    """Change jobs part by part; return the answers as one."""
    whole: dict[str, Any] = {"count": 0, "errors": [], "done": []}
    first, progress = 0, dict[str, Any]()
    while True:
        message = {**fields, **progress}
        part = ids[first : first + MOST_IDS]
        if kind == "CancelJobs":
            message["filter"] = {**fields["filter"], **({"jobs": part} if ids else {})}
        else:
            message["jobs"] = part
        message["request_id"] = os.urandom(REQUEST_ID_BYTES)
        reply = call.controller.change(kind, message)
        whole["count"] += reply["count"]
        whole["errors"] += reply["errors"]
        whole["done"] += reply.get("done", [])
        if reply.get("is_partial"):
            first += reply["next_id"]
            progress = {"from_job": reply["next_job"], "below_job": reply["below_job"]}
            continue
        first, progress = first + len(part), {}
        if first >= len(ids):
            return whole


def _refuse_errors(
    reply: dict[str, Any], description: str, source: str, payload: dict[str, Any]
) -> None:
    """Refuse if a job could not be changed."""
    if reply["errors"]:
        _, code, text = reply["errors"][0]
        raise Refusal(UNPROCESSABLE, description, code, source, text, payload)


def cancel(call: Call) -> Answer:
    """Cancel or signal one job or step."""
    text = call.path["job_id"]
    signal = _signal(call.query.get("signal", ""), "#/query/signal/")
    flags = _cancel_flags(call.query.get("flags", "").split(","))
    return {"status": _cancel(call, [text], {}, signal, flags)}


def cancel_many(call: Call) -> Answer:
    """Cancel or signal the jobs that agree with all of the body."""
    body = call.body or {}
    chosen: dict[str, Any] = {}
    for key, field in (
        ("account", "accounts"), ("job_name", "names"), ("partition", "partitions"),
        ("qos", "qos"), ("reservation", "reservations"), ("wckey", "wckeys"),
    ):  # fmt: skip
        if body.get(key):
            chosen[field] = body[key].split(",")
    if body.get("nodes"):
        chosen["nodes"] = ",".join(body["nodes"])
    user = body.get("user_name") or body.get("user_id")
    if user:
        chosen["uids"] = [_uid(user)]
    states = [word for word in body.get("job_state") or () if word]
    if states:
        chosen["states"], chosen["state_flags"] = _states(states)
    ids = [text for text in body.get("jobs") or () if text]
    if not chosen and not ids:
        raise Refusal(
            BAD_REQUEST, "No jobs are named", Errno.ESLURM_INVALID_JOB_ID, "#/jobs/",
            payload=_NO_STATUS,
        )  # fmt: skip
    signal = _signal(body.get("signal") or "", "#/signal/")
    flags = _cancel_flags(body.get("flags") or [])
    return {"status": _cancel(call, ids, chosen, signal, flags)}


def _cancel(
    call: Call, ids: list[str], chosen: dict[str, Any], signal: int, flags: int
) -> list[dict[str, Any]]:
    rows, known = [], []
    for text in ids:
        try:
            parse_job_id(text)
            known.append(text)
        except JobIdError:
            code = Errno.ESLURM_INVALID_JOB_ID
            rows.append(_status(text[:64], code, "Invalid job id specified"))
    if ids and not known:
        return rows
    fields = {"filter": chosen, "signal": signal, "flags": flags | CANCEL_VERBOSE}
    try:
        reply = _change_all(call, "CancelJobs", known, fields)
    except SlurmError as error:
        raise refusal_of(error, "Failure to signal jobs", "slurm_kill_jobs()", _NO_STATUS) from None
    return rows + [_status(text, code, line) for text, code, line in reply["errors"]]


def _status(text: str, code: int, line: str) -> dict[str, Any]:
    job_id = int(text) if text.isdecimal() and code != Errno.ESLURM_INVALID_JOB_ID else None
    return {
        "error": {"string": line, "code": code, "message": line},
        "step_id": text,
        "job_id": number(job_id or 0, is_set=job_id is not None),
        "federation": {"sibling": ""},
    }


def _signal(text: str, where: str) -> int:
    """Return the number of a signal, 0 without one."""
    if not text or text.upper() in ("KILL", "SIGKILL", "9"):
        return 0
    signal = parse_signal(text)
    if not signal:
        raise Refusal(BAD_REQUEST, f"signal: {text[:32]!r} is no signal", source=where)
    return signal


def _cancel_flags(words: Sequence[str | None]) -> int:
    flags = 0
    for word in words:
        flags |= _CANCEL_FLAGS.get((word or "").upper(), 0)
    return flags


def _uid(user: str) -> int:
    import pwd

    if user.isdecimal() and len(user) <= 10:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise Refusal(
            BAD_REQUEST, f"user_name: {user[:64]!r} is not known", Errno.ESLURM_USER_ID_MISSING,
            "#/user_name/",
        ) from None  # fmt: skip


def _states(words: list[str]) -> tuple[list[int], int]:
    """Return the numbers of base states and the bits of flags."""
    numbers = [index for index, names in enumerate(JOB_STATES) if names[0] in words]
    flags = sum(bit for bit, name, _ in JOB_FLAGS if name in words)
    return numbers, flags


def requeue(call: Call) -> Answer:
    """Requeue one job."""
    text = checked_id(call.path["job_id"], "slurm_requeue2()", _NO_STATUS)
    flags = {name: call.flag(name) for name in ("Incomplete", "Hold", "SpecialExit")}
    return {"status": _requeue(call, [text], flags)}


def requeue_many(call: Call) -> Answer:
    """Requeue jobs."""
    body = call.body or {}
    words = body.get("flags") or []
    flags = {name: name in words for name in ("Incomplete", "Hold", "SpecialExit")}
    ids = [checked_id(text, "#/jobs/", _NO_STATUS) for text in body.get("jobs") or () if text]
    if not ids:
        raise Refusal(BAD_REQUEST, "jobs: no jobs are named", Errno.ESLURM_INVALID_JOB_ID,
                      "#/jobs/", payload=_NO_STATUS)  # fmt: skip
    return {"status": [_requeue(call, ids, flags)]}


def _requeue(call: Call, ids: list[str], flags: dict[str, bool]) -> list[dict[str, Any]]:
    fields = {
        "hold": flags["Hold"] or flags["SpecialExit"],
        "special_exit": flags["SpecialExit"],
        "incomplete": flags["Incomplete"],
    }
    try:
        reply = _change_all(call, "RequeueJobs", ids, fields)
    except SlurmError as error:
        raise refusal_of(error, "Job requeue failed", "slurm_requeue2()", _NO_STATUS) from None
    wrong = {text: (code, line) for text, code, line in reply["errors"]}
    rows = []
    for text in ids:
        code, line = wrong.get(text, (0, "No error"))
        base = text.partition("_")[0].partition("+")[0]
        rows.append({
            "job_id": int(base) if base.isdecimal() else 0,
            "step_id": text,
            "error": line,
            "error_code": code,
            "why": "" if not code else line,
        })  # fmt: skip
    return rows


ROUTES = {
    ("post", "/slurm/{version}/job/{job_id}"): update,
    ("delete", "/slurm/{version}/job/{job_id}"): cancel,
    ("delete", "/slurm/{version}/jobs/"): cancel_many,
    ("get", "/slurm/{version}/job/{job_id}/requeue"): requeue,
    ("post", "/slurm/{version}/jobs/requeue"): requeue_many,
}
