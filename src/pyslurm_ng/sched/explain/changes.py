"""What a user could ask for instead, so that a waiting job starts sooner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
)
from pyslurm_ng.base.units import format_minutes_short, whole_number
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.snapshot import Snapshot

# Time limits to try, in minutes, besides parts of the job's own.
_LIMITS_MIN = (10080, 4320, 2880, 1440, 720, 480, 240, 120, 60, 40, 30, 20, 15, 10, 5, 1)
_MOST_LIMITS = 18
_MOST_SINGLE = 16  # counts up to this many are tried one less at a time


@dataclass(frozen=True, slots=True)
class Change:
    """One thing changed about a job: what the user would type, and the job as it would be.

    Changes of one `kind` go from mild to severe.
    """

    kind: str
    text: str
    job: Waiting


def changes(
    job: Waiting, snapshot: Snapshot, partitions: Sequence[str], qos: Sequence[str] = ()
) -> Iterator[Change]:
    """Yield what a user could ask for instead, each kind from mild to severe."""
    yield from _limits(job, snapshot)
    yield from _sizes(job)
    yield from _amounts(job)
    yield from _conditions(job)
    for name in partitions:
        if name not in job.partitions and name in snapshot.partitions:
            yield Change("partition", f"--partition={name}", replace(job, partitions=(name,)))
    for name in qos:
        if name != job.qos:
            yield Change("qos", f"--qos={name}", replace(job, qos=name))


def _limits(job: Waiting, snapshot: Snapshot) -> Iterator[Change]:
    own_min = job.time_limit_min
    if own_min == NO_VAL:
        known = [
            snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions
        ]
        own_min = min((partition.default_time_min for partition in known), default=NO_VAL)
        if own_min >= NO_VAL:
            own_min = min((partition.max_time_min for partition in known), default=NO_VAL)
    parts = _less(own_min) if own_min < NO_VAL else []
    shorter = {limit for limit in (*parts, *_LIMITS_MIN) if 0 < limit < own_min}
    for limit in sorted(shorter, reverse=True)[:_MOST_LIMITS]:
        yield Change(
            "time", f"--time={format_minutes_short(limit)}", replace(job, time_limit_min=limit)
        )


def _sizes(job: Waiting) -> Iterator[Change]:
    """Yield the same tasks on fewer nodes, and fewer tasks."""
    request = job.request
    nodes, tasks = request.nodes_min, request.ntasks
    for fewer in _less(nodes):
        if request.node_sizes or request.segment:
            break
        smaller = changed_request(request, nodes_min=fewer, nodes_max=fewer)
        if tasks:
            yield _changed("nodes", f"--nodes={fewer}", job, smaller)
            part = max(1, tasks * fewer // nodes)
            changed = changed_request(smaller, ntasks=part)
            yield _changed("size", f"--nodes={fewer} --ntasks={part}", job, changed)
        else:
            yield _changed("size", f"--nodes={fewer}", job, smaller)
    if nodes <= 1:
        for fewer in _less(tasks):
            text = f"--ntasks={fewer}"
            yield _changed("size", text, job, changed_request(request, ntasks=fewer))
    for fewer in _less(request.cpus_per_task):
        text = f"--cpus-per-task={fewer}"
        yield _changed("cpus", text, job, changed_request(request, cpus_per_task=fewer))


def _amounts(job: Waiting) -> Iterator[Change]:
    """Yield less memory and fewer GPUs."""
    request = job.request
    for name, option in (("mem_per_node_mib", "--mem"), ("mem_per_cpu_mib", "--mem-per-cpu")):
        # Half or a quarter may do; a MiB is no advice.
        for fewer in _less(getattr(request, name), parts=4)[:-1]:
            yield _changed(
                "memory", f"{option}={fewer}M", job, changed_request(request, **{name: fewer})
            )
    for name in ("gpus", "gpus_per_node", "gpus_per_task"):
        asked = getattr(request, name)
        kind, colon, count = asked.rpartition(":")
        if not asked or "," in asked or whole_number(count) is None:
            continue
        for fewer in _less(int(count)):
            value = f"{kind}{colon}{fewer}"
            text = f"--{name.replace('_', '-')}={value}"
            yield _changed("gpus", text, job, changed_request(request, **{name: value}))


def _conditions(job: Waiting) -> Iterator[Change]:
    """Yield the job without one of its conditions."""
    request = job.request
    for name, option in (
        ("constraint", "--constraint"),
        ("node_list", "--nodelist"),
        ("exclude", "--exclude"),
        ("licenses", "--licenses"),
    ):
        value = getattr(request, name)
        if value:
            text = f"without {option}={value}"
            yield _changed(name, text, job, changed_request(request, **{name: ""}))
    if job.switches:
        text = f"without --switches={job.switches}"
        yield Change("switches", text, replace(job, switches=0))
    if request.segment:
        text = f"without --segment={request.segment}"
        yield _changed("segment", text, job, changed_request(request, segment=0))
    for bits, option in (
        (REQ_CONTIGUOUS, "--contiguous"),
        (
            REQ_EXCLUSIVE | REQ_EXCLUSIVE_USER | REQ_EXCLUSIVE_MCS | REQ_EXCLUSIVE_TOPO,
            "--exclusive",
        ),
    ):
        if request.flags & bits:
            flags = request.flags & ~bits
            yield _changed(option, f"without {option}", job, changed_request(request, flags=flags))


def _less(count: int, parts: int = 8) -> list[int]:
    """Return all but one, two ... of so many equal parts of a count, and one; all of a few."""
    if count <= _MOST_SINGLE:
        return list(range(count - 1, 0, -1))
    counts = {count * part // parts for part in range(1, parts)} | {1}
    return sorted((fewer for fewer in counts if 0 < fewer < count), reverse=True)


def _changed(kind: str, text: str, job: Waiting, request: JobRequest) -> Change:
    return Change(kind, text, replace(job, request=request))
