"""Launches: from what the core wants started to a supervisor that runs it, or a refusal."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.core.actions import Action, StartBatch, StartExtern, StartStep
from pyslurm_ng.d.core.steps import launch_step, step_failed
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode, boot_clock_us
from pyslurm_ng.d.spec.extern_spec import extern_spec
from pyslurm_ng.d.spec.job_spec import batch_spec, step_spec
from pyslurm_ng.d.spec.node_setup import Account, SpecError
from pyslurm_ng.d.spool.batch_script import FULL_ERRORS, SPOOL_FULL
from pyslurm_ng.d.spool.spool import SpoolFull
from pyslurm_ng.d.stepd.step_cgroup import CgroupError
from pyslurm_ng.d.steps.step_runner import StepKey, StepRunner, step_name
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec


_Start: TypeAlias = StartBatch | StartStep | StartExtern


class Caller(Protocol):
    """The receiver of a launch's result: srun's call, or the step manager of this node."""

    def reply(self, answer: nm.StepLaunched) -> None:
        """The supervisor runs."""

    def error(self, code: int, text: str) -> None:
        """Nothing runs here."""


class Launches:
    """Starts the supervisors of scripts and steps, each when its user's account is known.

    Args:
        hold: keeps the control group of a job until the job is over. Raises OSError.
        namespace: of a job, kept until the job is over; None where jobs have none.
        act: carries out what the core wants when a step could not be started.
    """

    def __init__(
        self,
        node: LocalNode,
        runner: StepRunner,
        accounts: Accounts,
        hold: Callable[[nm.JobCredential], object],
        namespace: Callable[[nm.JobCredential], NamespaceSpec | None],
        act: Callable[[list[Action]], None],
    ) -> None:
        self._node = node
        self._runner = runner
        self._accounts = accounts
        self._hold = hold
        self._namespace = namespace
        self._act = act
        self._requests: dict[int, tuple[nm.LaunchStep, Caller]] = {}  # of srun, by ticket
        self._last_ticket = 0

    def ask(self, credential: nm.JobCredential, request: nm.LaunchStep, call: Caller) -> None:
        """Take srun's request; its sender has been checked."""
        self._last_ticket += 1
        self._requests[self._last_ticket] = (request, call)
        actions = launch_step(self._node.core, credential, self._last_ticket, request.credential)
        self._node.core.arrived(credential.job_id, boot_clock_us())
        self._act(actions)

    def refuse(self, ticket: int, code: int, text: str) -> None:
        """Answer a request of srun with an error."""
        waiting = self._requests.pop(ticket, None)
        if waiting is not None:
            waiting[1].error(code, text)

    def begin(self, action: _Start) -> None:
        """Start a script or a step, now or when its user's account has been looked up."""
        self._runner.expect(_key_of(action))
        self._accounts.call(
            action.credential, partial(self._start, action), partial(self._fault, action)
        )

    def _start(self, action: _Start, account: Account) -> None:
        """Have a supervisor started; an unexpected error costs this step only."""
        try:
            if isinstance(action, StartBatch):
                self._start_batch(action, account)
            elif isinstance(action, StartExtern):
                self._start_extern(action, account)
            else:
                self._start_step(action, account)
        except Exception as error:  # noqa: BLE001 - the controller is told that it does not run
            self._fault(action, error)

    def _fault(self, action: _Start, error: BaseException) -> None:
        """Report a step that could not be started for a fault of this daemon."""
        job_id, step_id, attempt = key = _key_of(action)
        self._node.faults.note("start", f"{step_name(key)} could not be started", error)
        if isinstance(action, StartStep):
            self.refuse(action.ticket, Errno.ESLURMD_JOB_NOTRUNNING, INTERNAL)
        self._runner.release(key)
        self._act(step_failed(self._node.core, job_id, attempt, step_id, INTERNAL))

    def _start_batch(self, action: StartBatch, account: Account) -> None:
        node, credential, order = self._node, action.credential, action.order
        job_id, step_id, attempt = key = _key_of(action)
        node.log.info(f"Launching batch job {job_id} for UID {credential.uid}")
        try:
            _check_user(credential)
            # The script is written twice: into the step's file and, by the supervisor, as it is.
            node.spool.check_room(2 * len(order.script) + len(order.environment))
            since_us = node.core.since_us(job_id)
            spec = batch_spec(node.configured, credential, order, account, since_us)
            spec["namespace"] = self._namespace(credential)
            self._runner.start(key, node.spool.step_path(job_id, step_id, attempt), spec)
        except (OSError, SpecError, SpoolFull) as error:
            self._not_started(action, f"batch job {job_id}", error)

    def _start_step(self, action: StartStep, account: Account) -> None:
        node, credential = self._node, action.credential
        job_id, step_id, attempt = key = _key_of(action)
        request, call = self._requests[action.ticket]
        node.log.info(f"launch task {step_name(key)} request from UID:{credential.uid}")
        try:
            _check_user(credential)
            node.spool.check_room(len(request.environment))
            self._hold(credential)
            since_us = node.core.since_us(job_id)
            spec = step_spec(node.configured, credential, request, account, since_us)
            spec["namespace"] = self._namespace(credential)
            self._runner.start(key, node.spool.step_path(job_id, step_id, attempt), spec)
        except (OSError, SpecError, SpoolFull) as error:
            call.error(*self._not_started(action, step_name(key), error))
        else:
            call.reply(nm.StepLaunched(node.name, 0))
        self._requests.pop(action.ticket, None)

    def _start_extern(self, action: StartExtern, account: Account) -> None:
        node, credential = self._node, action.credential
        job_id, step_id, attempt = key = _key_of(action)
        try:
            _check_user(credential)
            node.spool.check_room(len(action.signed))
            self._hold(credential)
            since_us = node.core.since_us(job_id)
            spec = extern_spec(node.configured, credential, action.signed, account, since_us)
            spec["namespace"] = self._namespace(credential)
            self._runner.start(key, node.spool.step_path(job_id, step_id, attempt), spec)
        except (OSError, SpecError, SpoolFull) as error:
            self._not_started(action, step_name(key), error)

    def _not_started(
        self,
        action: _Start,
        name: str,
        error: OSError | SpecError | SpoolFull,
    ) -> tuple[int, str]:
        """Tell the core that a step does not run; return what its caller is told.

        That holds for one that ran before, too, and was asked for again: its job would wait for
        ever for an end of it. Only what a predecessor began and still runs goes on.
        """
        job_id, step_id, attempt = key = _key_of(action)
        code, text, drain = _why_not_started(error)
        self._node.log.error(f"{name}: {text}")
        self._runner.release(key)
        if not self._runner.has(key):
            is_nodes = isinstance(error, OSError | SpoolFull) and code != _STARTED_BEFORE
            failed = step_failed(
                self._node.core, job_id, attempt, step_id, text, drain=drain, is_nodes=is_nodes
            )
            self._act(failed)
        return code, text


