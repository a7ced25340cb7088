"""A client that openapi-python-client makes of /openapi.json: all GETs, jobs, a refusal."""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import httpx

SOCKET = Path("rest.sock").resolve()
ON_SOCKET = {"transport": httpx.HTTPTransport(uds=str(SOCKET))}
daemon = subprocess.Popen(["slurmrestd", f"unix:{SOCKET}"])
try:
    while not SOCKET.exists():
        assert daemon.poll() is None
        time.sleep(0.1)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(SOCKET)), timeout=60) as plain:
        Path("openapi.json").write_bytes(plain.get("http://localhost/openapi.json").content)
    words = ["openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none"]
    subprocess.run([*words, "--output-path", "made"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, os.getcwd())
    made = importlib.import_module("made")
    models = importlib.import_module("made.models")
    calls = {
        name: importlib.import_module(f"made.api.{tag}.{name}")
        for tag in ("slurm", "slurmdb", "util")
        for _, name, _ in pkgutil.iter_modules([f"made/api/{tag}"])
    }
    client = made.Client("http://localhost", timeout=60, httpx_args=ON_SOCKET)
    short = [name[7:11] for name in calls if name.startswith("slurm_") and name.endswith("_ping")]
    assert len(short) == 4, short
    for number in (name.removeprefix("v") for name in sorted(short)):
        prefix = f"slurm_v{number}"
        desc = getattr(models, f"V{number}JobDescMsg").from_dict({
            "name": "made", "tasks": 2, "current_working_directory": os.getcwd(),
            "environment": ["PATH=/usr/bin:/bin"], "standard_output": "/dev/null",
            "time_limit": {"set": True, "infinite": False, "number": 5},
        })  # fmt: skip
        request = getattr(models, f"V{number}JobSubmitReq")
        submit, body = (
            calls[f"{prefix}_post_job_submit"],
            request(script="#!/bin/sh\nsleep 600\n", job=desc),
        )
        running = submit.sync(client=client, body=body)
        assert running.job_id and not running.errors and not running.warnings, running
        desc.hold = True
        waiting = submit.sync(client=client, body=body)
        values = {"job_id": str(waiting.job_id), "node_name": "n1", "partition_name": "debug",
                  "account_name": "science", "cluster_name": "cluster", "qos": "normal",
                  "name": os.environ["USER"]}  # fmt: skip
        for name, call in calls.items():
            needed = [
                argument.name
                for argument in inspect.signature(call.sync_detailed).parameters.values()
                if argument.default is argument.empty and argument.name != "client"
            ]
            # diag of slurmdbd is for operators, reconfigure for SlurmUser.
            is_for_all = name not in (f"slurmdb_v{number}_get_diag", f"{prefix}_get_reconfigure")
            if f"v{number}_get" in name and set(needed) <= values.keys() and is_for_all:
                arguments = {word: values[word] for word in needed}
                answer = call.sync_detailed(client=client, **arguments)
                assert answer.status_code == 200, (name, answer.content)
                assert answer.parsed.to_dict() == json.loads(answer.content), name
        jobs = calls[f"{prefix}_get_job"]
        job = jobs.sync(client=client, job_id=str(waiting.job_id)).jobs[0]
        assert job.job_resources is None and job.user_name == os.environ["USER"]
        for job_id in (running.job_id, waiting.job_id):
            ended = calls[f"{prefix}_delete_job"].sync(client=client, job_id=str(job_id))
            assert not ended.errors, ended
            states = jobs.sync(client=client, job_id=str(job_id)).jobs[0].job_state
            assert "CANCELLED" in states, states
        account = getattr(models, f"V{number}OpenapiAccountsResp").from_dict({
            "accounts": [{"name": "mine", "description": "mine", "organization": "mine",
                          "associations": [], "coordinators": [], "flags": []}],
        })  # fmt: skip
        add = calls[f"slurmdb_v{number}_post_accounts"].sync_detailed(client=client, body=account)
        assert add.status_code == 422 and add.parsed.errors[0].error_number == 2002, add
finally:
    daemon.terminate()
    daemon.wait()
print("openapi-python-client", version("openapi-python-client"), "ok")
