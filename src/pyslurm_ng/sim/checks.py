"""What must hold in every simulation: the ledger of promises and starts, and the invariants."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import is_completing


class Violation(AssertionError):
    """Something happened that must never happen; the text says what."""


@dataclass(slots=True)
class Ledger:
    """What clients were promised and what nodes really started.

    `promised` maps a client's own mark to the job id it was told; `started` counts the starts of
    each (job id, attempt). `running` has for each job the (attempt, node) that run and since when;
    `overlap_us` is how long, in all, a job ran in two places at once.
    """

    promised: dict[str, int] = field(default_factory=dict)
    started: dict[tuple[int, int], int] = field(default_factory=dict)
    running: dict[int, dict[tuple[int, str], int]] = field(default_factory=dict)
    overlap_us: int = 0

    def promise(self, mark: str, job_id: int) -> None:
        """A client was told that its job has this id."""
        before = self.promised.setdefault(mark, job_id)
        if before != job_id:
            raise Violation(f"{mark} was promised job {before} and then job {job_id}")
        same = [other for other, known in self.promised.items() if known == job_id]
        if len(same) > 1:
            raise Violation(f"job id {job_id} was given to {same}")

    def start(self, job_id: int, attempt: int) -> None:
        """A node has started the script of an attempt."""
        key = (job_id, attempt)
        self.started[key] = self.started.get(key, 0) + 1
        if self.started[key] > 1:
            raise Violation(f"job {job_id} attempt {attempt} was started twice")

    def begins(self, job_id: int, attempt: int, node: str, now_us: int) -> None:
        """The script of an attempt runs on a node from now on."""
        self.running.setdefault(job_id, {})[attempt, node] = now_us

    def ends(self, job_id: int, attempt: int, node: str, now_us: int) -> None:
        """The script of an attempt no longer runs on a node."""
        runs = self.running.get(job_id, {})
        begun_us = runs.pop((attempt, node), None)
        if begun_us is None:
            return
        # With each that goes on, it was there at once since the later of the two began.
        self.overlap_us += sum(now_us - max(begun_us, other_us) for other_us in runs.values())


def check_cluster(cluster: Cluster) -> None:
    """Raise Violation if any invariant of the model is broken."""
    broken = check(cluster)
    if broken:
        raise Violation("; ".join(broken))


def check_components(cluster: Cluster) -> None:
    """Raise Violation if a component is without its leader, or runs that started apart from it."""
    starts: dict[int, set[int]] = {}
    for job in cluster.jobs.values():
        if not job.het_job_id:
            continue
        leader = cluster.jobs.get(job.het_job_id)
        if leader is None or job.job_id != leader.job_id + job.het_offset:
            raise Violation(f"job {job.job_id} is component {job.het_offset} of no job")
        if job.job_id in cluster.job_index.active and not is_completing(job):
            starts.setdefault(job.het_job_id, set()).add(job.start_us)
    apart = [job_id for job_id, moments in starts.items() if len(moments) > 1]
    if apart:
        raise Violation(f"components of jobs {apart} started at different times")


def replay(start_image: bytes, payloads: list[bytes]) -> Cluster:
    """Return the cluster that a journal leads to."""
    cluster = Cluster.from_bytes(start_image)
    for payload in payloads:
        for event in decode_batch(payload):
            apply(cluster, event)
    return cluster


def check_replay(cluster: Cluster, start_image: bytes, payloads: list[bytes]) -> None:
    """Raise Violation if the journal does not lead to the very state that is live."""
    if replay(start_image, payloads).digest() != cluster.digest():
        raise Violation("replaying the journal leads to another state")


def check_promises(cluster: Cluster, ledger: Ledger) -> None:
    """Raise Violation if an acknowledged job is not known, or known as another client's."""
    for mark, job_id in ledger.promised.items():
        job = cluster.jobs.get(job_id)
        if job is None:
            raise Violation(f"job {job_id} ({mark}) was acknowledged and is lost")
        if job.request.comment != mark:
            raise Violation(f"job {job_id} is {job.request.comment}'s and was promised to {mark}")
