"""Users and administrators who change everything while jobs run and controllers die."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pyslurm_ng.base.numbers import NO_VAL, REQ_CONTIGUOUS, REQ_EXCLUSIVE, SECOND_US
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.checks import Violation
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.wire.query_messages import (
    CancelJobs,
    DeleteReservation,
    HoldJobs,
    JobFilter,
    RequeueJobs,
    SuspendJobs,
    TopJobs,
    UpdateJob,
    UpdateNodes,
    UpdatePartition,
    UpdateReservation,
    UpdateStep,
)

CONF = """
Licenses=soft:3,hard:1
PartitionName=other Nodes=n[2-4] MaxTime=30 DefMemPerCPU=100 PriorityTier=2
PartitionName=rows Nodes=n[1-2] MaxTime=60 DefMemPerCPU=100 OverSubscribe=FORCE:2
"""
_ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)
_MINUTE_US = 60 * SECOND_US
_PASS_US = 5 * SECOND_US  # what a plan may be old when it is carried out
_OPEN_FLAGS = frozenset(("FLEX", "OVERLAP", "MAINT", "MAGNETIC", "REPLACE", "REPLACE_DOWN"))


class _Heard:
    """Takes any answer: what is refused is refused."""

    def reply(self, answer: Struct | bytes) -> None:
        """Take no notice."""

    def error(self, code: int, text: str) -> None:
        """Take no notice, but of what users must never see."""
        if "Traceback" in text or "internal" in text:
            raise Violation(f"{code} {text}")


class Meddling(Chaos):
    """A seed's life with richer requests, and somebody who changes things each second."""

    def __init__(self, seed: int, plan: object, jobs: int = 30, **more: object) -> None:
        super().__init__(seed, plan, jobs, **more)  # type: ignore[arg-type]
        self.changes = 0
        self._in_turn: list[int] = []
        self.world.after(SECOND_US, self._meddle)

    def request(self, number: int, mark: str) -> JobRequest:
        """Return what a user asks for: any condition may be part of it."""
        chance = self.world.random
        request = super().request(number, mark)
        now_us = self.world.now_us
        wants: dict[str, object] = {"time_limit_min": chance.choice((1, 5, 20, NO_VAL))}
        for name, values in (
            ("nodes_min", (0, 0, 1, 2, 3)),
            ("licenses", ("", "", "", "soft:1", "soft:2,hard:1", "hard:1|soft:1")),
            ("flags", (0, 0, 0, REQ_EXCLUSIVE, REQ_CONTIGUOUS)),
            ("time_min_min", (NO_VAL, NO_VAL, 1)),
            ("begin_us", (0, 0, 0, now_us + 40 * SECOND_US)),
            ("dependency", ("", "", "singleton", f"afterany:{max(1, number // 2)}")),
            ("mem_per_node_mib", (0, 0, 500, 3000)),
        ):
            wants[name] = chance.choice(values)  # type: ignore[arg-type]
        if wants["nodes_min"]:
            wants["nodes_max"] = wants["nodes_min"]
            wants["ntasks"] = max(request.ntasks, int(str(wants["nodes_min"])))
        if wants["time_min_min"] != NO_VAL and wants["time_limit_min"] == NO_VAL:
            wants["time_limit_min"] = 5
        if "afterany" in str(wants["dependency"]):
            known = self.controller is not None and self.controller.cluster.jobs
            if not known or int(str(wants["dependency"]).split(":")[1]) not in known:
                wants["dependency"] = ""
        if request.gpus or request.array:
            for name in ("nodes_min", "nodes_max"):
                wants.pop(name, None)
        return msgspec.structs.replace(request, **wants)

    def refused(self, code: int, text: str) -> None:
        """A request may ask for what is not there, or in a partition that is shut."""
        if code not in (2014, 2070, 2006, 2010, 2015, 2017):
            super().refused(code, text)

    # Meddling ---------------------------------------------------------------------------------

    def _meddle(self) -> None:
        if self._calm:
            self._settle()
            return
        controller = self.controller
        if controller is not None:
            for kind, message in self._choose(controller.cluster):
                controller.writer.change(RULES[kind], message, self._as_root(), _Heard())
                self.changes += 1
        self.world.after(SECOND_US, self._meddle)

    def _as_root(self) -> Context:
        return Context(self.conf, self.world.now_us, _ROOT)

    def _id(self) -> bytes:
        return self.world.random.randbytes(16)

    def _choose(self, cluster: Cluster) -> list[tuple[str, Struct]]:
        chance = self.world.random
        jobs = [*cluster.job_index.pending, *cluster.job_index.active]
        job = str(chance.choice(jobs)) if jobs else "1"
        node = f"n{chance.randint(1, 4)}"
        name = f"r{chance.randint(1, 3)}"
        key, value = chance.choice(self._job_settings(cluster))
        message = chance.choice(
            (
                ("UpdateJob", UpdateJob(self._id(), {key: value}, [job])),
                ("UpdateJob", UpdateJob(self._id(), {key: value}, [job])),
                ("UpdateJob", UpdateJob(self._id(), {key: value}, [job])),
                ("UpdateJob", UpdateJob(self._id(), {"numnodes": "1"}, [self._wide(cluster, job)])),
                ("UpdateStep", UpdateStep(self._id(), job, chance.choice(("1", "+5")))),
                ("HoldJobs", HoldJobs(self._id(), [job], release=chance.random() < 0.6)),
                ("RequeueJobs", RequeueJobs(self._id(), [job])),
                ("SuspendJobs", SuspendJobs(self._id(), [job], resume=chance.random() < 0.5)),
                ("TopJobs", TopJobs(self._id(), [job])),
                ("CancelJobs", CancelJobs(self._id(), JobFilter(jobs=[job]))),
                ("UpdateNodes", UpdateNodes(self._id(), node, self._node_settings())),
                ("UpdatePartition", UpdatePartition(self._id(), "other", self._limits())),
                ("UpdateReservation", self._reservation(name, create=True)),
                ("UpdateReservation", self._reservation(name, create=True)),
                ("UpdateReservation", self._reservation(name, create=False)),
                ("DeleteReservation", DeleteReservation(self._id(), name)),
            )
        )
        return [message] if chance.random() < 0.5 else []

    def _wide(self, cluster: Cluster, other: str) -> str:
        """Return a job that could give up nodes, if there is one."""
        wide = [
            job_id for job_id in cluster.job_index.active if len(cluster.jobs[job_id].nodes) > 1
        ]
        return str(self.world.random.choice(wide)) if wide else other

    def _job_settings(self, cluster: Cluster) -> list[tuple[str, str]]:
        chance, now_us = self.world.random, self.world.now_us
        other = str(chance.choice([*cluster.jobs])) if cluster.jobs else "1"
        return [
            ("timelimit", chance.choice(("1", "3", "20", "+5", "-1", "UNLIMITED"))),
            ("numnodes", chance.choice(("1", "2", "1-3", "4"))),
            ("nodelist", chance.choice(("n1", "n[1-2]", "n[2-4]"))),
            ("numtasks", chance.choice(("1", "2", "5"))),
            ("partition", chance.choice(("main", "other", "main,other", "rows"))),
            ("nice", str(chance.randint(-50, 50))),
            ("priority", chance.choice(("0", "5", "5000"))),
            ("starttime", str(now_us + chance.choice((0, 5, 60)) * SECOND_US)),
            ("deadline", str(now_us + chance.choice((5, 60, 900)) * SECOND_US)),
            ("dependency", chance.choice(("", "singleton", f"afterany:{other}"))),
            ("licenses", chance.choice(("", "soft:1", "soft:3", "hard:1"))),
            ("reqnodelist", chance.choice(("", "n1", "n4", "n[1-2]"))),
            ("excnodelist", chance.choice(("", "n1", "n[2-3]"))),
            ("reservation", chance.choice(("", "r1", "r2", "r3"))),
            ("minmemorynode", chance.choice(("10", "3500"))),
            ("arraytaskthrottle", chance.choice(("0", "1", "3"))),
            ("oversubscribe", chance.choice(("yes", "no"))),
            ("timemin", chance.choice(("0", "1"))),
            ("requeue", chance.choice(("0", "1"))),
        ]

    def _node_settings(self) -> dict[str, str]:
        chance = self.world.random
        state = chance.choice(("drain", "resume", "resume", "down", "undrain"))
        return {"state": state, "reason": "meddling", "weight": str(chance.randint(1, 9))}

    def _limits(self) -> dict[str, str]:
        chance = self.world.random
        return {
            "state": chance.choice(("UP", "UP", "DOWN", "DRAIN")),
            "maxtime": chance.choice(("5", "30", "UNLIMITED")),
            "maxnodes": chance.choice(("1", "2", "UNLIMITED")),
        }

    def _reservation(self, name: str, *, create: bool) -> UpdateReservation:
        chance, now_us = self.world.random, self.world.now_us
        settings = {
            "starttime": str(now_us + chance.choice((0, 0, 10, 60)) * SECOND_US),
            "duration": chance.choice(("1", "2", "10")),
        }
        if create:
            settings["users"] = chance.choice(("alice", "root"))
            settings |= chance.choice(
                (
                    {"nodes": f"n{chance.randint(1, 4)}"},
                    {"nodecnt": chance.choice(("1", "2"))},
                    {"corecnt": chance.choice(("1", "3"))},
                    {"nodes": "n4", "tres": "gres/gpu=1"},
                    {"nodes": "ALL"},
                    {"licenses": "soft:2", "flags": "LICENSE_ONLY"},
                )
            )
            flags = chance.choice(
                (
                    "",
                    "",
                    "",
                    "FLEX",
                    "MAGNETIC",
                    "REPLACE_DOWN",
                    "REPLACE",
                    "IGNORE_JOBS",
                    "OVERLAP",
                )
            )
            if flags:
                settings["flags"] = ",".join(filter(None, (settings.get("flags", ""), flags)))
        return UpdateReservation(self._id(), name, settings, create=create)

    def _settle(self) -> None:
        """Undo what would keep jobs from ever ending."""
        controller = self.controller
        if controller is None:
            self.world.after(SECOND_US, self._settle)
            return
        cluster = controller.cluster
        self._reopen(controller)
        for job_id in [*cluster.job_index.pending]:
            self._ask(
                controller, "CancelJobs", CancelJobs(self._id(), JobFilter(jobs=[str(job_id)]))
            )
        if cluster.job_index.pending or cluster.job_index.active:
            self.world.after(60 * SECOND_US, self._settle)

    def _ask(self, controller: SimController, kind: str, message: Struct) -> None:
        controller.writer.change(RULES[kind], message, self._as_root(), _Heard())

    def _reopen(self, controller: SimController) -> None:
        """Put nodes, partitions and suspended jobs into service again, end all reservations."""
        cluster = controller.cluster

        def ask(kind: str, message: Struct) -> None:
            self._ask(controller, kind, message)

        for name in [*cluster.reservations]:
            ask("DeleteReservation", DeleteReservation(self._id(), name))
        opened = {"state": "UP", "maxtime": "UNLIMITED", "maxnodes": "UNLIMITED"}
        ask("UpdatePartition", UpdatePartition(self._id(), "other", opened))
        for node in cluster.living_nodes():
            ask("UpdateNodes", UpdateNodes(self._id(), node.spec.name, {"state": "resume"}))
        for job_id in [*cluster.job_index.active]:
            ask("SuspendJobs", SuspendJobs(self._id(), [str(job_id)], resume=True))

    # What must hold ---------------------------------------------------------------------------

    def _start_controller(self, payloads: list[bytes]) -> None:
        super()._start_controller(payloads)
        assert self.controller is not None
        cluster = self.controller.cluster
        self.controller.writer.observe(lambda events: check_starts(cluster, events))