_STARTED_BEFORE = Errno.ESLURMD_CREDENTIAL_REVOKED


def _key_of(action: _Start) -> StepKey:
    credential = action.credential
    step_id = credential.step_id
    if isinstance(action, StartBatch | StartExtern):
        step_id = STEP_BATCH if isinstance(action, StartBatch) else STEP_EXTERN
    return credential.job_id, step_id, credential.attempt


def _why_not_started(error: OSError | SpecError | SpoolFull) -> tuple[int, str, str]:
    """Return number and text of why a step does not run, and why the node drains, if it does."""
    if isinstance(error, FileExistsError):
        return _STARTED_BEFORE, "it was started before on this node", ""
    if isinstance(error, CgroupError):
        return Errno.ESLURMD_JOB_NOTRUNNING, str(error.strerror), error.drain
    if isinstance(error, OSError):
        drain = SPOOL_FULL if error.errno in FULL_ERRORS else ""
        return Errno.ESLURMD_JOB_NOTRUNNING, f"spool: {error.strerror}", drain
    drain = SPOOL_FULL if isinstance(error, SpoolFull) else ""
    return Errno.ESLURMD_JOB_NOTRUNNING, str(error), drain


def _check_user(credential: nm.JobCredential) -> None:
    """Raise SpecError unless this process may start processes of a job's user."""
    if os.geteuid() not in (0, credential.uid):
        whose = f"cannot start processes of uid {credential.uid}"
        raise SpecError(f"slurmd runs as uid {os.geteuid()}, not as root, and {whose}")
