"""Changes are answered with the status, the keys and the errors that Slurm 26.11 answered with."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.error_numbers import Errno
from tests.web.front import Front, front

JOB = {"environment": ["A=b"], "current_working_directory": "/tmp", "partition": "main"}
SCRIPT = "#!/bin/sh\n"
SUBMIT = "/slurm/v0.0.46/job/submit"
SUBMITTED = {"job_id", "step_id", "job_submit_user_msg", "errors", "warnings"}
PLAIN = {"errors", "warnings"}
_SUBMIT_FAILED = ("Batch job submission failed", "slurm_submit_batch_job()")


@pytest.fixture(scope="module")
def client() -> Front:
    """The application as bob, who has jobs 21 and 25."""
    return front(user="bob")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "keys"),
    [
        ("POST", SUBMIT, {"script": SCRIPT, "job": JOB}, 200, SUBMITTED),
        ("POST", SUBMIT, {"script": SCRIPT, "job": {**JOB, "array": "1-3%2"}}, 200, SUBMITTED),
        ("POST", SUBMIT, {"script": SCRIPT, "jobs": [JOB, JOB]}, 200, SUBMITTED),
        ("POST", SUBMIT, {"script": SCRIPT, "job": {**JOB, "nosuch": 1}}, 200, SUBMITTED),
        ("POST", SUBMIT, b"{", 400, PLAIN),
        ("POST", "/slurm/v0.0.46/job/25", {"comment": "new"}, 200, {"results", *PLAIN}),
        ("POST", "/slurm/v0.0.46/node/n1", {"comment": "new"}, 422, PLAIN),
        ("DELETE", "/slurm/v0.0.46/jobs/", {"jobs": ["25"]}, 200, {"status", *PLAIN}),
        ("DELETE", "/slurm/v0.0.46/job/25", None, 200, {"status", *PLAIN}),
        ("DELETE", "/slurm/v0.0.46/job/999999", None, 200, {"status", *PLAIN}),
        ("PUT", "/slurm/v0.0.46/ping", None, 404, PLAIN),
    ],
)
def test_changes_have_slurms_keys(
    client: Front, method: str, path: str, body: Any, status: int, keys: set[str]
) -> None:
    """Whoever reads Slurm's answers reads ours."""
    answer = client.request(method, path, body)
    document = answer.json()
    assert answer.status == status, document
    assert set(document) - {"meta"} == keys


@pytest.mark.parametrize(
    ("path", "body", "number", "said"),
    [
        (SUBMIT, {"script": SCRIPT, "job": {**JOB, "partition": "nosuch"}},
         Errno.ESLURM_INVALID_PARTITION_NAME, _SUBMIT_FAILED),
        (SUBMIT, {"script": SCRIPT, "job": {**JOB, "environment": []}},
         Errno.ESLURM_ENVIRONMENT_MISSING, _SUBMIT_FAILED),
        ("/slurm/v0.0.46/node/n1", {"comment": "new"}, Errno.ESLURM_USER_ID_MISSING,
         ("Failure to update node n1", "_update_node")),
    ],
)  # fmt: skip
def test_refusals_have_slurms_numbers_and_words(
    client: Front, path: str, body: Any, number: int, said: tuple[str, str]
) -> None:
    """Portals look at the number; people read the rest."""
    answer = client.post(path, body)
    (error,) = answer.errors
    assert answer.status == 422
    assert (error["error_number"], error["description"], error["source"]) == (number, *said)


def test_what_could_not_be_cancelled_is_in_its_status(client: Front) -> None:
    """With the keys that were recorded."""
    (row,) = client.delete("/slurm/v0.0.46/job/999999").json()["status"]
    assert set(row) == {"error", "step_id", "job_id", "federation"}
