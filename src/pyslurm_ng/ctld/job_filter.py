"""Which jobs a command means: ids as typed and filters, answered from the Cluster. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.job_ids import JobIdError, JobName, parse_job_id
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.base.sluid import LOW_BITS
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.assoc import DEFAULT_WCKEY
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState

if TYPE_CHECKING:
    from pyslurm_ng.model.cluster import Cluster
    from pyslurm_ng.model.job import Job
    from pyslurm_ng.wire.query_messages import JobFilter


_MOST_WORK = 1 << 14
"""Records found, ranges compared: some 25 ms of the controller's time in all."""
_TASKS_AT_ONCE = 2048
"""Tasks in a row are compared as bits of large numbers."""
_IDS_AT_ONCE = 32
"""Ids that are not in use are passed over much faster than records are found."""
TOO_MANY = Reject(
    Errno.ESLURM_NOT_SUPPORTED, "the ids of one request name too many tasks; name fewer at a time"
)
SCATTERED = Reject(
    Errno.ESLURM_NOT_SUPPORTED,
    "the tasks that are left of an array would be scattered over more than "
    f"{task_ranges.MOST_RANGES} ranges",
)

JobTest = Callable[["Job"], bool]
Part = tuple["Job", task_ranges.TaskRanges]
"""A job, and which of its waiting tasks are meant: () for all of the record."""


