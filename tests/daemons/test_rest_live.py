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

from tests.daemons.live import LiveCluster, missing_programs, start

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
        lines.write_text(f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")
        cluster = start(
            directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(lines),
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
