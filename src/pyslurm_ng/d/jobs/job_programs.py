"""Programs of the site that slurmd runs for jobs and for the node: Prolog, Epilog and others."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.d.core.actions import Action, RunEpilog, RunProlog, TellUnkillable
from pyslurm_ng.d.core.runs import epilog_ended, prolog_ended
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode
from pyslurm_ng.d.spec import environment
from pyslurm_ng.d.spec.node_setup import gpu_view, node_settings
from pyslurm_ng.daemon.hooks import run_hook
from pyslurm_ng.wire import node_messages as nm


class JobPrograms:
    """Runs them, and tells the core how prologs and epilogs ended.

    Args:
        act: carries out what the core wants then.
    """

    def __init__(self, node: LocalNode, act: Callable[[list[Action]], None]) -> None:
        self._node = node
        self._act = act

    async def prolog(self, action: RunProlog) -> None:
        """Run Prolog, unless it has run for this attempt before slurmd was started."""
        node, problem = self._node, ""
        if not node.spool.had_prolog(action.job_id, action.attempt):
            try:
                variables = self._variables(action.credential, "prolog_slurmd")
                result = await run_hook(node.conf.prolog, variables, node.conf.prolog_timeout)
                problem = result.text if result.status else ""
            except Exception as error:  # noqa: BLE001 - without a prolog nothing runs
                node.faults.note("prolog", f"prolog of job {action.job_id}", error)
                problem = INTERNAL
            if problem:
                node.log.error(f"prolog failed: {problem}")
            else:
                self._mark_prolog(action.job_id, action.attempt)
        self._act(prolog_ended(node.core, action.job_id, action.attempt, problem))

    def _mark_prolog(self, job_id: int, attempt: int) -> None:
        spool = self._node.spool
        try:
            spool.mark_prolog(job_id, attempt)
        except OSError as error:
            self._node.faults.note(
                "prolog_mark",
                f"that the prolog of job {job_id} has run cannot be kept in "
                f"{spool.directory}: {error.strerror}; a restarted slurmd would run it again",
            )

    async def epilog(self, action: RunEpilog) -> None:
        """Run Epilog for a job that has left nothing else."""
        node, status = self._node, 0
        if action.credential is not None:
            try:
                variables = self._variables(action.credential, "epilog_slurmd")
                result = await run_hook(node.conf.epilog, variables, node.conf.epilog_timeout)
                status = result.status
                if status:
                    node.log.error(f"epilog failed: {result.text}")
            except Exception as error:  # noqa: BLE001 - as if the program had failed
                node.faults.note("epilog", f"epilog of job {action.job_id}", error)
                status = 1 << 8
        node.spool.forget_prolog(action.job_id, action.attempt)
        self._act(epilog_ended(node.core, action.job_id, action.attempt, status))

    async def unkillable(self, action: TellUnkillable) -> None:
        """Run UnkillableStepProgram."""
        conf = self._node.conf
        variables = {"SLURM_JOB_ID": str(action.job_id), "SLURM_STEP_ID": str(action.step_id)}
        program = (conf.unkillable_step_program,)
        result = await run_hook(program, variables, conf.prolog_epilog_timeout)
        if result.status:
            self._node.log.error(f"UnkillableStepProgram: {result.text}")

    async def reboot(self) -> None:
        """Run RebootProgram."""
        node = self._node
        program = node.conf.reboot_program
        if not program:
            node.log.error("RebootProgram is not configured")
            return
        result = await run_hook((program,), {"SLURMD_NODENAME": node.name}, 0)
        if result.status:
            node.log.error(f"RebootProgram: {result.text}")

    def _variables(self, credential: nm.JobCredential, context: str) -> dict[str, str]:
        node = self._node.configured
        settings, view = node_settings(node, credential), gpu_view(node, credential)
        return environment.hook_environment(credential, settings, context, view)
