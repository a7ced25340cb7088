"""Mount namespaces for tests, and what jobs get of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyslurm_ng.conf.namespaces import Namespaces, PrivateDirectory
from pyslurm_ng.d.spec.job_namespace_spec import namespace_spec
from pyslurm_ng.d.spool.step_contract import NamespaceSpec
from pyslurm_ng.d.stepd.job_namespace import CLONE_NEWNS
from pyslurm_ng.kernels.process import unshare


def spec_of(
    base: Path,
    job_id: int,
    directories: tuple[PrivateDirectory, ...],
    attempt: int = 0,
    **settings: Any,
) -> NamespaceSpec:
    """Return what a job of uid 65534 gets."""
    setup: Any = SimpleNamespace(conf=SimpleNamespace(path="/etc/slurm.conf"), node_name="n1")
    namespaces = Namespaces(base_path=str(base), directories=directories, **settings)
    return namespace_spec(setup, namespaces, job_id, attempt, 65534, "nobody")


def in_child(work: Callable[[], object]) -> str:
    """Do something in a child process, which may enter namespaces; return what it says."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(work()).encode())
        except BaseException as error:  # noqa: BLE001 - told to the test
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    said = os.read(read, 65536).decode()
    os.close(read)
    return said


def can_mount() -> bool:
    """Whether this process may make mount namespaces."""
    return os.geteuid() == 0 and in_child(lambda: unshare(CLONE_NEWNS)) == "None"
