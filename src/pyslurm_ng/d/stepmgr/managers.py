"""The step managers of one node daemon: whose request it is, and what they have of slurmd."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from pyslurm_ng.base.errors import Errno, error_text
from pyslurm_ng.d.core.actions import Action
from pyslurm_ng.d.core.node_core import JobHere
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.stepmgr.manager import StepManager
from pyslurm_ng.d.stepmgr.node_hands import Launch, NodeHands
from pyslurm_ng.d.stepmgr.node_links import NodeLinks
from pyslurm_ng.d.stepmgr.notes import Notes
from pyslurm_ng.d.stepmgr.remote_ends import RemoteEnds
from pyslurm_ng.d.stepmgr.user_shares import refusal
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.step_messages import CompleteStep, CreateStep
from pyslurm_ng.wire.stepmgr_messages import QueueStep, WaitSteps

_NONCE_BYTES = 16
_NOT_LAUNCHED = 1 << 8


class StepManagers:
    """Serves the jobs that have their steps from here.

    Args:
        act: carries out what follows.
        launch: begins a step on this node.
    """

    def __init__(
        self,
        node: LocalNode,
        identity: Identity,
        credentials: CredentialChecks,
        act: Callable[[list[Action]], None],
        launch: Launch,
    ) -> None:
        self._node = node
        self._core = node.core
        self._signer = identity.signer
        self._credentials = credentials
        self._links = links = NodeLinks(identity)
        self._hands = NodeHands(node, identity, credentials, links, act, launch, self._failed)
        self._remote = RemoteEnds(node, links)
        self._managers: dict[tuple[int, int], StepManager] = {}
        self._notes: dict[tuple[int, int], Notes] = {}

    def close(self) -> None:
        """End all connections."""
        self._remote.close()
        self._hands.close()
        self._links.close()

    # Requests -----------------------------------------------------------------------------------

    def takes(self, request: msgspec.Struct) -> bool:
        """Return whether a request is for a step manager."""
        return isinstance(request, CreateStep | QueueStep | CompleteStep | WaitSteps)

    def handle(self, call: Call) -> None:
        """Pass a request on to the manager of its job."""
        request = call.request
        assert isinstance(request, CreateStep | QueueStep | CompleteStep | WaitSteps)
        manager = self._of_job(request.job_id)
        if manager is None:
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
            return
        refused = refusal(self._managers.values(), call.peer.uid, request)
        if refused is not None:
            call.error(refused.code, refused.detail)
            return
        manager.handle(call)

    def _of_job(self, job_id: int) -> StepManager | None:
        job = self._core.jobs.get(job_id)
        return self._managers.get((job_id, job.attempt)) if job is not None else None

    def take_ends(self, call: Call, reports: nm.NodeReports) -> None:
        """Another node tells of steps that are over there."""
        if call.peer.role != "node":
            call.error(Errno.ESLURM_ACCESS_DENIED, error_text(Errno.ESLURM_ACCESS_DENIED))
            return
        is_lost = False
        for report in reports.reports:
            if isinstance(report, nm.StepEnded):
                manager = self._managers.get((report.job_id, report.attempt))
                if manager is not None:
                    manager.ended(call.peer.name, report)
                else:
                    is_lost = True
        if is_lost:  # the job is over here, so only the other node can tell the controller
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
        else:
            call.reply(Done())

    def cancel(self, job_id: int, step_id: int) -> bool:
        """Forget a queued step, or end one that runs; return whether there was one."""
        manager = self._of_job(job_id)
        if manager is None:
            return False
        step = manager.job.job.steps.get(step_id)
        if step is not None:
            self._hands.end(manager.job, step)
            return True
        return manager.cancel_waiting(step_id)

    def _failed(self, job: ManagedJob, step_id: int, name: str) -> None:
        """A queued step was not launched on a node: it ends on the others, too."""
        job_id = job.job.job_id
        manager = self._managers.get((job_id, job.job.attempt))
        if manager is None:
            return
        message = CompleteStep(bytes(16), job_id, step_id, [name], _NOT_LAUNCHED)
        manager.not_launched(message)
        step = job.job.steps.get(step_id)
        if step is not None:
            self._hands.end(job, step)

    # What happens on this node ------------------------------------------------------------------

    def take_up(self) -> None:
        """After a restart: go on with the jobs of a slurmd before this one, before their steps do.

        The credential of a step does not say what a manager must know.
        """
        folder = self._node.spool.managers
        for name in sorted(os.listdir(folder)):
            parts = name.split(".")
            if len(parts) != 3 or parts[2] != "job":
                continue
            path = f"{folder}/{name}"
            try:
                with open(path, "rb") as file:
                    credential = self._credentials.decode(file.read())
            except Exception as error:  # noqa: BLE001 - the other jobs go on
                self._node.log.error(f"{path}: cannot be taken up: {error}")
                continue
            if credential.job_id not in self._core.jobs:
                job = self._core.new_attempt(credential, prolog="done")
                self._core.jobs[credential.job_id] = job
        self.look()

    def look(self) -> None:
        """See which jobs have begun or end here, and which steps are over."""
        for job in list(self._core.jobs.values()):
            if job.is_managed:
                self._look_at(job)
        for key in list(self._managers):
            known = self._core.attempt(*key)
            if known is None or known.is_ending:
                self._managers[key].job_over()
        ends, self._core.managed_ends = self._core.managed_ends, []
        for host, report in ends:
            self._ended(host, report)
        if self._managers:
            self._flush()

    def _look_at(self, job: JobHere) -> None:
        key = (job.job_id, job.attempt)
        manager = self._managers.get(key)
        if manager is None:
            credential = job.credential
            if credential is not None and credential.managed is not None and not job.is_ending:
                self._begin(key, credential, is_suspended=job.is_suspended)
        elif manager.job.is_suspended != job.is_suspended:
            manager.suspend(is_suspended=job.is_suspended)

    def _begin(
        self, key: tuple[int, int], credential: nm.JobCredential, *, is_suspended: bool
    ) -> None:
        path = f"{self._node.spool.managers}/{key[0]}.{key[1]}"
        notes = self._notes[key] = Notes(path)
        manager = self._managers[key] = StepManager(credential, notes, self._hands)
        manager.job.suspend(is_suspended=is_suspended)
        try:
            if os.path.exists(path):
                manager.take_up()
            else:
                self._keep(path, credential)
        except (OSError, msgspec.DecodeError) as error:
            self._node.log.error(f"{path}: {error}")
        self._node.log.verbose(f"JobId={key[0]}: its steps have their shares from here")

    def _keep(self, path: str, credential: nm.JobCredential) -> None:
        """Keep what the controller has signed, beside the notes."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path + ".job", flags, 0o600)
        with open(descriptor, "wb") as file:
            file.write(self._signer.sign_credential(nm.encode_credential(credential)))

    def _ended(self, host: str, report: nm.StepEnded) -> None:
        if host != self._node.name:
            self._remote.add(host, report)
            return
        self._core.told(report)
        manager = self._managers.get((report.job_id, report.attempt))
        if manager is not None:
            manager.ended(host, report)
        else:
            self._core.reports.append(report)  # its notes were lost

    def _flush(self) -> None:
        """News go to the controller before the end of their job does."""
        for key, manager in list(self._managers.items()):
            job = self._core.attempt(*key)
            is_ending = job is None or job.is_ending or self._ends_now(key)
            if is_ending:
                manager.news.flush(with_parts=job is None or job.is_ending)
            if job is None:
                self._forget(key)

    def _ends_now(self, key: tuple[int, int]) -> bool:
        return any(
            isinstance(report, nm.BatchEnded | nm.JobTerminated)
            and (report.job_id, report.attempt) == key
            for report in self._core.reports
        )

    def _forget(self, key: tuple[int, int]) -> None:
        del self._managers[key]
        self._notes.pop(key).remove()
        try:
            os.unlink(f"{self._node.spool.managers}/{key[0]}.{key[1]}.job")
        except OSError:
            return

    def acknowledged(self, report: nm.ManagedSteps) -> None:
        """The controller has some news."""
        manager = self._managers.get((report.job_id, report.attempt))
        if manager is not None:
            manager.news.acknowledged(report)
