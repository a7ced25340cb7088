"""The extern step: a supervisor without tasks, for processes that come from outside the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pyslurm_ng.d.spec import environment
from pyslurm_ng.d.spec.job_spec import step_base
from pyslurm_ng.d.spec.node_setup import Account, NodeSetup
from pyslurm_ng.model.ids import STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool import step_contract as sc

_SAME_NICE = 100


def of_extern(credential: nm.JobCredential) -> nm.JobCredential:
    """Return what a job's credential says of its extern step: it has all that the job has."""
    return replace(
        credential,
        step_id=STEP_EXTERN,
        step_name="extern",
        step_nodes=credential.nodes,
        step_allocs=credential.allocs,
        step_tasks=(),
    )


def extern_spec(
    setup: NodeSetup,
    credential: nm.JobCredential,
    signed: bytes,
    account: Account,
    since_us: int = 0,
) -> sc.StepSpec:
    """Return what the supervisor of a job's extern step is to do.

    Args:
        signed: the job's credential as it came.
    """
    variables = {"SLURMD_NODENAME": setup.node_name, "SLURM_CONF": setup.conf.path}
    return {
        **step_base(setup, of_extern(credential), account, signed),
        "task_prologs": [],
        "task_epilogs": [],
        "login": None,
        "duty": 0,
        "since_us": since_us,
        "env": environment.entries(variables),
        "cwd": "/",
        "umask": 0o22,
        "rlimits": [],
        "nice": _SAME_NICE,
        "script": b"",
        "spool": "",
        "append": False,
        "route": None,
        "label": False,
        "label_width": 1,
        "pty": False,
        "rows": 0,
        "columns": 0,
        "no_kill": False,
        "waits_for_children": False,
        "programs": [],
        "script_word": 0,
        "tasks": [],
        "mpi": None,
        "x11": None,
        "plugins": None,
        "frequency": None,
        "clocks": None,
    }
