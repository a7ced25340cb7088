"""Programs of the site that slurmd runs for jobs and for the node: Prolog, Epilog and others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pyslurm_ng.d.core.actions import Action, RunEpilog, RunProlog, TellUnkillable
from pyslurm_ng.d.core.runs import epilog_ended, prolog_ended
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode
from pyslurm_ng.d.spec.extern_spec import of_extern
from pyslurm_ng.d.spec.hook_environment import end_variables, hook_environment
from pyslurm_ng.d.spec.job_spec import batch_files, cgroup_plan
from pyslurm_ng.d.spec.node_setup import gpu_view, node_settings
from pyslurm_ng.d.stepd.step_cgroup import CgroupError, StepCgroup
from pyslurm_ng.daemon.hooks import PATH, HookResult, run_hook
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
                groups = self._groups_of(action.credential)
                programs, limit_s = node.conf.prolog, node.conf.prolog_timeout
                result = await _run_in(groups, programs, variables, limit_s)
                problem = result.text if result.status else ""
                if problem and groups is not None:
                    groups.leave()  # else the extern step is in them next
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
                variables |= end_variables(action.exit_code, action.derived_exit_code)
                groups = self._groups_of(action.credential)
                programs, limit_s = node.conf.epilog, node.conf.epilog_timeout
                result = await _run_in(groups, programs, variables, limit_s)
                if groups is not None:
                    groups.leave()
                status = result.status
                if status:
                    node.log.error(f"epilog failed: {result.text}")
            except Exception as error:  # noqa: BLE001 - as if the program had failed
                node.faults.note("epilog", f"epilog of job {action.job_id}", error)
                status = 1 << 8
        node.spool.forget_prolog(action.job_id, action.attempt)
        self._act(epilog_ended(node.core, action.job_id, action.attempt, status))

    def _groups_of(self, credential: nm.JobCredential) -> StepCgroup | None:
        """Return the control groups of programs with PrologFlags=RunInJob: the extern step's."""
        node = self._node
        if not any(word.lower() == "runinjob" for word in node.conf.prolog_flags):
            return None
        plan = cgroup_plan(node.configured, of_extern(credential))
        return StepCgroup(plan) if plan is not None else None

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
        variables = {"PATH": PATH, "SLURM_CONF": node.conf.path, "SLURMD_NODENAME": node.name}
        result = await run_hook((program,), variables, 0)
        if result.status:
            node.log.error(f"RebootProgram: {result.text}")

    def _variables(self, credential: nm.JobCredential, context: str) -> dict[str, str]:
        node = self._node.configured
        settings, view = node_settings(node, credential), gpu_view(node, credential)
        files = batch_files(node, credential) if credential.has_script else None
        return hook_environment(credential, settings, context, view, files)


async def _run_in(
    groups: StepCgroup | None, programs: Sequence[str], variables: dict[str, str], limit_s: int
) -> HookResult:
    """Run programs in control groups, or where slurmd is."""
    try:
        joins = groups.make() if groups is not None else []
    except CgroupError as error:
        return HookResult(1 << 8, str(error.strerror))
    try:
        return await run_hook(programs, variables, limit_s, joins)
    finally:
        for descriptor in joins:
            os.close(descriptor)
