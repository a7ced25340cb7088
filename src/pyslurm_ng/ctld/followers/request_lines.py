"""What slurmctld.log says of one request: lines for what was done, and for what was not.

They have the form of Slurm's, so that existing searches find them; who asked is always in them.
What happens later, or to jobs that were found by a filter, is in the lines of events (`event_log`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pyslurm_ng.base.errors import Reject, error_text
from pyslurm_ng.base.numbers import SIGKILL
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.wire import query_messages as q

Lines: TypeAlias = tuple[list[str], list[str]]
"""Of what was done, and of what was refused."""

_LOGGED_IDS = 20  # of one request have lines of their own; a list may name thousands
_SEEN_BY_EVENTS = frozenset(("state", "reason"))  # of a node: `event_log` has their lines


def request_lines(request: object, uid: int, outcome: Decision | Reject) -> Lines:
    """Return the lines of a request and its outcome; none where events say all of it."""
    lines = _LINES.get(type(request))
    return lines(request, uid, outcome) if lines is not None else ([], [])


def _of_jobs(
    request: Any,
    outcome: Decision | Reject,
    done: Callable[[str], Iterable[str]],
    failed: Callable[[str, str], str],
) -> Lines:
    """Return the lines of each id of a request that names jobs, by id or by name."""
    name = getattr(request, "name", "")
    named = request.jobs or ([f"of name {name}"] if name else [])
    if isinstance(outcome, Reject):
        return [], [failed(text, str(outcome)) for text in named[:_LOGGED_IDS]]
    reply = outcome.reply
    errors: list[tuple[str, int, str]] = getattr(reply, "errors", [])
    if getattr(reply, "is_partial", False):
        named = named[: reply.next_id]  # type: ignore[union-attr]
    wrong = {text for text, _, _ in errors}
    right = [text for text in named if text not in wrong]
    lines = [line for text in right[:_LOGGED_IDS] for line in done(text)]
    if len(right) > _LOGGED_IDS:
        lines.append(f"{type(request).__name__}: {len(right) - _LOGGED_IDS} more ids alike")
    return lines, [failed(text, why) for text, _, why in errors[:_LOGGED_IDS]]


def _update_job(request: q.UpdateJob, uid: int, outcome: Decision | Reject) -> Lines:
    def done(text: str) -> Iterable[str]:
        for key, value in request.settings.items():
            yield f"_update_job: setting {key} to {value} for JobId={text}"
        yield f"_slurm_rpc_update_job: complete JobId={text} uid={uid}"

    return _of_jobs(request, outcome, done, _update_failed(uid))


def _update_failed(uid: int) -> Callable[[str, str], str]:
    return lambda text, why: f"_slurm_rpc_update_job: JobId={text} uid={uid}: {why}"


def _hold(request: q.HoldJobs, uid: int, outcome: Decision | Reject) -> Lines:
    act = "_release_job_rec: release hold" if request.release else "_hold_job_rec: hold"

    def done(text: str) -> Iterable[str]:
        yield f"sched: {act} on JobId={text} by uid {uid}"
        yield f"_slurm_rpc_update_job: complete JobId={text} uid={uid}"

    return _of_jobs(request, outcome, done, _update_failed(uid))


def _requeue(request: q.RequeueJobs, uid: int, outcome: Decision | Reject) -> Lines:
    return _of_jobs(
        request,
        outcome,
        lambda text: [f"_slurm_rpc_requeue: complete JobId={text} uid={uid}"],
        lambda text, why: (
            f"_slurm_rpc_requeue: Requeue of JobId={text} uid={uid} returned an error: {why}"
        ),
    )


def _suspend(request: q.SuspendJobs, uid: int, outcome: Decision | Reject) -> Lines:
    verb = f"_slurm_rpc_suspend({'resume' if request.resume else 'suspend'})"
    return _of_jobs(
        request,
        outcome,
        lambda text: [f"{verb} for {text} uid={uid}"],
        lambda text, why: f"{verb} for {text} uid={uid} {why}",
    )


def _top(request: q.TopJobs, uid: int, outcome: Decision | Reject) -> Lines:
    return _of_jobs(
        request,
        outcome,
        lambda text: [f"_slurm_rpc_top_job for {text} uid={uid}"],
        lambda text, why: f"_slurm_rpc_top_job for {text} uid={uid} {why}",
    )


def _cancel(request: q.CancelJobs, uid: int, outcome: Decision | Reject) -> Lines:
    """Return lines of signals, of steps and of errors; ends of jobs are events."""
    signal = request.signal or SIGKILL
    ends_jobs = signal == SIGKILL

    def done(text: str) -> Iterable[str]:
        if not ends_jobs or "." in text:
            yield f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={text} uid {uid} sig={signal}"

    lines, failed = _of_jobs(
        _Named(request.filter.jobs),
        outcome,
        done,
        lambda text, why: (
            f"_slurm_rpc_kill_job: job_str_signal() uid={uid} JobId={text} sig={signal} "
            f"returned: {why}"
        ),
    )
    reply = None if isinstance(outcome, Reject) else outcome.reply
    if not request.filter.jobs and not ends_jobs and isinstance(reply, q.Cancelled):
        count = reply.count
        lines.append(f"_slurm_rpc_kill_job: REQUEST_KILL_JOB jobs={count} uid {uid} sig={signal}")
    return lines, failed


class _Named:
    """Jobs that a filter names by their ids."""

    def __init__(self, jobs: list[str]) -> None:
        self.jobs = jobs


def _update_step(request: q.UpdateStep, uid: int, outcome: Decision | Reject) -> Lines:
    if isinstance(outcome, Reject):
        return [], [f"_slurm_rpc_update_step: StepId={request.step} uid={uid}: {outcome}"]
    return [f"_slurm_rpc_update_step: complete StepId={request.step} uid={uid}"], []


def _update_nodes(request: q.UpdateNodes, uid: int, outcome: Decision | Reject) -> Lines:
    where = f"_slurm_rpc_update_node for {request.nodes} uid={uid}"
    if isinstance(outcome, Reject):
        return [], [f"{where}: {outcome}"]
    lines = [
        f"update_node: node {request.nodes} {key} set to: {value}"
        for key, value in request.settings.items()
        if key not in _SEEN_BY_EVENTS
    ]
    if outcome.refused:
        return lines, [f"{where}: {error_text(outcome.refused)}"]
    return [*lines, f"{where} complete"], []


def _create_nodes(request: q.CreateNodes, uid: int, outcome: Decision | Reject) -> Lines:
    where = f"_slurm_rpc_create_node for {request.line} uid={uid}"
    return _one(outcome, f"{where} complete", where)


def _delete_nodes(request: q.DeleteNodes, uid: int, outcome: Decision | Reject) -> Lines:
    where = f"_slurm_rpc_delete_node for {request.nodes} uid={uid}"
    return _one(outcome, f"{where} complete", where)


def _update_partition(request: q.UpdatePartition, uid: int, outcome: Decision | Reject) -> Lines:
    where, name = "_slurm_rpc_update_partition", request.name
    made = [f"update_part: partition {name} being created"] if request.create else []
    made += _settings("update_part: setting", request.settings, f"for partition {name}")
    made.append(f"{where} complete for {name} uid={uid}")
    return _one(outcome, made, f"{where} partition={name} uid={uid}")


def _delete_partition(request: q.DeletePartition, uid: int, outcome: Decision | Reject) -> Lines:
    where, name = "_slurm_rpc_delete_partition", request.name
    return _one(
        outcome, f"{where} complete for {name} uid={uid}", f"{where} partition={name} uid={uid}"
    )


def _update_reservation(
    request: q.UpdateReservation, uid: int, outcome: Decision | Reject
) -> Lines:
    verb = "create" if request.create else "update"
    where, name = f"_slurm_rpc_resv_{verb}", request.name
    if not isinstance(outcome, Reject) and isinstance(outcome.reply, q.ReservationNamed):
        name = outcome.reply.name
    made = _settings(f"{where}: setting", request.settings, f"for reservation {name}")
    made.append(f"{where} complete for {name} uid={uid}")
    shown = f" reservation={name}" if name else ""
    return _one(outcome, made, f"{where}{shown} uid={uid}")


def _delete_reservation(
    request: q.DeleteReservation, uid: int, outcome: Decision | Reject
) -> Lines:
    where, name = "_slurm_rpc_delete_reservation", request.name
    return _one(
        outcome, f"{where} complete for {name} uid={uid}", f"{where} reservation={name} uid={uid}"
    )


def _settings(begin: str, settings: Mapping[str, str], end: str) -> list[str]:
    return [f"{begin} {key} to {value} {end}" for key, value in settings.items()]


def _one(outcome: Decision | Reject, done: str | list[str], failed: str) -> Lines:
    if isinstance(outcome, Reject):
        return [], [f"{failed}: {outcome}"]
    return ([done] if isinstance(done, str) else done), []


_LINES: dict[type, Callable[[Any, int, Decision | Reject], Lines]] = {
    q.CancelJobs: _cancel,
    q.CreateNodes: _create_nodes,
    q.DeleteNodes: _delete_nodes,
    q.DeletePartition: _delete_partition,
    q.DeleteReservation: _delete_reservation,
    q.HoldJobs: _hold,
    q.RequeueJobs: _requeue,
    q.SuspendJobs: _suspend,
    q.TopJobs: _top,
    q.UpdateJob: _update_job,
    q.UpdateNodes: _update_nodes,
    q.UpdatePartition: _update_partition,
    q.UpdateReservation: _update_reservation,
    q.UpdateStep: _update_step,
}