def check_starts(cluster: Cluster, events: Sequence[ev.AnyEvent]) -> None:
    """Raise Violation if a job starts that may not, there or now."""
    for event in events:
        if isinstance(event, ev.JobAllocated):
            job = cluster.jobs[event.job_id]
            for reservation in cluster.reservations.values():
                _check_reserved(cluster, job, reservation, event.time_us)
            _check_conditions(cluster, job, event)
            _check_licenses(cluster, job)


def _check_licenses(cluster: Cluster, started: Job) -> None:
    licenses = dict(license_counts(started.licenses_alloc))
    used: dict[str, int] = {}
    for job_id in cluster.job_index.active:
        for name, count in license_counts(cluster.jobs[job_id].licenses_alloc):
            used[name] = used.get(name, 0) + count
    over = {name: used[name] for name in licenses if used[name] > cluster.licenses.get(name, 0)}
    if over:
        raise Violation(f"licences are given twice: {over} of {cluster.licenses}")


def _check_conditions(cluster: Cluster, job: Job, event: ev.JobAllocated) -> None:
    now_us, request = event.time_us, job.request
    end_us = now_us + job.time_limit_min * _MINUTE_US if job.time_limit_min < NO_VAL else 0
    what = f"job {job.job_id} starts"
    if job.begin_us > now_us:
        raise Violation(f"{what} before its begin time")
    if job.priority == 0:
        raise Violation(f"{what} while it is held")
    if request.deadline_us and (not end_us or end_us > request.deadline_us + _PASS_US):
        raise Violation(f"{what} too late for its deadline: {end_us} > {request.deadline_us}")
    if any(term.state != 1 for term in job.dependencies) and not job.dependency_any:
        raise Violation(f"{what} before its dependencies are met: {job.dependencies}")
    partition = cluster.partitions[event.partition]
    outside = [alloc.node_id for alloc in event.nodes if alloc.node_id not in partition.node_ids]
    if outside:
        raise Violation(f"{what} on nodes {outside} outside of {partition.name}")
    if partition.state not in ("UP", "DRAIN"):
        raise Violation(f"{what} in {partition.name}, which is {partition.state}")
    for alloc in event.nodes:
        if not cluster.node_index.columns.usable[alloc.node_id]:
            raise Violation(f"{what} on node {alloc.node_id}, which is out of service")


def _check_reserved(cluster: Cluster, job: Job, reservation: Reservation, now_us: int) -> None:
    """Check a start against the reservations of whole nodes."""
    if reservation.core_masks or reservation.gres or _OPEN_FLAGS & set(reservation.flags):
        return
    if now_us >= reservation.end_us:
        return
    node_ids = {alloc.node_id for alloc in job.nodes}
    if reservation.name in job.request.reservation.split(","):
        if node_ids - set(reservation.node_ids) and "," not in job.request.reservation:
            raise Violation(f"job {job.job_id} leaves its reservation {reservation}")
        return
    end_us = now_us + job.time_limit_min * _MINUTE_US
    if node_ids & set(reservation.node_ids) and end_us > reservation.start_us:
        raise Violation(f"job {job.job_id} starts on nodes of {reservation!r:.300} at {now_us}")
