"""Errors have the keys that the schema of an answer requires, as generated clients expect."""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.data_parser.schemas import schema, table
from pyslurm_ng.web.answers import required
from tests.web.front import front


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "keys"),
    [
        ("GET", "/slurm/{}/jobs?update_time=x", None, 400, {"jobs": []}),
        ("POST", "/slurm/{}/reservations/", b"{", 400, {"reservations": []}),
        ("GET", "/slurmdb/{}/job/x", None, 400, {"jobs": []}),
    ],
)
def test_errors_have_the_required_keys(
    version: str, method: str, path: str, body: Any, status: int, keys: dict[str, Any]
) -> None:
    """A fuzzer with our own description found 69 answers without them."""
    answer = front().request(method, path.format(version), body)
    assert answer.status == status
    document = answer.json()
    assert {name: document[name] for name in keys} == keys


@pytest.mark.parametrize("version", VERSIONS)
def test_each_answer_can_be_empty(version: str) -> None:
    """For all operations of all versions."""
    for methods in table(version)["paths"].values():
        for row in methods.values():
            name = row.get("answer", "")
            made = required(name, version)
            if name:
                names = set(schema(name, version).get("required", ()))
                assert set(made) == names - {"meta", "errors", "warnings"}
