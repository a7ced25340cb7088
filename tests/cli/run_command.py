"""Runs a command's `main` in this process and catches what it prints."""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from pyslurm_ng import cli
from tests.cli.reference_cluster import ReferenceCluster

# All of them, since a module that is first loaded below would keep what stands in for the real.
_MODULES = tuple(
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}.")
)


@dataclass(frozen=True)
class Printed:
    """What a command printed and its exit code."""

    stdout: str
    stderr: str
    code: int


def run_command(
    patch: pytest.MonkeyPatch,
    reference: ReferenceCluster,
    user: str,
    words: list[str],
    stdin: str = "",
    keys: dict[str, str] | None = None,
) -> Printed:
    """Run `words` as `user` against the reference cluster, in UTC.

    Args:
        keys: more lines of slurm.conf.
    """
    name, argv = words[0], words[1:]
    out, err = io.StringIO(), io.StringIO()
    client = reference.client(user)
    conf = {"ClusterName": "demo", "SlurmctldHost": "ctl(127.0.0.1)", "PreemptMode": "REQUEUE"}
    conf |= keys or {}
    uid = client.user.uid
    with patch.context() as inner:
        module = importlib.import_module(f"pyslurm_ng.cli.{name}")
        replaced: dict[str, Any] = {
            "connect": lambda conf: client,
            "read_conf": lambda name, *more: conf,
            "write_bytes": lambda data: out.write(data.decode()),
        }
        for command_module in _MODULES:
            for attribute, instead in replaced.items():
                if hasattr(command_module, attribute):
                    inner.setattr(command_module, attribute, instead)
        inner.setattr(os, "getuid", lambda: uid)
        inner.setattr(sys, "stdout", out)
        inner.setattr(sys, "stderr", err)
        inner.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = module.main(argv)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Printed(out.getvalue(), err.getvalue(), code)
