"""The interactive step: the shell that salloc starts with LaunchParameters=use_interactive_step."""

from __future__ import annotations

from pyslurm_ng.base.numbers import STEP_BESIDE_ALL, STEP_OVERLAP, STEP_PTY
from pyslurm_ng.wire.step_messages import CreateStep


def as_interactive(message: CreateStep) -> CreateStep:
    """Return the request for the shell of salloc: one task beside all steps, on the first node."""
    return CreateStep(
        request_id=message.request_id,
        job_id=message.job_id,
        array_task_id=message.array_task_id,
        name="interactive",
        ntasks=1,
        nodes_min=1,
        nodes_max=1,
        relative=0,
        resv_ports=-1,
        flags=message.flags & STEP_PTY | STEP_OVERLAP | STEP_BESIDE_ALL,
        time_limit_min=message.time_limit_min,
        srun_host=message.srun_host,
        srun_pid=message.srun_pid,
        srun_port=message.srun_port,
        submit_line=message.submit_line,
        cwd=message.cwd,
        std_in=message.std_in,
        std_out=message.std_out,
        std_err=message.std_err,
    )
