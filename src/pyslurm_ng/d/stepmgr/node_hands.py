"""What step managers do on nodes: sign, launch, end, report."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING

import msgspec

from pyslurm_ng.base.numbers import SIGKILL
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.core.actions import Action, Command
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.stepmgr.node_links import NodeLinks
from pyslurm_ng.model.job import Step
from pyslurm_ng.steps.creation import node_address
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.steps.share import for_step, share_of
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted
from pyslurm_ng.wire.stream_client import LinkError

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import Order

_NONCE_BYTES = 16

Launch = Callable[[nm.JobCredential, nm.LaunchStep, "LocalLaunch"], None]


class LocalLaunch:
    """Takes the answer to a step that this node's own step manager begins here."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed

    def reply(self, answer: msgspec.Struct) -> None:
        """The supervisor runs."""

    def error(self, code: int, text: str) -> None:
        """Nothing runs here."""
        self._failed(text)


class NodeHands:
    """The hands of all step managers of one node daemon; see `hands.Hands`.

    Args:
        act: carries out what follows.
        launch: begins a step on this node.
        failed: told of job, attempt, step and node where a step was not launched.
    """

    def __init__(
        self,
        node: LocalNode,
        identity: Identity,
        credentials: CredentialChecks,
        links: NodeLinks,
        act: Callable[[list[Action]], None],
        launch: Launch,
        failed: Callable[[ManagedJob, int, str], None],
    ) -> None:
        self._node = node
        self._core = node.core
        self._signer = identity.signer
        self._credentials = credentials
        self._links = links
        self._act = act
        self._launch = launch
        self._told_failed = failed
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop what is under way."""
        for task in self._tasks:
            task.cancel()

    def conf(self) -> SlurmConf:
        """Return the configuration in force."""
        return self._node.conf

    def now_us(self) -> int:
        """Return the time."""
        return time.time_ns() // 1000

    def credential(
        self, job: ManagedJob, step: Step, granted: StepGranted, request: CreateStep
    ) -> bytes:
        """Return what starts a step, signed: what the controller signed of its job, and its share.

        The nodes check that the share is of the job.
        """
        here = self._core.attempt(job.job.job_id, job.job.attempt)
        assert here is not None and here.credential is not None
        now_us = self.now_us()
        whole = msgspec.structs.replace(
            here.credential,
            managed=None,
            issuer=self._node.name,
            script_digest=b"",
            environment_digest=b"",
            issued_us=now_us,
            expires_us=now_us + nm.CREDENTIAL_LIFE_US,
            nonce=os.urandom(_NONCE_BYTES),
        )
        signed = for_step(job.cluster, whole, share_of(step, granted, request))
        return self._signer.sign_credential(nm.encode_credential(signed))

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call back after a while."""
        self._loop.call_later(delay_s, work)

    def run(self, work: Iterator[None]) -> None:
        """Go on with some work in turns of the loop."""
        if next(work, self) is not self:
            self._loop.call_soon(self.run, work)

    def report(self, job: ManagedJob, news: bytes) -> None:
        """Put news behind those sent before, and before the end of the job."""
        report = nm.ManagedSteps(job.job.job_id, job.job.attempt, news)
        reports = self._core.reports
        at = 0
        for index, other in enumerate(reports):
            if isinstance(other, nm.ManagedSteps) and other.job_id == report.job_id:
                at = index + 1
        reports.insert(at, report)
        self._loop.call_soon(self._act, [])

    def error(self, text: str) -> None:
        """Write a line into the log."""
        self._node.log.error(text)

    def launch(self, job: ManagedJob, granted: StepGranted, launch: nm.LaunchStep) -> None:
        """Begin a queued step on its nodes."""
        credential = self._credentials.decode(launch.credential)
        for name, address in zip(granted.nodes, granted.addresses, strict=True):
            if name == self._node.name:
                self._launch(credential, launch, LocalLaunch(self._failed(job, granted, name)))
            else:
                self._spawn(self._launch_on(job, granted, launch, name, address))

    async def _launch_on(
        self,
        job: ManagedJob,
        granted: StepGranted,
        launch: nm.LaunchStep,
        name: str,
        address: tuple[str, int],
    ) -> None:
        try:
            await self._links.request(name, address, launch)
        except LinkError as error:
            self._failed(job, granted, name)(error.text)

    def _failed(self, job: ManagedJob, granted: StepGranted, name: str) -> Callable[[str], None]:
        def failed(text: str) -> None:
            step_id = granted.step_id
            self._node.log.error(
                f"StepId={granted.job_id}.{step_id} was not launched on {name}: {text}"
            )
            self._told_failed(job, step_id, name)

        return failed

    def end(self, job: ManagedJob, step: Step) -> None:
        """End a step on all nodes where it runs."""
        job_id, attempt = job.job.job_id, job.job.attempt
        for node_id in step.nodes_pending:
            node = job.cluster.node(node_id)
            if node.spec.name == self._node.name:
                here = self._core.attempt(job_id, attempt)
                if here is not None and step.step_id in here.steps:
                    words: Order = {"do": "terminate", "why": "", "wait_s": 0.0}
                    self._act([Command(job_id, attempt, step.step_id, words)])
            else:
                there = node.spec.name, node_address(node)
                self._spawn(self._end_on(*there, job_id, step.step_id))

    async def _end_on(self, name: str, address: tuple[str, int], job_id: int, step_id: int) -> None:
        try:
            await self._links.request(name, address, nm.SignalStep(job_id, step_id, SIGKILL))
        except LinkError as error:
            self._node.log.verbose(f"StepId={job_id}.{step_id} on {name}: {error.text}")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
