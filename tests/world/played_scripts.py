"""The site's scripts as a test plays them: processes that answer when told to, and their clock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Struct

from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.site_policy.gate import Gate
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.policy.messages import Begin, Question, Verdict
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.model.clusters import FOUR_NODES, conf_of
from tests.world.logs import LineLog
from tests.world.site import Site


class Clock:
    """A loop on which nothing becomes ready by itself.

    Attributes:
        now_s: what `time` says.
        soon: what is to be called at once.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Any:
        if not delay:
            self.soon.append(callback)
        return SimpleNamespace(cancel=lambda: None)

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class PlayedProcess:
    """A process of scripts that does what the test says.

    Attributes:
        asked: the names of the jobs that it is asked about and has not answered.
        is_closed: it has been killed.
        stays: it does not end all the same.
    """

    def __init__(self, begin: Begin, told: dict[str, Any]) -> None:
        self.begin = begin
        self.told = told
        self.is_closed = self.stays = False
        self._open: list[tuple[Question, Callable[[Verdict], None]]] = []

    @property
    def asked(self) -> list[str]:
        return [msgspec.msgpack.decode(question.request)["name"] for question, _ in self._open]

    def ask(self, question: Question, done: Callable[[Verdict], None]) -> None:
        assert not self.is_closed
        self._open.append((question, done))

    def send(self, message: Struct) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_gone(self) -> bool:
        return self.is_closed and not self.stays

    def load(self) -> None:
        self.told["loaded"]([])

    def answer(self) -> None:
        """Let the first request pass."""
        question, done = self._open.pop(0)
        done(Verdict(question.number, 0, question.request))

    def be_slow(self) -> None:
        self.told["slow"]()

    def end(self, why: str = "the script took longer than 5 seconds") -> None:
        self.close()
        self.told["ended"](why)


def name_of(call: Any) -> str:
    """Return the name of the job that a call submits."""
    name: str = call.request.request.name
    return name


class PlayedSite:
    """A gate before a controller, with processes that a test plays.

    Attributes:
        gate: what is tested.
        passed: names of the jobs that went on, with their callers.
        refused: names of the jobs that were refused, with the reason.
        processes: all that were started, in order.
    """

    def __init__(self) -> None:
        self.site, self.clock, self.log = Site(), Clock(), LineLog()
        self.passed: list[tuple[str, Caller]] = []
        self.refused: list[tuple[str, str]] = []
        self.processes: list[PlayedProcess] = []
        writer: Any = SimpleNamespace(
            cluster=self.site.cluster,
            refuse=lambda call, reject: self.refused.append((name_of(call), reject.detail)),
        )
        clock: Any = self.clock
        log: Any = self.log
        self.gate = Gate(
            writer, self.site.soft, conf_of(f"{FOUR_NODES}JobSubmitPlugins=lua\n"), clock, log,
            lambda who: Context(self.site.conf, self.site.now_us, who),
            lambda call, who: self.passed.append((name_of(call), who)),
            lambda call, who, error: self.refused.append((name_of(call), repr(error))),
            self._start,
        )  # fmt: skip

    def _start(self, loop: Clock, begin: Begin, *, limit_s: float, **told: Any) -> PlayedProcess:
        self.processes.append(PlayedProcess(begin, told))
        return self.processes[-1]

    def submit(self, caller: Caller, name: str, **fields: Any) -> None:
        request = SubmitJob(bytes(16), JobRequest(name=name, **fields), b"#!/bin/sh\n")
        call: Any = SimpleNamespace(request=request, is_gone=False, error=self._error)
        self.gate.ask(call, caller)

    def _error(self, code: int, text: str) -> None:
        self.refused.append(("", text))

    @property
    def asked(self) -> list[list[str]]:
        """Return what each process that is not ended is asked about."""
        return [process.asked for process in self.processes if not process.is_closed]
