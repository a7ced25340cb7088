"""Submitting jobs: batch, arrays, heterogeneous, and allocations without a script."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.job_request import Desc, environment_of, job_request
from pyslurm_ng.web.refusal import UNPROCESSABLE, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

_FAILED = "Batch job submission failed"
_SOURCE = "slurm_submit_batch_job()"
_ALLOCATE_S = 30.0


def submit(call: Call) -> Answer:
    """Queue a batch job; `jobs` are the components of a heterogeneous one."""
    body = call.body or {}
    descs = _descriptions(body, "job", "jobs")
    script = body.get("script") or descs[0].get("script") or ""
    _check_script(script)
    if not descs[0].get("environment"):
        raise _refused(Errno.ESLURM_ENVIRONMENT_MISSING)
    requests = _requests(call, body, descs, "job", "jobs")
    message = {
        "request": requests[0],
        "script": script.encode(),
        "environment": environment_of(descs[0]),
        "components": requests[1:],
    }
    try:
        reply = call.controller.change("SubmitJob", message)
    except SlurmError as error:
        raise refusal_of(error, _FAILED, _SOURCE) from None
    return {"job_id": reply["job_id"], "step_id": "batch", **_notes(call, reply, _SOURCE)}


def test(call: Call) -> dict[str, Any]:
    """Return when and where the job of a submission would start; nothing is made."""
    body = call.body or {}
    request = _requests(call, body, _descriptions(body, "job", "jobs"), "job", "jobs")[0]
    return call.controller.call("TestJob", {"request": request})


def allocate(call: Call) -> Answer:
    """Queue an allocation that lasts until it is cancelled or its time is over."""
    body = call.body or {}
    descs = _descriptions(body, "job", "hetjob")
    requests = _requests(call, body, descs, "job", "hetjob")
    for request in requests:
        request["origin"] = "salloc"
    message = {
        "request": requests[0],
        "environment": environment_of(descs[0]),
        "is_kept": True,
        "components": requests[1:],
    }
    source = "slurm_allocate_resources()"
    try:
        for reply in call.controller.stream("AllocateJob", _with_id(message), _ALLOCATE_S):
            if reply.get("job_id"):
                return {"job_id": reply["job_id"], **_notes(call, reply, source)}
    except SlurmError as error:
        raise refusal_of(error, "Job allocation failed", source) from None
    raise Refusal(UNPROCESSABLE, "Job allocation failed", Errno.SLURM_ERROR, source)


def _with_id(message: dict[str, Any]) -> dict[str, Any]:
    """Return a changing request with the id that makes repeating it harmless."""
    import os

    return {**message, "request_id": os.urandom(16)}


def _notes(call: Call, reply: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the lines for the user, which are warnings, too."""
    notes = reply.get("notes") or []
    for note in notes:
        call.warn(str(note), source)
    return {"job_submit_user_msg": "\n".join(map(str, notes))}


def _descriptions(body: dict[str, Any], single: str, several: str) -> list[Desc]:
    """Return the descriptions of the components, at least one.

    Raises:
        Refusal: none, or both forms.
    """
    if body.get(single) and body.get(several):
        raise Refusal(UNPROCESSABLE, f"{single} and {several} exclude each other",
                      source=f"#/{several}/")  # fmt: skip
    descs = body.get(several) or [body.get(single) or {}]
    if not descs[0]:
        raise Refusal(UNPROCESSABLE, f"{single}: no job is described", source=f"#/{single}/")
    return list(descs)


def _requests(
    call: Call, body: dict[str, Any], descs: list[Desc], single: str, several: str
) -> list[dict[str, Any]]:
    if not body.get(several):
        return [job_request(call, descs[0], f"#/{single}/")]
    return [job_request(call, desc, f"#/{several}/{index}/") for index, desc in enumerate(descs)]


def _check_script(script: str) -> None:
    """Refuse what sbatch would refuse."""
    if not script:
        raise _refused(Errno.SLURM_ERROR, "Batch script is empty!")
    if not script.startswith("#!"):
        raise _refused(
            Errno.SLURM_ERROR,
            "This does not look like a batch script. The first line must start with #! followed by "
            "the path to an interpreter.",
        )
    if "\0" in script:
        raise _refused(Errno.SLURM_ERROR, "The script contains a NULL character '\\0'.")


def _refused(number: int, text: str = "") -> Refusal:
    return Refusal(UNPROCESSABLE, _FAILED, number, _SOURCE, text)


ROUTES = {
    ("post", "/slurm/{version}/job/submit"): submit,
    ("post", "/slurm/{version}/job/allocate"): allocate,
}
