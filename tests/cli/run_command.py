"""Runs a command's `main` in this process and catches what it prints."""

from __future__ import annotations

import importlib
import io
import os
import sys
from dataclasses import dataclass

import pytest

from pyslurm_ng.cli import command
from tests.cli.reference_cluster import ReferenceCluster


@dataclass(frozen=True)
class Printed:
    """What a command printed and its exit code."""

    stdout: str
    stderr: str
    code: int


def run_command(
    patch: pytest.MonkeyPatch, reference: ReferenceCluster, user: str, words: list[str]
) -> Printed:
    """Run `words` as `user` against the reference cluster, in UTC."""
    name, argv = words[0], words[1:]
    out, err = io.StringIO(), io.StringIO()
    client = reference.client(user)
    conf = {"ClusterName": "demo", "SlurmctldHost": "ctl(127.0.0.1)", "PreemptMode": "REQUEUE"}
    uid = client.user.uid
    with patch.context() as inner:
        module = importlib.import_module(f"pyslurm_ng.cli.{name}")
        for place in (command, module):
            if hasattr(place, "connect"):
                inner.setattr(place, "connect", lambda conf: client)
            if hasattr(place, "read_conf"):
                inner.setattr(place, "read_conf", lambda name, *more: conf)
            if hasattr(place, "uid_of"):
                inner.setattr(place, "uid_of", command.uid_of)
            if hasattr(place, "write_bytes"):
                inner.setattr(place, "write_bytes", lambda data: out.write(data.decode()))
        for extra in ("squeue_steps", "job_json", "node_json", "sinfo_json", "diag_json"):
            found = importlib.import_module(f"pyslurm_ng.cli.{extra}")
            if found is not None and hasattr(found, "read_conf"):
                inner.setattr(found, "read_conf", lambda name, *more: conf)
            if found is not None:
                inner.setattr(found, "write_bytes", lambda data: out.write(data.decode()))
        inner.setattr(os, "getuid", lambda: uid)
        inner.setattr(sys, "stdout", out)
        inner.setattr(sys, "stderr", err)
        inner.setattr(sys, "stdin", io.StringIO())
        try:
            code = module.main(argv)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Printed(out.getvalue(), err.getvalue(), code)
