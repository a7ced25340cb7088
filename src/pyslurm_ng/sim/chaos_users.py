"""The users of a simulated life: they submit, ask again until they are answered, and cancel."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.life import Life, never_refused
from pyslurm_ng.wire.job_messages import JobAccepted, SubmitJob
from pyslurm_ng.wire.messages import decode_reply
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter


class _Answer:
    """A client's end of one request."""

    def __init__(
        self,
        told: Callable[[Struct | bytes], None],
        refused: Callable[[int, str], None],
    ) -> None:
        self._told = told
        self._refused = refused

    def reply(self, answer: Struct | bytes) -> None:
        self._told(answer)

    def error(self, code: int, text: str) -> None:
        self._refused(code, text)


class Users:
    """The users of a life, each with one job.

    Attributes:
        jobs: how many of them are to be accepted.
    """

    def __init__(self, life: Life, jobs: int, has_components: bool) -> None:
        self._life = life
        self._world = life.world
        self._ledger = life.ledger
        self.jobs = jobs
        self._has_components = has_components
        self._refused: set[str] = set()  # clients whose job is refused everywhere

    @property
    def are_answered(self) -> bool:
        """Whether every job has been accepted, or refused for good."""
        return len(self._ledger.promised) >= self.jobs

    def begin(self) -> None:
        """Let each user come at some time of the first five minutes."""
        for number in range(self.jobs):
            at_us = self._world.now_us + self._world.random.randrange(300) * SECOND_US
            self._world.at(at_us, self.client(number))

    def client(self, number: int) -> Callable[[], None]:
        """Return a user that submits a job, and asks again with the same id until answered."""
        chance = self._world.random
        mark = f"client{number}"
        request = self._life.request(number, mark)
        further: list[JobRequest] = []
        if self._has_components and not request.array and chance.random() < 0.5:
            # Together they must fit: there are two GPUs and 20 CPUs.
            further = [
                JobRequest(ntasks=chance.choice((1, 3)), partition=request.partition)
                for _ in range(chance.choice((1, 2)))
            ]
        message = SubmitJob(
            request_id=number.to_bytes(16, "big"),
            request=request,
            script=b"#!/bin/sh\n",
            components=further,
        )
        cancels = chance.random() < 0.2

        def told(answer: Struct | bytes) -> None:
            accepted = decode_reply("JobAccepted", answer) if isinstance(answer, bytes) else answer
            assert isinstance(accepted, JobAccepted), accepted
            first = mark not in self._ledger.promised
            self._ledger.promise(mark, accepted.job_id)
            if cancels and first:
                self._world.after(20 * SECOND_US, lambda: self._cancel(number, accepted.job_id))

        def refused(code: int, text: str) -> None:
            self._life.refused(code, text)
            if mark not in self._refused:
                self._refused.add(mark)
                self.jobs -= 1

        def ask() -> None:
            if mark in self._ledger.promised or mark in self._refused:
                return
            controller = self._life.controller
            if controller is not None:
                answer = _Answer(
                    lambda reply: self._when_up(controller, lambda: told(reply)), refused
                )
                context = self._context(number)
                controller.writer.change(RULES["SubmitJob"], message, context, answer)
            self._world.after(10 * SECOND_US, ask)

        return ask

    def _when_up(self, controller: SimController, action: Callable[[], None]) -> None:
        """An answer reaches its client unless its controller died first."""
        if controller is self._life.controller:
            action()

    def _context(self, number: int) -> Context:
        return Context(self._life.conf, self._world.now_us, self._life.caller(number))

    def _cancel(self, number: int, job_id: int) -> None:
        if self._life.controller is not None:
            message = CancelJobs(
                request_id=self._world.random.randbytes(16), filter=JobFilter(jobs=[str(job_id)])
            )
            answer = _Answer(lambda reply: None, never_refused)
            context = self._context(number)
            self._life.controller.writer.change(RULES["CancelJobs"], message, context, answer)
