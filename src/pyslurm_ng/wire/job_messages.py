"""Submitting work: the messages of sbatch, salloc and srun that make a job.

A request travels as the map of `model.job.JobRequest`, so a command builds it as a plain dict.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.table import RequestId, message, reply

MAX_SCRIPT_BYTES = 64 << 20
"""Above every `max_script_size` an administrator may set; 4 MiB unless set."""
MOST_COMPONENTS = 128
"""The most components of a heterogeneous job, including the first."""
MAX_ENVIRONMENT_BYTES = 16 << 20
"""Slurm's default for MaxBatchEnv is the size of a message; an environment of exec is smaller."""

MAX_OPTION_BYTES = 4 << 20
"""Bytes of all options of all components: the arguments of a command have 2 MiB at most."""

Script = Annotated[bytes, msgspec.Meta(max_length=MAX_SCRIPT_BYTES)]
Environment = Annotated[bytes, msgspec.Meta(max_length=MAX_ENVIRONMENT_BYTES)]
"""`NAME=value` entries, each followed by NUL."""
Components = Annotated[list[JobRequest], msgspec.Meta(max_length=MOST_COMPONENTS - 1)]
"""The further components of a heterogeneous job; none makes an ordinary one."""


@message(kind="SubmitJob", roles="user", owner_rule="rule", rate="submit",
         max_bytes=MAX_SCRIPT_BYTES + MAX_ENVIRONMENT_BYTES + MAX_OPTION_BYTES,
         max_lean_bytes=MAX_OPTION_BYTES)  # fmt: skip
class SubmitJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """sbatch: queue a batch job."""

    request_id: RequestId
    request: JobRequest
    script: Script
    environment: Environment = b""
    components: Components = []


@message(kind="AllocateJob", roles="user", owner_rule="rule", rate="submit",
         max_bytes=MAX_ENVIRONMENT_BYTES + MAX_OPTION_BYTES, max_lean_bytes=MAX_OPTION_BYTES,
         stays_open=True)  # fmt: skip
class AllocateJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """salloc and srun: queue a job without a script; the command starts what runs in it.

    The answers are several, see wire.step_messages. With `is_kept` the job outlives the command's
    connection (salloc --no-shell).
    """

    request_id: RequestId
    request: JobRequest
    environment: Environment = b""
    is_kept: bool = False
    components: Components = []


@message(kind="TestJob", roles="user", owner_rule="rule", rate="submit",
         max_bytes=MAX_OPTION_BYTES)  # fmt: skip
class TestJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`--test-only`: check a request and say when and where it would start; nothing is made.

    With a `job_id` the question is about a job that waits, and the request does not count.
    """

    request: JobRequest
    job_id: b.JobIdField = 0
    # Otherwise pytest takes the class for a collection of tests.
    __test__ = False


@reply("JobAccepted", max_bytes=1 << 20)
class JobAccepted(msgspec.Struct, frozen=True):
    """The job is in the queue, durably; `notes` are lines for the user's stderr."""

    job_id: int
    notes: list[str] = []


@reply("WillRun", max_bytes=16 << 20)
class WillRun(msgspec.Struct, frozen=True):
    """When and where a job tested would start; `nodes` is a folded host list.

    `notes` are lines for the user's stderr.
    """

    job_id: int
    start_us: int
    cpus: int
    nodes: str
    partition: str
    notes: list[str] = []
