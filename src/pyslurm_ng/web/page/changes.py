"""What the pages change: jobs are submitted, cancelled, held, released and requeued as by REST."""

from __future__ import annotations

import functools
import pwd
from collections.abc import Mapping
from typing import Any

from pyslurm_ng.daemon.own_programs import program_directories
from pyslurm_ng.data_parser.request_bodies import Body
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.endpoints import job_changes, job_submission
from pyslurm_ng.web.operations import Operation
from pyslurm_ng.web.page.texts import moment
from pyslurm_ng.web.refusal import NOT_FOUND, UNPROCESSABLE, Refusal

SUBMIT = "/slurm/{version}/job/submit"
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_NUMBERS = (
    ("nodes", "minimum_nodes"), ("tasks", "tasks"), ("cpus", "cpus_per_task"),
    ("memory", "memory_per_node"), ("minutes", "time_limit"),
)  # fmt: skip
_TEXTS = (
    ("name", "name"), ("partition", "partition"), ("account", "account"), ("qos", "qos"),
    ("array", "array"), ("output", "standard_output"), ("directory", "current_working_directory"),
)  # fmt: skip


def usual_form(call: Call) -> dict[str, str]:
    """Return the fields of the form as they are at first."""
    try:
        home = pwd.getpwnam(call.requester.name).pw_dir
    except (KeyError, ValueError):
        home = "/"
    fields = {name: "" for name, _ in (*_NUMBERS, *_TEXTS)}
    return {**fields, "gpus": "", "directory": home, "script": "#!/bin/bash\n"}


def submit(call: Call, operation: Operation, form: Mapping[str, str]) -> int:
    """Submit a job as `operation` of REST does; return its id."""
    call.body = _body(operation, form)
    answer = job_submission.submit(call)
    assert isinstance(answer, dict)
    return int(answer["job_id"])


def estimate(call: Call, operation: Operation, form: Mapping[str, str]) -> dict[str, Any]:
    """Return when and where the job would start."""
    call.body = _body(operation, form)
    reply = job_submission.test(call)
    return {**reply, "when": moment(reply["start_us"])}


def act(call: Call, job: str, verb: str) -> None:
    """Do something to a job.

    Raises:
        Refusal: it cannot be done.
    """
    call.path = {"job_id": job}
    if verb == "cancel":
        answer = job_changes.cancel(call)
    elif verb in ("hold", "release"):
        call.body = {"hold": verb == "hold"}
        answer = job_changes.update(call)
    elif verb == "requeue":
        answer = job_changes.requeue(call)
    else:
        raise Refusal(NOT_FOUND, f"there is no {verb[:20]!r}", source="slurmrestd")
    assert isinstance(answer, dict)
    for row in answer.get("status", ()):
        error = (
            row["error"]
            if isinstance(row["error"], dict)
            else {"code": row["error_code"], "string": row["error"]}
        )
        if error["code"]:
            raise Refusal(UNPROCESSABLE, str(error["string"]), int(error["code"]), "slurmrestd")


@functools.cache
def _path() -> str:
    """Return where a job of the form looks for programs: our srun before that of another Slurm."""
    own = [str(folder) for folder in program_directories() if (folder / "srun").exists()]
    return ":".join((*own, _USUAL_PATH))


def _body(operation: Operation, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the body that a form stands for.

    Raises:
        Refusal: a field has a wrong value.
    """
    job: dict[str, Any] = {"environment": [f"PATH={_path()}"]}
    for name, field in _NUMBERS:
        text = form.get(name, "").strip()
        if text and not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise Refusal(UNPROCESSABLE, f"{name}: {text[:20]!r} is no number", source=name)
        if text:
            job[field] = int(text)
    job |= {field: form[name].strip() for name, field in _TEXTS if form.get(name, "").strip()}
    gpus = form.get("gpus", "").strip()
    if gpus:
        job["tres_per_job"] = f"gres/gpu={gpus}"
    script = form.get("script", "").replace("\r\n", "\n")
    body = Body({"script": script, "job": job}, operation.body, operation.version)
    if body.errors:
        raise Refusal(UNPROCESSABLE, body.errors[0][0], source=body.errors[0][1])
    value: dict[str, Any] = body.value
    return value
