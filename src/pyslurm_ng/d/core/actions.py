"""What the edge is asked to do, each as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import Order


@dataclass(frozen=True, slots=True)
class RunProlog:
    """Run Prolog for a job, then `prolog_ended`."""

    job_id: int
    attempt: int
    credential: nm.JobCredential


@dataclass(frozen=True, slots=True)
class RunEpilog:
    """Run Epilog for a job of which nothing is left, then `epilog_ended`."""

    job_id: int
    attempt: int
    credential: nm.JobCredential | None
    exit_code: int = 0
    derived_exit_code: int = 0


@dataclass(frozen=True, slots=True)
class StartBatch:
    """Start the supervisor of a script, then `step_started`, later `step_ended`."""

    credential: nm.JobCredential
    order: nm.LaunchBatch


@dataclass(frozen=True, slots=True)
class StartStep:
    """Start the supervisor of a step that srun asked for; `ticket` names whom to answer."""

    credential: nm.JobCredential
    ticket: int


@dataclass(frozen=True, slots=True)
class StartExtern:
    """Start the supervisor of a job's extern step; `signed` is the credential as it came."""

    credential: nm.JobCredential
    signed: bytes


@dataclass(frozen=True, slots=True)
class RefuseStep:
    """Answer a step's request with an error."""

    ticket: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Tell a step's supervisor something."""

    job_id: int
    attempt: int
    step_id: int
    words: Order


@dataclass(frozen=True, slots=True)
class TellUnkillable:
    """Run UnkillableStepProgram: something of a step has outlived SIGKILL for too long."""

    job_id: int
    step_id: int


@dataclass(frozen=True, slots=True)
class Reboot:
    """Run RebootProgram."""


Action = (
    RunProlog
    | RunEpilog
    | StartBatch
    | StartStep
    | StartExtern
    | RefuseStep
    | Command
    | TellUnkillable
    | Reboot
)
