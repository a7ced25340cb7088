"""An order of the queue that lets short work go first without making any job wait too long.

`SchedulerParameters=bf_smart`. The probable cost of a job is estimated from its limit and its
user's history (see `history`). Limits still bound jobs, and room is kept by limits, so a wrong
guess costs order, never a promise.

The longest wait that EASY backfilling would have made so far says how long is too long (see
`shadow`). A look ahead says whether a job will wait too long (`starts_in_us`): it tells when the
job would start if from now on all jobs were served by due dates, the order that keeps the longest
wait short. A due date is submission plus expected run time, of which at most 0.4 of the longest
wait counts; else a stream of short jobs would pass a job of days for days. The waiting jobs of a
partition then fall into groups, served in this order:

1. the first job of all once any is late, and the first job that takes more than two fifths of the
   CPUs once it has waited a tenth of the longest wait, since it can only start when nearly all
   others have ended; both have a reservation;
2. express jobs: the cheapest, as long as others have a reservation, with a fiftieth of the
   machine's time at most;
3. late jobs: those that would wait longer than 0.6 of the longest wait, and all before them in that
   order, each with a reservation. What is left of the longest wait is for what cannot be foreseen;
4. all others, the cheapest first. The first gets a reservation if no other job has one.

Cheap is a job that takes little of the machine for what its waiting costs: run time x CPUs over
the slowdown that a second of waiting adds, both expected. A user whose jobs often fail immediately
has cheap jobs, with any limits. So the mean slowdown falls, since short jobs behind long ones make
most of it. Jobs of higher PriorityTier, or of higher priority apart from its age factor, stay in
front.

Sources: Smith's rule with expectations: Rothkopf, "Scheduling with Random Service Times",
Management Science 12(9), 1966. Order by due dates keeps the longest wait short. A job's due date is
its submission, its run time and the wait that is allowed to all: Jackson, "Scheduling a Production
Line to Minimize Maximum Tardiness", 1955. The bound from a shadow, the look ahead and the express
share are our own.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from operator import itemgetter
from typing import NamedTuple

from pyslurm_ng._select import starts_in_us
from pyslurm_ng.base.numbers import DAY_US, MINUTE_US
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.backfill.shadow import Shadow, Twin
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.plan import Start
from pyslurm_ng.sched.frame.snapshot import Snapshot

# An entry as it stands in its partition: when it is due, the job, its place in the queue that was
# given, how long the job will probably run, how many CPUs it takes from others, its cost, and it.
_Line = tuple[int, int, int, int, int, float, Entry]

# Shares of the longest wait that EASY would have made.
_WIDE_SHARE = 0.1
_LATE_SHARE = 0.6
_DUE_SHARE = 0.4
_WIDE = 0.4  # of a partition's CPUs
_EXPRESS_SHARE = 0.02  # of the machine's time
_MOST_EXPRESS_S = 12 * 3600 * _EXPRESS_SHARE
_LOOK_EVERY_US = 600_000_000
_LEAST_LEFT_US = MINUTE_US  # of a job that runs
_LONG_SORT = 4096  # lines, two milliseconds
_WITHOUT_LIMIT_US = 14 * DAY_US

# Groups of a queue.
_FIRST, _EXPRESS, _LATE, _OTHER = range(4)


class Smart:
    """What the policy remembers from pass to pass; all soft, so a restart forgets it."""

    def __init__(self) -> None:
        self._shadows: dict[str, Shadow] = {}  # by partition
        self._cpus: dict[str, int] = {}  # of partitions
        self._counted: dict[str, _Counted] = {}  # what these were counted from
        self._outlooks: dict[str, _Outlook] = {}  # by partition
        self._widths: dict[Demand, int] = {}  # CPUs that a job takes from others
        self._now_us = 0
        self._groups: dict[int, int] = {}  # of the jobs of this pass
        self._express_s = 0.0  # of the whole machine, that express jobs may still take
        self._shares_s: dict[int, float] = {}  # of express jobs that may start in this pass

    def order(self, snapshot: Snapshot, queue: Sequence[Entry]) -> list[Entry]:
        """Return the queue of a pass, each entry led by its rank, in the order to walk it."""
        self._pass_time(snapshot.now_us)
        self._widths = {}
        by_partition: dict[str, list[tuple[int, Entry]]] = {}
        for placed in enumerate(queue):
            name = placed[1][2].partition.name
            if name not in by_partition:
                by_partition[name] = []
            by_partition[name].append(placed)
        self._follow(snapshot, by_partition)
        self._groups, self._shares_s = {}, {}
        every: list[_Line] = []
        for name, entries in by_partition.items():
            every += self._line_up(name, entries, snapshot)
        return self._in_order(every)

    def _line_up(
        self, name: str, entries: Sequence[tuple[int, Entry]], snapshot: Snapshot
    ) -> list[_Line]:
        """Put the jobs of a partition into groups, and return their lines."""
        lines = self._by_due_date(name, entries)
        by_rank: dict[int, list[_Line]] = {}
        for line in lines:
            rank = line[6][0]
            if rank not in by_rank:
                by_rank[rank] = []
            by_rank[rank].append(line)
        self._look_ahead(name, snapshot, by_rank)
        for equals in by_rank.values():
            self._group(equals, snapshot, name)
        return lines

    def may_reserve(self, job_id: int, reserved: int) -> bool:
        """Return whether a job that cannot start is promised room; `reserved` others have been."""
        group = self._groups.get(job_id, _OTHER)
        return group in (_FIRST, _LATE) or (group == _OTHER and not reserved)

    def reserves(self, queue: Sequence[Entry]) -> bytes:
        """Return a byte for each job of a queue, 1 for jobs that are promised room beside
        others."""
        groups = self._groups
        return bytes(
            groups.get(job.job_id, _OTHER) in (_FIRST, _LATE) and not job.is_guest
            for _, job, _ in queue
        )

    def started(self, starts: Sequence[Start]) -> None:
        """Learn what a pass starts, and charge express jobs."""
        for start in starts:
            if start.partition in self._shadows:
                self._shadows[start.partition].started(start.job_id, self._now_us)
            self._express_s -= self._shares_s.pop(start.job_id, 0.0)

    def _pass_time(self, now_us: int) -> None:
        passed_s = (now_us - self._now_us) / 1e6 if self._now_us else 0.0
        self._now_us = now_us
        if passed_s > 0:
            self._express_s = min(_MOST_EXPRESS_S, self._express_s + passed_s * _EXPRESS_SHARE)

    def _follow(self, snapshot: Snapshot, queue: Mapping[str, Sequence[tuple[int, Entry]]]) -> None:
        """Let the shadows see what has changed."""
        now_us = snapshot.now_us
        running = {running_job.job_id for running_job in snapshot.running if running_job.end_us}
        for name in self._shadows.keys() - snapshot.partitions.keys():
            del self._shadows[name]
            self._outlooks.pop(name, None)
        for name in self._shadows.keys() | queue.keys():
            partition = snapshot.partitions[name]
            cpus = self._cpus[name] = self._cpus_of(partition, snapshot)
            shadow = self._shadows.get(name)
            if shadow is None or shadow.cpus != cpus:
                longest_us = shadow.longest_us if shadow is not None else 0
                shadow = self._shadows[name] = Shadow(cpus, longest_us)
                shadow.adopt(_running_twins(partition, snapshot), now_us)
            able = [entry for _, entry in queue.get(name, ()) if entry[2].verdict is None]
            arrived = [
                _twin(job, demand, self._width(demand))
                for _, job, demand in able
                if not shadow.knows(job.job_id)
            ]
            shadow.pass_time(now_us, arrived, {job.job_id for _, job, _ in able}, running)

    def _cpus_of(self, partition: Partition, snapshot: Snapshot) -> int:
        """Return how many CPUs a partition has; they are counted again only if nodes changed."""
        known = self._counted.get(partition.name)
        if (
            known is not None
            and known.specs is snapshot.specs
            and known.node_ids == partition.node_ids
        ):
            return known.cpus
        specs = (snapshot.specs[node_id] for node_id in partition.node_ids)
        cpus = sum(spec.cpus for spec in specs if spec is not None)
        self._counted[partition.name] = _Counted(snapshot.specs, partition.node_ids, cpus)
        return cpus

    def _look_ahead(
        self, name: str, snapshot: Snapshot, by_rank: Mapping[int, Sequence[_Line]]
    ) -> None:
        """Work out when jobs of a partition would start in order of due dates, if that is old."""
        known = self._outlooks.get(name)
        if known is not None and snapshot.now_us < known.until_us:
            return
        running = list(_running_twins(snapshot.partitions[name], snapshot))
        free = self._cpus[name] - sum(twin.cpus for twin in running)
        able = [
            line for rank in sorted(by_rank) for line in by_rank[rank] if line[6][2].verdict is None
        ]
        waits_us = starts_in_us(
            free,
            [(max(_LEAST_LEFT_US, twin.foreseen_us), twin.cpus) for twin in running],
            [(width, run_us) for _, _, _, run_us, width, _, _ in able],
        )
        starts_us = {
            line[1]: snapshot.now_us + wait_us
            for line, wait_us in zip(able, waits_us, strict=False)
        }
        self._outlooks[name] = _Outlook(snapshot.now_us + _LOOK_EVERY_US, starts_us)

    def _group(self, lines: Sequence[_Line], snapshot: Snapshot, name: str) -> None:
        """Put jobs of one rank in one partition, in order of due dates, into groups."""
        now_us, longest_us = snapshot.now_us, self._shadows[name].longest_us
        starts_us = self._outlooks[name].starts_us
        able = [line for line in lines if line[6][2].verdict is None]
        late, late_us = len(able), _LATE_SHARE * longest_us
        for line in reversed(able):
            start_us = max(now_us, starts_us.get(line[1], now_us))
            if start_us - _waits_since_us(line[6][1]) > late_us:
                break
            late -= 1
        for index, line in enumerate(able[:late]):
            self._put(line[6][1], _LATE if index else _FIRST)
        most = _WIDE * self._cpus[name]
        wide = next((entry[1] for _, _, _, _, width, _, entry in able if width > most), None)
        has_waited = wide is not None and now_us - _waits_since_us(wide) > _WIDE_SHARE * longest_us
        if wide is not None and has_waited:
            self._put(wide, _FIRST)
        if late or has_waited:
            others = [line for line in able if self._groups.get(line[1]) != _FIRST]
            self._choose_express(others, snapshot)

    def _put(self, job: Waiting, group: int) -> None:
        """Put a job into a group; one of several partitions keeps the best."""
        self._groups[job.job_id] = min(group, self._groups.get(job.job_id, group))

    def _choose_express(self, lines: Sequence[_Line], snapshot: Snapshot) -> None:
        """Let the cheapest jobs pass late ones, as long as their share lasts."""
        left_s = self._express_s - sum(self._shares_s.values())
        if left_s <= 0:
            return
        cheapest = [(line[5], index) for index, line in enumerate(lines)]
        heapify(cheapest)  # only a few are wanted
        while cheapest:
            _, _, _, run_us, width, _, (_, job, _) = lines[heappop(cheapest)[1]]
            share_s = run_us / 1e6 * width / snapshot.total_cpus
            if share_s > left_s:
                return
            if not job.array_pending:
                left_s -= share_s
                self._shares_s[job.job_id] = share_s
                self._put(job, _EXPRESS)

    def _in_order(self, lines: list[_Line]) -> list[Entry]:
        """Return entries in the order of ranks, groups and what counts in these.

        Args:
            lines: of all partitions; none is left.
        """
        group_of = self._groups.get
        pieces: dict[tuple[int, int], list[_Line]] = {}
        for line in _sorted_in_pieces(lines, 0):
            key = line[6][0], group_of(line[1], _OTHER)
            if key not in pieces:
                pieces[key] = []
            pieces[key].append(line)
        lines.clear()
        entries: list[Entry] = []
        for key in sorted(pieces):
            piece = pieces.pop(key)
            if key[1] in (_EXPRESS, _OTHER):
                piece = _sorted_in_pieces(piece, 5)  # with equal costs stay in order
            piece.reverse()
            while piece:  # many lines given up at once would keep other threads waiting, too
                entries += [line[6] for line in reversed(piece[-_LONG_SORT:])]
                del piece[-_LONG_SORT:]
        return entries

    def _by_due_date(self, name: str, entries: Sequence[tuple[int, Entry]]) -> list[_Line]:
        """Return the lines of a partition in order.

        A job is due when it would end if it had started at once; a long one when it must start.
        Its cost is CPU seconds over the slowdown that a second of waiting adds.
        """
        most_us = int(_DUE_SHARE * self._shadows[name].longest_us)
        lines = []
        for index, entry in entries:
            _, job, demand = entry
            run_us, width = _run_us(job, demand), self._width(demand)
            lines.append(
                (
                    _waits_since_us(job) + (run_us if run_us < most_us else most_us),
                    job.job_id,
                    index,
                    run_us,
                    width,
                    (job.foreseen_cost or (run_us / 1e6) ** 2) * width,
                    entry,
                )
            )
        return _sorted_in_pieces(lines, 0)

    def _width(self, demand: Demand) -> int:
        """Return how many CPUs of its partition a job takes from others."""
        width = self._widths.get(demand)
        if width is None:
            width = self._widths[demand] = self._width_of(demand)
        return width

    def _width_of(self, demand: Demand) -> int:
        need, partition = demand.need, demand.partition
        most = self._cpus[partition.name]
        cpus = need.tasks * need.cpus_per_task
        if need.is_exclusive:
            cpus = max(cpus, need.nodes_min * most // max(1, len(partition.node_ids)))
        return max(1, min(cpus, most))


@dataclass(frozen=True, slots=True)
class _Outlook:
    """When the jobs of a partition would start, and until when it is not worked out again."""

    until_us: int
    starts_us: Mapping[int, int]


class _Counted(NamedTuple):
    """The CPUs of a partition, and the nodes that they were counted on."""

    specs: tuple[NodeSpec | None, ...]
    node_ids: tuple[int, ...]
    cpus: int


def _sorted_in_pieces(lines: list[_Line], column: int) -> list[_Line]:
    """Return lines in the order of one column; the first decides with all behind it.

    No other thread runs while a list is sorted: a long one is sorted by stretches of values.
    """
    value = itemgetter(column)
    key = value if column else None
    if len(lines) <= _LONG_SORT:
        return sorted(lines, key=key)
    bounds = sorted(map(value, lines[:: _LONG_SORT // 8]))[::8]
    stretches: list[list[_Line]] = [[] for _ in range(len(bounds) + 1)]
    for line in lines:
        stretches[bisect(bounds, value(line))].append(line)
    in_order: list[_Line] = []
    for stretch in stretches:
        stretch.sort(key=key)
        in_order += stretch
    return in_order


def _waits_since_us(job: Waiting) -> int:
    return job.accrue_us or job.submit_us


def _run_us(job: Waiting, demand: Demand) -> int:
    """Return how long a job will probably run."""
    if job.foreseen_us:
        return job.foreseen_us
    return _WITHOUT_LIMIT_US if demand.duration_us >= NO_END_US else demand.duration_us


def _twin(job: Waiting, demand: Demand, cpus: int) -> Twin:
    return Twin(
        job_id=job.job_id,
        cpus=cpus,
        limit_us=min(demand.duration_us, NO_END_US),
        submit_us=_waits_since_us(job),
        foreseen_us=_run_us(job, demand),
        tasks=task_ranges.count(job.array_pending),
    )


def _running_twins(partition: Partition, snapshot: Snapshot) -> Iterator[Twin]:
    """Yield what runs in a partition when its shadow begins."""
    now_us = snapshot.now_us
    nodes = frozenset(partition.node_ids)
    for running_job in snapshot.running:
        cpus = sum(alloc.cpus for alloc in running_job.nodes if alloc.node_id in nodes)
        if running_job.end_us and cpus:
            left_us = max(0, running_job.end_us - now_us)
            foreseen_us = running_job.foreseen_us - now_us if running_job.foreseen_us else left_us
            yield Twin(running_job.job_id, cpus, left_us, now_us, max(0, min(foreseen_us, left_us)))