class JobFinder:
    """Looks up ids as typed; keeps what it found out for the length of one request.

    What a request names costs as much as it finds, plus a look at each waiting record of each
    array named. All of it together is bounded: one record may be named by any number of ids.

    Attributes:
        is_over: ids named too much; nothing more is found.
        refusal: what the user is told then.
    """

    def __init__(self, cluster: Cluster, *, splits: bool = False) -> None:
        """Begin; with `splits` what is found of an array's record will be split off it."""
        self.cluster = cluster
        self.is_over = False
        self.refusal = TOO_MANY
        self._splits = splits
        self._taken: dict[int, int] = {}  # of records, as numbers, by job id
        self._left = _MOST_WORK + 2 * len(cluster.jobs)
        self._groups: dict[int, list[Job]] | None = None
        self._records: dict[int, list[Job]] = {}  # of arrays
        self._components: dict[int, dict[int, list[Job]]] = {}  # by user and heterogeneous job
        self._started: dict[int, tuple[list[int], list[int]]] = {}
        self._waiting: dict[int, tuple[int, int]] = {}

    def find(self, name: JobName) -> list[Part]:
        """Return what one id names, in order of job id; nothing when it is unknown."""
        if self.is_over:
            return []
        self._spend(len(name.tasks))
        parts = self._find_tasks(name) if name.tasks else self._find_job(name)
        self._spend(len(parts))
        return parts if not self.is_over else []

    def named(self, text: str) -> list[Part]:
        """Return what an id as typed names, nothing when it is none."""
        try:
            return [] if self.is_over else self.find(parse_job_id(text))
        except JobIdError:
            return []

    def absent(self, text: str, parts: list[Part]) -> str:
        """Return those tasks of an id as typed that are not among what it names; "" for none."""
        try:
            name = parse_job_id(text)
        except JobIdError:
            return ""
        if not parts or not any(first != last for first, last, _ in name.tasks):
            return ""
        marks = _marks_of(parts)
        end = len(marks)
        self._spend(len(name.tasks) * (1 + end // _TASKS_AT_ONCE))
        asked = task_ranges.named(name.tasks, end)
        rest = int.from_bytes(asked, "little") & ~int.from_bytes(marks, "little")
        ranges = list(task_ranges.from_marks(rest.to_bytes(end, "little")))
        for first, last, step in name.tasks:  # those beyond the last task that there is
            begin = first if first >= end else first + -(-(end - first) // step) * step
            if begin <= last:
                ranges.append((begin, last, step if last > begin else 1))
        return f"{name.job_id}_{task_ranges.text(tuple(ranges))}" if ranges else ""

    def several(self, texts: Iterable[str]) -> tuple[list[Part], list[str]] | Reject:
        """Return what the ids name, each record once, and the ids that name nothing.

        All ids of one array's tasks are looked up as one: thousands take one look at its records.
        """
        parts: dict[tuple[int, task_ranges.TaskRanges], Part] = {}
        unknown: list[str] = []
        alike: dict[int | str, list[JobName]] = {}
        for text in dict.fromkeys(texts):
            try:
                name = parse_job_id(text)
            except JobIdError:
                unknown.append(text)
            else:
                alike.setdefault(name.job_id if name.tasks else text, []).append(name)
        for names in alike.values():
            matching = self.find(names[0] if len(names) == 1 else _joined(names))
            unknown += self._named_nothing(names, matching)
            if self.is_over:
                return self.refusal
            for job, tasks in matching:
                parts[job.job_id, tasks] = (job, tasks)
        return list(parts.values()), unknown

    def _named_nothing(self, names: list[JobName], parts: list[Part]) -> list[str]:
        """Return those ids of one array's tasks that name none of what all of them name."""
        if len(names) == 1 or not parts:
            return [] if parts else [name.text for name in names]
        marks = _marks_of(parts)
        end = len(marks)
        unknown = []
        for name in names:
            is_known = False
            for first, last, step in name.tasks:
                self._spend(1 + max(0, min(last, end) - first) // _TASKS_AT_ONCE)
                is_known = is_known or 1 in marks[first : last + 1 : step]
            if self.is_over:
                break
            if not is_known:
                unknown.append(name.text)
        return unknown

    def _spend(self, work: int) -> None:
        self._left -= work
        self.is_over = self._left < 0

    def _find_sluid(self, sluid: int) -> list[Part]:
        """Return the one record of a SLUID, whose last bits are those of the job's id."""
        cluster, low = self.cluster, sluid & LOW_BITS
        # Ids beyond the next one are in use only after ids began anew.
        split = cluster.next_job_id + (low - cluster.next_job_id) % (LOW_BITS + 1)
        for ids in (
            range(low, split, LOW_BITS + 1),
            range(split, cluster.max_job_id + 1, LOW_BITS + 1),
        ):
            self._spend(len(ids) // _IDS_AT_ONCE)
            for job_id in ids:
                job = cluster.jobs.get(job_id)
                if job is not None and job.sluid == sluid:
                    return [(job, ())]
        return []

    def _find_job(self, name: JobName) -> list[Part]:
        if name.sluid:
            return self._find_sluid(name.sluid)
        job = self.cluster.jobs.get(name.job_id)
        if name.het_offset >= 0:
            return [
                (other, ())
                for other in self._het_parts(name.job_id)
                if other.het_offset == name.het_offset
            ]
        if job is not None and job.het_job_id == job.job_id:
            return [(other, ()) for other in self._het_parts(name.job_id)]
        if job is not None and job.array_job_id != job.job_id:
            return [(job, ())]
        if (
            name.job_id not in self.cluster.job_index.arrays
            and name.job_id not in self._array_groups()
        ):
            return [(job, ())] if job is not None else []
        return [(part, ()) for part in self._array_parts(name.job_id)]

    def _array_parts(self, array_job_id: int) -> list[Job]:
        """Return the records of one array (or the plain job of that id), by job id."""
        known = self._records.get(array_job_id)
        if known is not None:
            return known
        jobs = self.cluster.jobs
        tasks = {
            job_id: jobs[job_id]
            for job_id in self.cluster.job_index.arrays.get(array_job_id, {}).values()
        }
        for job in self._array_groups().get(array_job_id, ()):
            tasks[job.job_id] = job
        own = jobs.get(array_job_id)
        if own is not None:
            tasks[array_job_id] = own
        parts = self._records[array_job_id] = [tasks[job_id] for job_id in sorted(tasks)]
        return parts

    def _array_groups(self) -> dict[int, list[Job]]:
        if self._groups is None:
            self._groups = {}
            for job_id in self.cluster.job_counts.array_waiting:
                job = self.cluster.jobs[job_id]
                self._groups.setdefault(job.array_job_id, []).append(job)
        return self._groups

    def _het_parts(self, het_job_id: int) -> list[Job]:
        leader = self.cluster.jobs.get(het_job_id)
        if leader is None:
            return []
        of_user = self._components.get(leader.uid)
        if of_user is None:
            of_user = self._components[leader.uid] = {}
            for job_id in self.cluster.job_index.by_user.get(leader.uid, {}):
                job = self.cluster.jobs[job_id]
                if job.het_job_id:
                    of_user.setdefault(job.het_job_id, []).append(job)
        return sorted(of_user.get(het_job_id, ()), key=lambda job: job.het_offset)

    def _find_tasks(self, name: JobName) -> list[Part]:
        jobs = self.cluster.jobs
        if len(name.tasks) == 1 and name.tasks[0][0] == name.tasks[0][1]:
            job_id = self.cluster.job_index.arrays.get(name.job_id, {}).get(name.tasks[0][0])
            if job_id is not None:
                return [(jobs[job_id], ())]
            parts: list[Part] = []
        else:
            parts = [(jobs[job_id], ()) for job_id in self._started_tasks(name)]
        for job in self._array_groups().get(name.job_id, ()):
            meant = self._waiting_tasks(job, name)
            if meant is not None:
                parts.append((job, meant))
        return parts

    def _started_tasks(self, name: JobName) -> list[int]:
        """Return the job ids of an array's tasks with separate records, by index."""
        known = self._started.get(name.job_id)
        if known is None:
            started = sorted(self.cluster.job_index.arrays.get(name.job_id, {}).items())
            known = ([task_id for task_id, _ in started], [job_id for _, job_id in started])
            self._started[name.job_id] = known
        indexes, job_ids = known
        tasks: dict[int, int] = {}
        for first, last, step in name.tasks:
            begin, end = bisect_left(indexes, first), bisect_right(indexes, last)
            self._spend(end - begin)
            if self.is_over:
                return []
            for at in range(begin, end):
                if step == 1 or (indexes[at] - first) % step == 0:
                    tasks[indexes[at]] = job_ids[at]
        return [tasks[index] for index in sorted(tasks)]

    def _waiting_tasks(self, job: Job, name: JobName) -> task_ranges.TaskRanges | None:
        """Return which of the tasks that wait in a record are meant; () for all, None for none."""
        known = self._waiting.get(job.job_id)
        if known is None:
            known = self._waiting[job.job_id] = task_ranges.as_number(job.array_pending)
        own, end = known
        sparse = sum(step > 1 for _, _, step in name.tasks)  # marked one by one
        self._spend((1 + sparse) * (1 + end // _TASKS_AT_ONCE))
        if self.is_over:
            return None
        inside = own & int.from_bytes(task_ranges.named(name.tasks, end), "little")
        if not inside:
            return None
        if inside == own:
            return ()
        meant = task_ranges.few_from_marks(inside.to_bytes(end, "little"))
        if meant is None or not self._may_split(job.job_id, own, inside, end):
            self.refusal = SCATTERED if meant else TOO_MANY
            self._spend(self._left + 1)
            return None
        self._spend(2 * len(meant))
        return meant

    def _may_split(self, job_id: int, own: int, inside: int, end: int) -> bool:
        """Return whether what splits leave of a record has not too many ranges."""
        if not self._splits:
            return True
        taken = self._taken[job_id] = self._taken.get(job_id, 0) | inside
        rest = task_ranges.few_from_marks((own & ~taken).to_bytes(end, "little"))
        self._spend(len(rest or ()) // _IDS_AT_ONCE)
        return rest is not None


def _joined(names: list[JobName]) -> JobName:
    """Return one id for those of one array's tasks."""
    spans = dict.fromkeys(span for name in names for span in name.tasks)
    return JobName("", names[0].job_id, tuple(spans))


def _marks_of(parts: list[Part]) -> bytearray:
    """Return for each task id of an array whether it is among its tasks found."""
    spans: list[task_ranges.TaskRange] = []
    for job, tasks in parts:
        spans += tasks or job.array_pending or ((job.array_task_id, job.array_task_id, 1),)
    return task_ranges.named(spans, max(last for _, last, _ in spans) + 1)


def find_jobs(cluster: Cluster, text: str) -> list[Part]:
    """Return what one id names."""
    return JobFinder(cluster).named(text)


def agrees(
    cluster: Cluster,
    job_filter: JobFilter,
    now_us: int,
    *,
    passes_over_nodes: bool = False,
    exact_names: bool = False,
) -> JobTest | Reject:
    """Return the test that a job passes when every filter but the ids agrees with it.

    Args:
        exact_names: as scancel wants it; squeue does not look at the case of a job's name.
        passes_over_nodes: a node that does not exist has no jobs, instead of an error.
    """
    tests: list[JobTest] = []
    if job_filter.uids:
        uids = frozenset(job_filter.uids)
        tests.append(lambda job: job.uid in uids)
    if job_filter.not_uids:
        not_uids = frozenset(job_filter.not_uids)
        tests.append(lambda job: job.uid not in not_uids)
    if job_filter.accounts:
        accounts = frozenset(account.lower() for account in job_filter.accounts)
        tests.append(lambda job: job.account in accounts)
    if job_filter.qos:
        qos = frozenset(name.lower() for name in job_filter.qos)
        tests.append(lambda job: job.qos.lower() in qos)
    if job_filter.names:
        shown = str if exact_names else str.lower
        names = frozenset(map(shown, job_filter.names))
        tests.append(lambda job: shown(job.request.name) in names)
    if job_filter.partitions:
        partitions = frozenset(job_filter.partitions)
        tests.append(lambda job: not partitions.isdisjoint(job.partition.split(",")))
    if job_filter.reservations:
        reservations = frozenset(job_filter.reservations)
        tests.append(
            lambda job: (
                not reservations.isdisjoint((job.reservation or job.request.reservation).split(","))
            )
        )
    if job_filter.wckeys:
        wckeys = frozenset(job_filter.wckeys)
        # The mark of a default, `*lab`, need not be named.
        tests.append(lambda job: not wckeys.isdisjoint(_wckeys_of(job)))
    if job_filter.licenses:
        licenses = frozenset(job_filter.licenses)
        tests.append(lambda job: _has_license(job, licenses))
    if not job_filter.all_states and (job_filter.states or job_filter.state_flags):
        tests.append(_state_test(frozenset(job_filter.states), job_filter.state_flags))
    if job_filter.running_over_s >= 0 or job_filter.running_under_s >= 0:
        tests.append(_elapsed_test(job_filter, now_us))
    if job_filter.nodes:
        node_test = _node_test(cluster, job_filter.nodes, passes_over_nodes)
        if isinstance(node_test, Reject):
            return node_test
        tests.append(node_test)
    if not tests:
        return everyone
    if len(tests) == 1:
        return tests[0]
    return lambda job: all(test(job) for test in tests)


def everyone(job: Job) -> bool:
    """Agree with every job: the test of no filter."""
    return True


def _has_license(job: Job, names: frozenset[str]) -> bool:
    text = job.licenses_alloc or job.request.licenses
    return any(part.replace("=", ":").partition(":")[0] in names for part in text.split(","))


def _wckeys_of(job: Job) -> tuple[str, str]:
    wckey = job.request.wckey
    return wckey, wckey.removeprefix(DEFAULT_WCKEY)


def _state_test(states: frozenset[int], flags: int) -> JobTest:
    def test(job: Job) -> bool:
        if job.flags & flags:
            return True
        # A job that cleans up is COMPLETING and not yet what it ends as.
        return job.state in states and not job.flags & JobFlag.COMPLETING

    return test


def _elapsed_test(job_filter: JobFilter, now_us: int) -> JobTest:
    over, under = job_filter.running_over_s, job_filter.running_under_s

    def test(job: Job) -> bool:
        if job.state not in (JobState.RUNNING, JobState.SUSPENDED):
            return False
        elapsed_s = elapsed_us(job, now_us) // SECOND_US
        return (over < 0 or elapsed_s > over) and (under < 0 or elapsed_s < under)

    return test


def _node_test(cluster: Cluster, text: str, passes_over: bool) -> JobTest | Reject:
    ids = node_ids(cluster, text, passes_over=passes_over)
    if isinstance(ids, Reject):
        return ids
    return lambda job: any(alloc.node_id in ids for alloc in job.nodes)


def node_ids(cluster: Cluster, text: str, *, passes_over: bool = False) -> set[int] | Reject:
    """Return the ids of a list of nodes; those that do not exist are passed over or refused."""
    try:
        names = hostlist.expand_of_user(text, len(cluster.node_index.by_name))
    except hostlist.HostlistError:
        if not passes_over:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, text)
        names = []
    ids: set[int] = set()
    for name in names:
        node_id = cluster.node_index.by_name.get(name)
        if node_id is None:
            if passes_over:
                continue
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, name)
        ids.add(node_id)
    return ids


def elapsed_us(job: Job, now_us: int) -> int:
    """Return how long a job has run, without the time it was suspended."""
    if not job.start_us or job.state == JobState.PENDING:
        return 0
    if job.state == JobState.SUSPENDED:
        return max(0, job.suspend_us - job.start_us - job.suspended_us)
    end_us = job.end_us if job.state in TERMINAL_STATES else now_us
    return max(0, end_us - job.start_us - job.suspended_us)


def job_id_text(job: Job, tasks: task_ranges.TaskRanges = ()) -> str:
    """Return a job's id as users know it: `27`, `27_3`, `27_[0-9%2]`, `30+1`."""
    if job.het_job_id:
        return f"{job.het_job_id}+{job.het_offset}"
    if tasks or job.array_pending:
        text = task_ranges.text(tasks or job.array_pending)
        limit = f"%{job.array_limit}" if job.array_limit and not tasks else ""
        return f"{job.array_job_id}_[{text}{limit}]"
    if job.array_job_id and job.array_task_id != NO_VAL:
        return f"{job.array_job_id}_{job.array_task_id}"
    return str(job.job_id)
