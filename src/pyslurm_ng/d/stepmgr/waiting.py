"""Steps of one job that wait for others, in the order of asking.

Of requests that ask for the same, only the first is tried: if it does not fit, none of them does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

import msgspec

from pyslurm_ng.d.stepmgr.notes import QUEUED
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.node_messages import LaunchStep
from pyslurm_ng.wire.step_messages import CreateStep
from pyslurm_ng.wire.stepmgr_messages import QueueStep, StepsOver, WaitSteps

_SAID_BY_SRUN = frozenset(
    ("request_id", "name", "srun_host", "srun_pid", "srun_port", "submit_line", "cwd", "std_in",
     "std_out", "std_err", "time_limit_min")
)  # fmt: skip
_SHAPE_FIELDS = tuple(name for name in CreateStep.__struct_fields__ if name not in _SAID_BY_SRUN)

_encode = msgspec.msgpack.Encoder().encode
_queued_decoder = msgspec.msgpack.Decoder(tuple[int, int, QueueStep])


@dataclass(eq=False, slots=True)
class WaitingStep:
    """A step that has no share yet: an srun waits for it, or it was queued (`queued`)."""

    request: CreateStep
    uid: int
    call: Call | None = None
    queued: QueueStep | None = None
    step_id: int = -1
    code: int = 0
    turn: int = 0
    size: int = 0  # of what was queued


def needs_srun(launch: LaunchStep) -> str:
    """Return why a step cannot be queued: none of its srun is left, and root connects nowhere.

    srun refuses the same, but any process of the user may send the request.
    """
    asked = {
        "route": launch.route is not None,
        "pty": launch.pty,
        "x11": launch.x11[0] != "",
        "mpi": launch.mpi not in ("", "none"),
    }
    names = ", ".join(name for name, is_asked in asked.items() if is_asked)
    return f"a step that is queued has no srun, which it needs for: {names}" if names else ""


def queued_note(waiting: WaitingStep) -> bytes:
    """Return what is noted of a queued step."""
    return _encode((waiting.step_id, waiting.uid, waiting.queued))


def read_note(body: bytes) -> WaitingStep:
    """Return the queued step of a note. Raises DecodeError."""
    step_id, uid, request = _queued_decoder.decode(body)
    return WaitingStep(request.step, uid, None, request, step_id, size=len(body))


class WaitingSteps:
    """The steps that wait, by what they ask for."""

    def __init__(self) -> None:
        self._by_shape: dict[tuple[object, ...], OrderedDict[int, WaitingStep]] = {}
        self._turns = count(1)
        self._count = 0
        self.queued_bytes = 0
        self._queued: dict[int, WaitingStep] = {}  # by their numbers

    def __len__(self) -> int:
        return self._count

    def __contains__(self, waiting: WaitingStep) -> bool:
        return waiting.turn in self._by_shape.get(_shape(waiting.request), ())

    def __iter__(self) -> Iterator[WaitingStep]:
        """Yield all in the order of asking."""
        steps = [step for alike in self._by_shape.values() for step in alike.values()]
        return iter(sorted(steps, key=lambda step: step.turn))

    def add(self, waiting: WaitingStep) -> None:
        """Let a step wait behind all others."""
        waiting.turn = next(self._turns)
        self.queued_bytes += waiting.size
        if waiting.queued is not None:
            self._queued[waiting.step_id] = waiting
        self._by_shape.setdefault(_shape(waiting.request), OrderedDict())[waiting.turn] = waiting
        self._count += 1

    def remove(self, waiting: WaitingStep) -> None:
        """Forget a step that waits no longer."""
        shape = _shape(waiting.request)
        alike = self._by_shape.get(shape)
        if alike is None or alike.pop(waiting.turn, None) is None:
            return
        self._count -= 1
        self.queued_bytes -= waiting.size
        self._queued.pop(waiting.step_id, None)
        if not alike:
            del self._by_shape[shape]

    def queued(self, step_id: int) -> WaitingStep | None:
        """Return the queued step of a number."""
        return self._queued.get(step_id)

    def notes(self) -> list[tuple[bytes, bytes]]:
        """Return the records of the steps that wait without an srun."""
        return [(QUEUED, queued_note(waiting)) for waiting in self._queued.values()]

    def has_alike(self, request: CreateStep) -> bool:
        """Return whether a step that asks for the same waits already."""
        return _shape(request) in self._by_shape

    def heads(self) -> list[WaitingStep]:
        """Return the first step of each kind of request, in the order of asking."""
        firsts = [next(iter(alike.values())) for alike in self._by_shape.values()]
        return sorted(firsts, key=lambda step: step.turn)

    def next_alike(self, waiting: WaitingStep) -> WaitingStep | None:
        """Return the first step that asks for the same."""
        alike = self._by_shape.get(_shape(waiting.request))
        return next(iter(alike.values())) if alike else None


class StepWaits:
    """Those who wait until no step of a job runs or waits: `swait`."""

    def __init__(self, job: ManagedJob, waiting: WaitingSteps) -> None:
        self._job = job
        self._waiting = waiting
        self._calls: dict[Call, WaitSteps] = {}

    def add(self, call: Call, request: WaitSteps, *, is_over: bool) -> None:
        """Answer a call when no step is left, now if so it is."""
        if not self._is_answered(call, request, is_over):
            self._calls[call] = request
            call.on_gone(partial(self._gone, call))

    def tell(self, *, is_over: bool) -> None:
        """Answer those for whom no step is left.

        Each may leave out one step, its own: while more are left, nobody need be looked at.
        """
        if not is_over and (len(self._waiting) or len(self._job.job.steps) > 1):
            return
        for call, request in list(self._calls.items()):
            if self._is_answered(call, request, is_over):
                self._calls.pop(call, None)

    def _is_answered(self, call: Call, request: WaitSteps, is_over: bool) -> bool:
        steps = self._job.job.steps
        others = len(steps) - (request.but_step_id in steps)
        if not is_over and (others or len(self._waiting)):
            return False
        call.reply(StepsOver(self._job.job.job_id))
        return True

    def _gone(self, call: Call) -> None:
        self._calls.pop(call, None)


def _shape(request: CreateStep) -> tuple[object, ...]:
    """Return all that decides whether a request fits."""
    return tuple(
        tuple(value) if isinstance(value, list) else value
        for name in _SHAPE_FIELDS
        for value in (getattr(request, name),)
    )
