"""srun asks the controller for a step, and waits until there is room for it."""

import os

from pyslurm_ng.cli.command import say
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.wire.client import Client


class NoStep(Exception):
    """There is no step; the reason has been printed."""


class StepCreation:
    """One request for a step.

    Attributes:
        client: the controller, or the step manager of the job, which tells when the step is over.

    Args:
        client: whom to ask first.
        info: prints a line unless srun is to be quiet.
        take: called with the controller's messages about the allocation in the meantime.
    """

    def __init__(
        self,
        conf: "dict[str, str]",
        client: "Client",
        signals: "Signals",
        info: "Callable[[str], None]",
        take: "Callable[[dict[str, Any], bool], None] | None",
    ) -> None:
        self._conf = conf
        self.client = client
        self._signals = signals
        self._info = info
        self._take = take

    def run(self, fields: "dict[str, Any]") -> "dict[str, Any]":
        """Create the step, waiting for other steps if need be; return what was granted.

        Raises:
            NoStep: the controller refused, or the user gave up.
        """
        job_id, step_id, was_told = fields["job_id"], -1, False
        fields["request_id"] = os.urandom(16)
        sequence = self._begin(fields)
        while step_id < 0:
            number = self._interrupted_while_waiting()
            if number:
                self._info(f"Cancelled pending job step with signal {number}")
                self._is_over(job_id)
            try:
                got, reply, is_last = self._next_answer()
            except SlurmError as problem:
                if problem.sequence:
                    self._refused(job_id, problem)
                sequence = self._asked_again(fields, problem)
                continue
            if got != sequence:
                self._other_answer(reply, is_last)
            elif "address" in reply:
                from pyslurm_ng.cli.step.step_manager import manager_at

                fields["job_id"] = job_id = reply["job_id"]
                fields.pop("array_task_id", None)
                self.client = manager_at(self._conf, reply["node"], reply["address"])
                sequence = self._begin(fields)
            elif "credential" in reply:
                step_id = reply["step_id"]
                if was_told:
                    self._info(f"Step created for StepId={job_id}.{step_id}")
                return reply
            elif "code" in reply:
                was_told = True
                self._info(
                    f"Job {job_id} step creation temporarily disabled, retrying ({reply['text']})"
                )
            elif is_last:
                self._is_over(job_id)
        raise NoStep

    def _begin(self, fields: "dict[str, Any]") -> int:
        try:
            return self.client.begin("CreateStep", fields)
        except SlurmError as problem:
            self._refused(fields["job_id"], problem)
            raise

    def _is_over(self, job_id: int) -> None:
        say(f"srun: error: Unable to create step for job {job_id}: Job/step already "
            "completing or completed")  # fmt: skip
        raise NoStep

    def _asked_again(self, fields: "dict[str, Any]", problem: SlurmError) -> int:
        """The connection was lost: the same request id gets the same step."""
        try:
            return self.client.begin("CreateStep", fields)
        except SlurmError:
            self._refused(fields["job_id"], problem)
            raise

    def _next_answer(self) -> "tuple[int, dict[str, Any], bool]":
        """Wait for an answer or a signal; return (-1, {}, False) if none came."""
        import select

        poll = select.poll()
        poll.register(self.client.fileno(), select.POLLIN)
        poll.register(self._signals.descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        if self.client.fileno() in ready:
            return self.client.receive(60.0)
        return -1, {}, False

    def _interrupted_while_waiting(self) -> int:
        """Return the signal with which the user gave up, 0 if there was none."""
        return next((number for number in self._signals.take() if number in (1, 2, 3, 15)), 0)

    def _other_answer(self, reply: "dict[str, Any]", is_last: bool) -> None:
        if self._take is not None and reply:
            self._take(reply, is_last)

    def _refused(self, job_id: int, problem: SlurmError) -> None:
        from pyslurm_ng.base.error_numbers import Errno

        *details, text = problem.text.split("\n")
        is_unknown = problem.code in (Errno.ESLURM_INVALID_JOB_ID, Errno.ESLURM_ALREADY_DONE)
        if is_unknown or problem.code == Errno.ESLURM_JOB_PENDING:
            say(f"srun: error: Unable to confirm allocation for job {job_id}: {text}")
            if is_unknown:
                self._info(
                    f"Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}"
                )
        elif details and problem.code == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE:
            # What srun says by itself within the job, whose variables tell how many nodes it has.
            say(f"srun: error: {details[0]}")
        else:
            say(f"srun: error: Unable to create step for job {job_id}: {text}")
        raise NoStep
