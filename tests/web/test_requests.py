"""What requests do, and what bad ones get."""

from __future__ import annotations

import gzip
import json
import os
import re
from typing import Any

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.web import bodies
from pyslurm_ng.web.answers import takes_gzip
from pyslurm_ng.web.bodies import MOST_BODY_BYTES
from pyslurm_ng.web.requester import JWT, LOCAL, SocketPeer
from pyslurm_ng.wire.daemon_link import SlurmError
from tests.cli.reference_cluster import queue
from tests.web.front import front

SUBMIT = "/slurm/v0.0.46/job/submit"
DESC = {"name": "rest", "current_working_directory": "/tmp", "environment": ["PATH=/bin"]}


def submit(job: dict[str, Any], user: str = "alice", **body: Any) -> Any:
    return front(user=user).post(SUBMIT, {"script": "#!/bin/sh\ntrue\n", "job": job, **body})


def submitted(job: dict[str, Any]) -> Any:
    """Return the request of the job that was made."""
    cluster = queue()
    answer = front(cluster).post(SUBMIT, {"script": "#!/bin/sh\n", "job": {**DESC, **job}})
    assert answer.status == 200, answer.content
    return cluster.cluster.jobs[answer.json()["job_id"]].request


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        ({"tasks": 4, "cpus_per_task": 2}, {"ntasks": 4, "cpus_per_task": 2}),
        ({"tasks": "4"}, {"ntasks": 4}),
        ({"nodes": "1-2"}, {"nodes_min": 1, "nodes_max": 2}),
        ({"minimum_nodes": 2, "maximum_nodes": 2}, {"nodes_min": 2, "nodes_max": 2}),
        ({"time_limit": {"set": True, "number": 9}}, {"time_limit_min": 9}),
        ({"time_limit": 9}, {"time_limit_min": 9}),
        ({"memory_per_cpu": {"number": 100}}, {"mem_per_cpu_mib": 100}),
        ({"array": "1-4%2"}, {"array": "1-4%2"}),
        ({"nice": 5}, {"nice": 5}),
        ({"comment": "c", "extra": "e"}, {"comment": "c", "extra": "e"}),
        ({"standard_output": "/tmp/o"}, {"std_out": "/tmp/o"}),
        ({"mail_type": ["END", "FAIL"], "mail_user": "a@b"}, {"mail_type": 6, "mail_user": "a@b"}),
        ({"begin_time": {"set": True, "number": 2000000000}}, {"begin_us": 2 * 10**15}),
        ({"environment": {"A": "b"}}, {}),
    ],
)  # fmt: skip
def test_a_description_becomes_a_request(job: dict[str, Any], fields: dict[str, Any]) -> None:
    """Key by key as sbatch would send it."""
    request = submitted(job)
    assert {name: getattr(request, name) for name in fields} == fields


def test_a_job_is_submitted_changed_and_cancelled() -> None:
    """The life of a job by REST."""
    client = front()
    answer = client.post(SUBMIT, {"script": "#!/bin/sh\n", "job": {**DESC, "hold": True}})
    job_id = answer.json()["job_id"]
    assert (answer.status, answer.json()["step_id"]) == (200, "batch")
    path = f"/slurm/v0.0.46/job/{job_id}"
    assert client.post(path, {"comment": "new", "hold": False}).status == 200
    assert client.get(path).json()["jobs"][0]["comment"] == "new"
    assert client.delete(path).json()["status"] == []
    assert client.get(path).json()["jobs"][0]["job_state"] == ["CANCELLED"]
    many = client.delete("/slurm/v0.0.46/jobs", {"user_name": "root", "jobs": ["x", "999999"]})
    assert [row["error"]["code"] for row in many.json()["status"]] == [2017, 2017]


def test_several_components() -> None:
    """Heterogeneous jobs have their components in `jobs`."""
    cluster = queue()
    jobs = [{**DESC, "tasks": 1}, {**DESC, "tasks": 2}]
    answer = front(cluster).post(SUBMIT, {"script": "#!/bin/sh\n", "jobs": jobs})
    first = answer.json()["job_id"]
    assert [cluster.cluster.jobs[first + at].request.ntasks for at in (0, 1)] == [1, 2]


