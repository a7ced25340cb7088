"""What slurmrestd answers has the keys and types of its schema, in each version."""

from __future__ import annotations

import json

import pytest

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web.operations import operations
from tests.web.front import front
from tests.web.validation import complaints, complaints_of_description

READ = [
    ("/slurm/{version}/ping/", {}),
    ("/slurm/{version}/conf", {}),
    ("/slurm/{version}/diag/", {}),
    ("/slurm/{version}/jobs/", {}),
    ("/slurm/{version}/job/{job_id}", {"job_id": "27"}),
    ("/slurm/{version}/jobs/state/", {}),
    ("/slurm/{version}/nodes/", {}),
    ("/slurm/{version}/node/{node_name}", {"node_name": "n1"}),
    ("/slurm/{version}/partitions/", {}),
    ("/slurm/{version}/reservations/", {}),
    ("/slurm/{version}/licenses/", {}),
    ("/slurm/{version}/shares", {}),
    ("/slurm/{version}/resources/{job_id}", {"job_id": "21"}),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_agree_with_their_schemas(version: str) -> None:
    """Clients are generated from the schemas and refuse what does not fit."""
    client = front(user="root")
    known = operations()
    wrong = {}
    for path, values in READ:
        operation = known.get((version, "get", path))
        if operation is None:
            continue
        answer = client.get(path.format(version=version, **values))
        assert answer.status == 200, answer.content
        document = answer.json()
        if operation.path.endswith("/jobs/state/"):
            # Slurm's answer has ids as text and two keys, whatever its schema says.
            assert all(set(job) == {"job_id", "state"} for job in document["jobs"])
            continue
        lines = complaints(document, operation.answer, version)
        if lines:
            wrong[path] = lines
    assert not wrong


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_agree_with_the_description(version: str) -> None:
    """A client generated from /openapi.json fails at a null or a missing key of which it says
    nothing: a pending job's job_resources, and last_update of jobs/state.
    """
    client = front(user="root")
    whole = client.get("/openapi.json").json()
    wrong = {}
    for path, values in READ:
        operation = whole["paths"].get(path.replace("{version}", version), {}).get("get")
        if operation is None:
            continue
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        document = client.get(path.format(version=version, **values)).json()
        lines = complaints_of_description(document, schema, whole["components"])
        if lines:
            wrong[path] = lines
    assert not wrong


def test_a_list_is_laid_out_as_yaml_part_by_part() -> None:
    """As the whole document would be; a list of 10,000 jobs would take a gigabyte."""
    from pyslurm_ng.data_parser import yaml_text

    rows = [{"a": 1, "b": ["x", {}]}, {"c": {"d": None}}, {"e": []}]
    more = {"last": {"set": True}, "errors": []}
    for parts in ([rows[:1], rows[1:]], [rows], []):
        texts = [json.dumps(part)[1:-1].encode() for part in parts]
        whole = {"jobs": [row for part in parts for row in part], **more}
        made = yaml_text.begin_of_list("jobs") + b"".join(map(yaml_text.elements_of, texts))
        made += yaml_text.end_of_document(more, is_empty=not parts)
        assert made == yaml_text.from_json(json.dumps(whole))
