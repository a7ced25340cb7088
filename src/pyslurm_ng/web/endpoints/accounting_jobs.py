"""Correcting what accounting has of jobs, as `sacctmgr modify job` does."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.web.accounting_settings import Record, Settings
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.accounting_changes import change
from pyslurm_ng.web.endpoints.jobs import checked_id
from pyslurm_ng.web.refusal import BAD_REQUEST, UNPROCESSABLE, Refusal

_SOURCE = "slurmdb_job_modify()"
_NONE: dict[str, Any] = {"results": []}
_MOST_CODE, _MOST_SIGNAL = 255, 127


def change_job(call: Call) -> Answer:
    """Change the newest record of the job of the path."""
    return _change(call, [call.path["job_id"]], call.body or {}, "#/")


def change_jobs(call: Call) -> Answer:
    """Change the newest records of the jobs that the body names."""
    body = call.body or {}
    names = body.get("job_id_list") or []
    if not names:
        raise Refusal(BAD_REQUEST, "job_id_list: no jobs are named", source="#/job_id_list/",
                      payload=_NONE)  # fmt: skip
    return _change(call, names, body.get("job_rec") or {}, "#/job_rec/")


def _change(call: Call, names: list[str], record: Record, where: str) -> Answer:
    chosen = ",".join(checked_id(name, _SOURCE, _NONE) for name in names)
    settings = _settings(record, where)
    if not settings:
        raise Refusal(BAD_REQUEST, "nothing to change", source=where, payload=_NONE)
    # Job ids mean other jobs on other clusters.
    jobs: Settings = [("JobIDs", "=", chosen), ("Clusters", "=", call.daemons.cluster)]
    reply = change(call, "modify", "job", jobs, settings, _SOURCE)
    return {"results": [line.strip() for line in reply["lines"][1:]]}


def _settings(record: Record, where: str) -> Settings:
    """Return a record as the settings of sacctmgr.

    Raises:
        Refusal: a key that has no effect, or an exit code that there is not.
    """
    if record.get("tres"):
        raise Refusal(
            UNPROCESSABLE, "tres: what a job had allocated cannot be changed",
            Errno.ESLURM_NOT_SUPPORTED, f"{where}tres/", payload=_NONE,
        )  # fmt: skip
    comment = record.get("comment") or {}
    texts = (
        ("AdminComment", comment.get("administrator")),
        ("Comment", comment.get("job")),
        ("SystemComment", comment.get("system")),
        ("Extra", record.get("extra")),
        ("NewWCKey", record.get("wckey")),
    )
    settings: Settings = [(key, "=", str(text)) for key, text in texts if text is not None]
    if record.get("derived_exit_code"):
        status = _status(record["derived_exit_code"], f"{where}derived_exit_code/")
        settings.append(("DerivedExitCode", "=", str(status)))
    return settings


def _status(record: Record, where: str) -> int:
    """Return an exit code as wait(2) gives it."""
    code = _number(record.get("return_code"))
    number = _number((record.get("signal") or {}).get("id"))
    if not (0 <= code <= _MOST_CODE and 0 <= number <= _MOST_SIGNAL):
        text = f"return_code: 0 to {_MOST_CODE} are allowed; signal/id: 0 to {_MOST_SIGNAL}"
        raise Refusal(BAD_REQUEST, text, source=where, payload=_NONE)
    return code << 8 | number


def _number(value: Record | None) -> int:
    """Return an optional number; 0 if it is not set, -1 if it is infinite."""
    if not value:
        return 0
    if value.get("infinite"):
        return -1
    return int(value.get("number") or 0) if value.get("set") else 0


ROUTES = {
    ("post", "/slurmdb/{version}/job/{job_id}"): change_job,
    ("post", "/slurmdb/{version}/jobs/"): change_jobs,
}