def test_partitions_are_created_changed_and_deleted() -> None:
    """By administrators."""
    client = front(user="root")
    path = "/slurm/v0.0.46/partitions"
    made = {"name": "new", "nodes": {"configured": "n1"}, "maximums": {"time": 30}}
    assert client.post(path, {"partitions": [made]}).errors == []
    changed = {"name": "new", "flags": ["HIDDEN"], "partition": {"state": ["DRAIN"]}}
    assert client.post(path, {"partitions": [changed]}).errors == []
    shown = client.get("/slurm/v0.0.46/partition/new").json()["partitions"][0]
    assert shown["maximums"]["time"]["number"] == 30
    assert (shown["flags"], shown["partition"]["state"]) == (["HIDDEN"], ["DRAIN"])
    assert front().post(path, {"partitions": [changed]}).status == 422
    assert client.delete("/slurm/v0.0.46/partition/new").status == 200
    assert client.get("/slurm/v0.0.46/partition/new").status == 404


@pytest.mark.parametrize(
    ("job", "body", "status", "text"),
    [
        ({**DESC, "tasks": "many"}, {}, 400, "Expected OpenAPI type=integer format=int32 (Slurm "
         'type=64 bit integer) but got OpenAPI type=string (Slurm type=string): "many"'),
        ({**DESC, "tasks": 2**40}, {}, 400, "Expected OpenAPI type=integer"),
        ({**DESC, "tasks": True}, {}, 400, "Expected OpenAPI type=integer"),
        ({**DESC, "argv": 3}, {}, 400, "Expected OpenAPI type=array"),
        ({**DESC, "flags": ["NO_SUCH"]}, {}, 400, 'Unknown flag "NO_SUCH"'),
        ({**DESC, "environment": []}, {}, 422, "Batch job submission failed"),
        ({**DESC, "environment": ["x"]}, {}, 400, "environment"),
        ({**DESC, "partition": "nope"}, {}, 422, "Batch job submission failed"),
        (DESC, {"script": ""}, 422, "Batch job submission failed"),
        (DESC, {"script": "echo\n"}, 422, "Batch job submission failed"),
        ({}, {}, 422, "job: no job is described"),
        (DESC, {"jobs": [DESC]}, 422, "job and jobs exclude each other"),
        ({**DESC, "container": "/etc"}, {}, 422, "container is not implemented"),
        ({**DESC, "container_id": "x"}, {}, 422, "container_id is not implemented"),
    ],
)  # fmt: skip
def test_what_is_not_submitted(
    job: dict[str, Any], body: dict[str, Any], status: int, text: str
) -> None:
    """4xx with Slurm's error object, where Slurm answers some of these with 200 and no job."""
    answer = submit(job, **body)
    assert answer.status == status
    assert answer.errors[0]["description"].startswith(text)
    assert set(answer.errors[0]) == {"description", "error_number", "error", "source"}


def test_unknown_fields_are_warned_of() -> None:
    """As Slurm words it."""
    answer = submit({**DESC, "nmae": "x"})
    assert answer.status == 200
    assert answer.json()["warnings"] == [
        {
            "description": 'Ignoring unknown field "nmae" of type string in '
            "DATA_PARSER_JOB_DESC_MSG",
            "source": "#/job/nmae/",
        }
    ]


