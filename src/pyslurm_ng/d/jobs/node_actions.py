"""What the core wants done, and how it is done: one place from its actions to the outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyslurm_ng.d.controllers.report_times import ReportTimes
from pyslurm_ng.d.core.actions import (
    Action,
    Command,
    RefuseStep,
    RunEpilog,
    RunProlog,
    StartBatch,
    StartExtern,
    StartStep,
    TellUnkillable,
)
from pyslurm_ng.d.core.steps import step_unkillable
from pyslurm_ng.d.jobs.job_namespaces import JobNamespaces
from pyslurm_ng.d.jobs.job_programs import JobPrograms
from pyslurm_ng.d.jobs.launches import Launches
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spec.job_spec import cgroup_plan
from pyslurm_ng.d.steps.end_watch import EndWatch
from pyslurm_ng.d.steps.job_groups import JobGroups
from pyslurm_ng.d.steps.step_runner import StepRunner, step_name

_TELL_AGAIN_S = 0.2


class NodeActions:
    """Carries out actions.

    Attributes:
        groups: control groups of jobs.
        launches: of scripts and steps.
        namespaces: private directories of jobs.
        programs: prologs, epilogs and the like.
        on_acted: called when actions have been carried out, before reports go out.
    """

    def __init__(
        self, node: LocalNode, runner: StepRunner, accounts: Accounts, reports: ReportTimes
    ) -> None:
        self._node = node
        self._runner = runner
        self._reports = reports
        self._loop = asyncio.get_running_loop()
        self.groups = JobGroups(node.core, lambda known: cgroup_plan(node.configured, known))
        self.namespaces = JobNamespaces(node, runner.fork_receiver)
        self.launches = Launches(
            node, runner, accounts, self.groups.hold, self.namespaces.hold, self.act
        )
        self.programs = JobPrograms(node, self.act)
        self.on_acted: Callable[[], None] = lambda: None
        self._ends = EndWatch(
            runner,
            lambda: float(node.conf.unkillable_step_timeout),
            lambda key: self.act(step_unkillable(node.core, key[0], key[2], key[1])),
            lambda key: node.log.error(f"{step_name(key)}: slurmstepd does not answer, killing it"),
        )

    def act(self, actions: list[Action]) -> None:
        """Carry out what the core wants; reports go out soon."""
        for action in actions:
            try:
                self._carry_out(action)
            except Exception as error:  # noqa: BLE001 - the other actions are carried out
                self._node.faults.note("action", f"{action!r:.200}", error)
        self.groups.release_ended()
        self.namespaces.release_ended()
        self.on_acted()
        self._reports.send_soon()

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, (StartBatch, StartStep, StartExtern)):
            self.launches.begin(action)
        elif isinstance(action, RefuseStep):
            self.launches.refuse(action.ticket, action.code, action.text)
        elif isinstance(action, Command):
            self._tell(action)
        elif isinstance(action, RunProlog):
            self._loop.create_task(self.programs.prolog(action))
        elif isinstance(action, RunEpilog):
            self._loop.create_task(self.programs.epilog(action))
        elif isinstance(action, TellUnkillable):
            self._loop.create_task(self.programs.unkillable(action))
        else:
            self._loop.create_task(self.programs.reboot())

    def _tell(self, action: Command) -> None:
        key = (action.job_id, action.step_id, action.attempt)
        if action.words["do"] == "terminate":
            self._ends.expect(key, action.words["wait_s"])
        if not self._runner.command(key, action.words) and self._runner.has(key):
            # Its channel is not there yet (just adopted, just queued): try once more.
            self._loop.call_later(_TELL_AGAIN_S, self._runner.command, key, action.words)

    def close(self) -> None:
        """Stop watching steps that are to end."""
        self._ends.close()
