"""slurmrestd and tokens on a live cluster: submit, watch, read, cancel."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web.operations import Operation, operations
from tests.daemons.live import LiveCluster, missing_programs, start
from tests.web.requests_of_all import requests_of_all
from tests.web.validation import complaints

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def rest() -> Iterator[tuple[LiveCluster, str]]:
    """A cluster with auth/jwt, and the socket of a slurmrestd that takes tokens only."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)
        key = directory / "jwt.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        if os.geteuid() == 0 and _has_user("slurm"):
            shutil.chown(key, "slurm")
        lines = directory / "lines.conf"
        both = f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"
        lines.write_text(both)
        conf = directory / "more.conf"
        conf.write_text(f"{both}MaxNodeCount=9\n")
        cluster = start(
            directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(conf),
            "--dbd-conf", str(lines),
        )  # fmt: skip
        path = str(directory / "rest.sock")
        program = subprocess.Popen(
            ["slurmrestd", "-a", "rest_auth/jwt", f"unix:{path}"],
            env={**cluster.environment, "SLURMRESTD_SECURITY": "disable_user_check"},
            cwd=directory,
        )
        try:
            cluster.wait_until("slurmrestd", lambda: Path(path).exists())
            yield cluster, path
        finally:
            program.terminate()
            program.wait(20)
            cluster.down()
        assert not Path(path).exists(), "SIGTERM leaves the socket behind"


def _has_user(name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def ask(path: str, token: str, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    """Return status and document of one request."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(path)
    headers = {"X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body)
    connection.request(method, target, content, headers if token else {})
    response = connection.getresponse()
    document = json.loads(response.read())
    connection.close()
    return response.status, document


def test_a_job_by_token(rest: tuple[LiveCluster, str]) -> None:
    """From scontrol token to accounting; a token that was altered is refused by the daemon."""
    cluster, path = rest
    token = cluster.out("scontrol", "token", "lifespan=600").strip().removeprefix("SLURM_JWT=")
    output = cluster.directory / "output"
    job = {
        "name": "rest", "tasks": 1, "current_working_directory": str(cluster.directory),
        "environment": ["PATH=/bin:/usr/bin", "WORD=heard"], "standard_output": str(output),
    }  # fmt: skip
    submit = {"script": "#!/bin/sh\necho $WORD $SLURM_JOB_NAME\n", "job": job}
    status, answer = ask(path, token, "POST", "/slurm/v0.0.46/job/submit", submit)
    assert (status, answer["errors"]) == (200, [])
    job_id = answer["job_id"]
    cluster.wait_for_jobs(job_id)
    assert output.read_text() == "heard rest\n"
    assert cluster.accounted(job_id).startswith("COMPLETED")
    status, answer = ask(path, token, "GET", f"/slurmdb/v0.0.45/job/{job_id}")
    assert (status, answer["jobs"][0]["state"]["current"]) == (200, ["COMPLETED"])

    script = {"script": "#!/bin/sh\nsleep 600\n", "job": {**job, "array": "1-2"}}
    _, answer = ask(path, token, "POST", "/slurm/v0.0.43/job/submit", script)
    status, answer = ask(path, token, "DELETE", f"/slurm/v0.0.46/job/{answer['job_id']}")
    assert (status, answer["status"]) == (200, [])
    cluster.wait_for_jobs()

    for wrong in ("", token[:-4] + "AAAA", "a.b.c"):
        for target in ("/slurm/v0.0.46/jobs", "/slurmdb/v0.0.46/users"):
            assert ask(path, wrong, "GET", target)[0] == 401


def test_commands_take_tokens(rest: tuple[LiveCluster, str]) -> None:
    """SLURM_JWT says who asks; what it says wrongly is refused, and no other proof is tried."""
    cluster, _ = rest
    token = cluster.out("scontrol", "token").strip().removeprefix("SLURM_JWT=")
    assert cluster.out("squeue", "-h", SLURM_JWT=token) == ""
    assert cluster.out("sacct", "-n", "-X", "-o", "jobid", SLURM_JWT=token).split()
    refused = cluster.run("squeue", SLURM_JWT=token + "x")
    assert refused.returncode == 1 and "token is not valid" in refused.stderr
    again = cluster.run("scontrol", "token", SLURM_JWT=token)
    assert again.returncode == 1 and "a token is not used to make another" in again.stderr


def operation_of(version: str, method: str, path: str) -> Operation | None:
    """Return the operation that a path without its query means."""
    name = path.partition("?")[0]
    known = [row for row in operations().values() if (row.version, row.method) == (version, method)]
    exact = [row for row in known if row.path == name]
    return next(
        iter(exact + [row for row in known if _matches(row.path.split("/"), name.split("/"))]), None
    )


def _matches(pattern: list[str], name: list[str]) -> bool:
    return len(pattern) == len(name) and all(
        part == word or (part.startswith("{") and part != "{version}" and word)
        for part, word in zip(pattern, name, strict=True)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_each_get_and_post_answers_as_described(
    rest: tuple[LiveCluster, str], version: str
) -> None:
    """Strictly: no key more, none less, in each version, of the daemons themselves."""
    cluster, path = rest
    token = cluster.out("scontrol", "token", "lifespan=600").strip().removeprefix("SLURM_JWT=")
    ended = cluster.submit("-o", "/dev/null", "-t", "9", "--wrap", "true")
    waiting = cluster.submit("-o", "/dev/null", "--hold", "--wrap", "true")
    cluster.accounted(ended)
    wrong: dict[str, Any] = {}
    tried: set[tuple[str, str]] = set()
    allocated = 0

    def check(method: str, target: str, body: Any) -> Any:
        operation = operation_of(version, method, target)
        if operation is None:
            return {}  # another version has it
        status, answer = ask(path, token, method.upper(), target.format(version=version), body)
        lines = complaints(answer, operation.answer, version) if operation.answer else []
        # Extremes of steps name node and task as in sacct --json, which no schema has.
        lines = [line for line in lines if "'node', 'task'" not in line]
        if status != 200 or answer["errors"] or lines:
            wrong[f"{method} {target}"] = (status, answer["errors"], lines)
        tried.add((method, operation.path))
        return answer

    for method, target, body in requests_of_all(version[-1], waiting, ended):
        answer = check(method, target, body)
        if target.endswith("job/allocate"):
            allocated = answer["job_id"]
            check("get", f"/slurm/{{version}}/resources/{allocated}", None)
            cluster.out("scancel", str(allocated))
        if target.endswith("wckeys/") and method == "get":
            check("get", f"/slurmdb/{{version}}/wckey/{answer['wckeys'][0]['id']}", None)
    # With a limit, since it may not reach into the reservations.
    running = cluster.submit("-o", "/dev/null", "-t", "9", "--wrap", "sleep 600")
    cluster.wait_until(
        "job to run",
        lambda: cluster.out("squeue", "-h", "-j", str(running), "-o", "%T") == "RUNNING\n",
    )
    check("get", f"/slurm/{{version}}/job/{running}/requeue", None)
    check("post", "/slurm/{version}/jobs/requeue", {"jobs": [str(waiting)]})
    cluster.out("scancel", "--me")
    assert wrong == {}, "\n".join(f"{name}: {said}" for name, said in wrong.items())
    all_of_version = {
        (row.method, row.path)
        for row in operations().values()
        if row.version == version and row.method in ("get", "post")
    }
    assert all_of_version - tried == set()