def test_what_has_no_effect_is_warned_of() -> None:
    """A job is not made other than it was asked for without a word."""
    answer = submit({**DESC, "burst_buffer": "#BB x", "network": "x", "container": ""})
    assert answer.status == 200
    assert [row["description"] for row in answer.json()["warnings"]] == [
        "burst_buffer has no effect in pyslurm-ng", "network has no effect in pyslurm-ng"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"script": ', 400), (b"\xff\xfe", 400), (b"[" * 100_000, 400), (b"null", 400),
        (b"[]", 400), (b'"text"', 400), (b"{" * 50, 400), (b"NaN", 400),
        (b'{"script": "\xed\xa0\x80"}', 400), (b"x" * (MOST_BODY_BYTES + 1), 413),
    ],
)  # fmt: skip
def test_bodies_that_are_none(content: bytes, status: int) -> None:
    """RELIABILITY 67: cut JSON, bad UTF-8, deep nesting, other types, too long."""
    answer = front().post(SUBMIT, content)
    assert answer.status == status
    assert len(answer.errors) >= 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/slurm/v0.0.46/nope", 404), ("/slurm/v0.0.1/ping", 404), ("/slurm/../etc/passwd", 404),
        ("/slurm/v0.0.46/job/x", 400), ("/slurm/v0.0.46/job/0", 400),
        ("/slurm/v0.0.46/job/" + "9" * 400, 400), ("/slurm/v0.0.46/job/1%00", 400),
        ("/slurm/v0.0.46/jobs?flags=NOPE", 400), ("/slurm/v0.0.46/jobs?update_time=soon", 400),
        ("/slurm/v0.0.46/jobs?" + "a=b&" * 10_000, 414), ("/slurm/v0.0.46/shares/x", 404),
        ("/slurm/v0.0.46/partition/nope", 404), ("/slurm/v0.0.46/reservation/nope", 404),
        ("/slurm/v0.0.46/node/zz", 404), ("/slurm/v0.0.46/node/%5B%5B%5B", 404),
    ],
)  # fmt: skip
def test_paths_that_lead_nowhere(path: str, status: int) -> None:
    """RELIABILITY 67: each has an error object."""
    answer = front().get(path)
    assert answer.status == status
    assert answer.errors


def test_a_method_that_there_is_not() -> None:
    """Slurm answers a wrong method as a wrong path."""
    assert front().request("PUT", "/slurm/v0.0.46/ping").status == 404


# Who asks -------------------------------------------------------------------------------------


def test_nobody_is_refused() -> None:
    """RELIABILITY 67: without a token and not over a socket of the own user."""
    answer = front(user="").get("/slurm/v0.0.46/jobs")
    assert (answer.status, answer.errors[0]["error_number"]) == (401, 1007)
    own = SocketPeer(os.geteuid(), 0, 1)
    other = SocketPeer(os.geteuid() + 1000, 0, 1)
    for peer, kinds, status in (
        (own, {LOCAL, JWT}, 200), (own, {JWT}, 401), (other, {LOCAL, JWT}, 401),
    ):  # fmt: skip
        client = front(user="", state={"peer": peer}, kinds=frozenset(kinds))
        assert client.get("/slurm/v0.0.46/ping").status == status
    named = front(user="", state={"peer": own})
    assert named.get("/slurm/v0.0.46/ping", X_SLURM_USER_NAME="somebody").status == 401


@pytest.mark.parametrize("token", ["x" * 9000, "a\u00e9", "a\x01b"])
def test_tokens_that_are_none(token: str) -> None:
    """They do not reach the daemons."""
    answer = front(user="").get("/slurm/v0.0.46/jobs", X_SLURM_USER_TOKEN=token)
    assert answer.status == 400


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, 429),
        (Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, 401),
        (Errno.SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR, 502),
        (Errno.ESLURM_ACCESS_DENIED, 422),
    ],
)
def test_what_daemons_say_is_passed_on(
    code: Errno, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy daemon (rl_enable) as 429, a token that it does not believe as 401."""

    def refuse(*_: object) -> None:
        raise SlurmError(code, error_text(code))

    monkeypatch.setattr("tests.web.front.FrontClient.call", refuse)
    answer = front().get("/slurm/v0.0.46/nodes")
    assert (answer.status, answer.errors[0]["error_number"]) == (status, code)
    assert ("retry-after" in answer.headers) == (status == 429)


def test_a_bug_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, and nothing of it is shown."""

    def fail(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("tests.web.front.FrontClient.call", fail)
    answer = front().get("/slurm/v0.0.46/nodes")
    assert (answer.status, b"secret" in answer.content) == (500, False)


# Forms of answers -----------------------------------------------------------------------------


def test_compressed_yaml_and_unchanged_answers() -> None:
    """By Accept-Encoding, Accept and If-None-Match."""
    client = front()
    for path in ("/slurm/v0.0.46/jobs", "/slurm/v0.0.46/nodes"):
        plain = client.get(path)
        zipped = client.get(path, accept_encoding="gzip, br")
        assert zipped.headers["content-encoding"] == "gzip"
        assert json.loads(gzip.decompress(zipped.content)) == plain.json()
        again = client.get(path, if_none_match=plain.headers["etag"])
        assert (again.status, again.content) == (304, b"")
        yaml = client.get(path, accept="application/yaml")
        assert yaml.content.startswith(b"%YAML 1.1\n--- !!map\n!!str")
    assert client.get("/slurm/v0.0.46/ping", accept="text/html").status == 406
    assert client.get("/slurm/v0.0.46/nodes?update_time=4000000000").status == 304


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("x-gzip", True), ("gzip;q=0.001", True),
        ("gzip;q=0", False), ("gzip ; q = 0.000, br", False), ("br", False), ("", False),
        ("notgzip", False), ("identity;x=gzip", False), (",;,;q=", False),
    ],
)  # fmt: skip
def test_who_takes_gzip(accepted: str, is_taken: bool) -> None:
    """A weight of nothing means that it is not taken."""
    assert takes_gzip(accepted) is is_taken
    answer = front().get("/slurm/v0.0.46/nodes", accept_encoding=accepted)
    assert (answer.headers.get("content-encoding") == "gzip") is is_taken


def test_an_empty_list_of_jobs_is_a_document() -> None:
    """A list that is streamed begins with its first job."""
    client = front(user="root")
    answer = client.get("/slurm/v0.0.46/jobs/state?job_id=27,x")
    assert answer.status == 400
    for version in ("v0.0.43", "v0.0.46"):
        many = client.get(f"/slurm/{version}/jobs").json()["jobs"]
        single = client.get(f"/slurm/{version}/job/{many[0]['job_id']}").json()["jobs"]
        assert single[0]["job_id"] == many[0]["job_id"]


def test_the_description_names_all_paths() -> None:
    """/openapi.json in all versions; `-d` and `-s` leave some out."""
    document = front().get("/openapi.json").json()
    assert document["openapi"] == "3.0.3"
    assert "/slurm/v0.0.43/jobs/" in document["paths"]
    assert "/slurmdb/v0.0.46/qos/{qos}" in document["paths"]
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert name.startswith("v0.0.4")
    assert "$in" not in text and "{version}" not in text
    few = front(versions=("v0.0.46",), tags=frozenset(("slurm",)))
    assert few.get("/slurm/v0.0.45/ping").status == 404
    assert few.get("/slurmdb/v0.0.46/ping").status == 404
    assert all(path.startswith("/slurm/v0.0.46/") for path in few.get("/openapi").json()["paths"])


@pytest.mark.parametrize("key", ["deadline", "begin_time", "end_time"])
def test_moments_beyond_all_bounds(key: str) -> None:
    """Multiplied into microseconds they need more than 64 bits."""
    assert submit({**DESC, key: 2**63}).status in (200, 400, 422)
    assert front().post("/slurm/v0.0.46/job/21", {key: 2**63}).status in (400, 422)


@pytest.mark.parametrize("line", ["", "\n", " ", "x", "NodeName=", "#"])
def test_lines_that_describe_no_node(line: str) -> None:
    """A line without a word stopped the rule."""
    answer = front(user="root").post("/slurm/v0.0.46/new/node", {"node_conf": line})
    assert answer.status in (400, 422)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"a": [1, "b"]}', 5),
        (rb'["\\", "[,{\"", "\n"]', 6),
        (b'"' + b"[" * 1_000_000, 1),
        (b'"' + b"\\\\" * 1_000_000, 1),
    ],
)
def test_values_are_counted_without_a_second_look(body: bytes, count: int) -> None:
    """Also in a text without an end, and by the expressions of Python 3.10, which has no `*+`."""
    assert not re.search(rb"[*+?}]\+", bodies._PARTS.pattern)
    assert len(bodies._PARTS.findall(body)) == count
