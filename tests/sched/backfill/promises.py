"""Sites that remember what was promised to waiting jobs, and queues of all kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyslurm_ng.base.numbers import (
    MINUTE_US,
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_USER,
    REQ_GRES_ENFORCE_BIND,
)
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import JobState, NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import conf_of, submit

# A whole minute of the clock: slots begin at such, so that nothing here has to be rounded.
BEGIN_US = 16_666_667 * MINUTE_US

HEAD = """
ClusterName=net
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu,shard
PriorityType=priority/basic
Licenses=matlab:3
SelectTypeParameters=CR_Core_Memory
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 DefMemPerCPU=10
"""

PLAIN = HEAD + "NodeName=n[1-5] CPUs=4 RealMemory=1000\n"

MIXED = HEAD + (
    "NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=2000 Weight=5\n"
    "NodeName=n[3-4] CPUs=4 RealMemory=1000 Feature=new\n"
    "NodeName=n5 CPUs=2 RealMemory=4000 Weight=3\n"
    "PartitionName=half Nodes=n[2-4] MaxTime=1-0 DefMemPerCPU=10\n"
)

GPUS = HEAD + (
    "NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=1000 Gres=gpu:2,shard:8\n"
    "NodeName=n[3-4] CPUs=4 RealMemory=1000\n"
)

THREADS = HEAD + (
    "NodeName=n[1-4] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=160\n"
)

SOCKETS = HEAD + "NodeName=n[1-4] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=1000\n"

NEAR_GPUS = HEAD + (
    "NodeName=n[1-3] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=1000 Gres=gpu:4\n"
)

LEAST_LOADED = PLAIN.replace("CR_Core_Memory", "CR_Core_Memory,CR_LLN")

BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"

TREE = "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n[4-5]\nSwitchName=top Switches=s[1-2]\n"

# Two GPUs beside each of two sockets of four cores.
GPUS_NEAR_SOCKETS = tuple(
    NodeGres("gpu", "", 1, cores=(bytes([0x0F if at < 2 else 0xF0]),), first_index=at)
    for at in range(4)
)


class Late(AssertionError):
    """A job is to start later than it was promised: which, by how many seconds, and why."""


class PromisingSite:
    """A cluster whose jobs run until their limits, and what was promised to those that wait."""

    def __init__(self, conf: str, topology: str = "") -> None:
        self.conf, self.cluster = conf_of(conf), Cluster()
        networks = [parse_topology_conf(topology)] if topology else []
        apply_all(self.cluster, configure(self.cluster, self.conf, BEGIN_US, networks))
        for node in self.cluster.living_nodes():
            gpus = [gres for gres in node.spec.gres if gres.name == "gpu" and gres.count == 4]
            facts = NodeFacts(gres=GPUS_NEAR_SOCKETS if gpus else ())
            apply(
                self.cluster,
                ev.NodeRegistered(BEGIN_US, node.node_id, facts, NodeState.IDLE),
            )
        self.now_us = BEGIN_US
        self.planner, self.rules = Planner(), policy(self.conf)
        self.promised_us: dict[int, int] = {}

    def submit(self, asked: Asked) -> int:
        """Let a job wait."""
        return submit(
            self.cluster,
            asked.request,
            now_us=self.now_us,
            time_limit_min=asked.minutes,
            ranges=asked.ranges,
            array_limit=asked.array_limit,
            uid=asked.uid,
        )

    def run_pass(self) -> Plan:
        """Plan, start jobs, and see that nobody has to wait longer than was promised before."""
        plan = self.planner(snapshot(self.cluster, self.now_us), self.rules)
        for start in plan.starts:
            if start.task_id >= 0:  # what is promised now is for the next task
                self.promised_us.pop(start.job_id, None)
            events = dispatch(self.cluster, start, self.now_us)
            assert events, start
            apply_all(self.cluster, events)
        assert check(self.cluster) == []
        self.compare(plan)
        self.promised_us = {
            job_id: at_us
            for job_id, at_us in plan.expected_start_us.items()
            if self.cluster.jobs[job_id].state == JobState.PENDING
        }
        return plan

    def compare(self, plan: Plan) -> None:
        """See that nobody who still waits has to wait longer than was promised."""
        for job_id, promised_us in self.promised_us.items():
            if self.cluster.jobs[job_id].state == JobState.PENDING:
                now_promised = plan.expected_start_us.get(job_id)
                assert now_promised is not None, (job_id, plan.waits)
                if now_promised > promised_us:
                    late_s = (now_promised - promised_us) / 1_000_000
                    raise Late(job_id, late_s, plan.waits[job_id])

    def end_next(self) -> bool:
        """Let time pass until the next job is over or to start; return whether there was one."""
        ends = {job_id: self._end_us(job_id) for job_id in self.cluster.job_index.active}
        if not ends and not self.promised_us:
            return False
        self.now_us = max(self.now_us, min((*ends.values(), *self.promised_us.values())))
        for job_id, end_us in ends.items():
            if end_us <= self.now_us:
                state = JobState.COMPLETED
                ended = ev.JobEnded(self.now_us, job_id, state)
                done = ev.JobCompleting(self.now_us, job_id, state, 0, 0, 0, ())
                apply_all(self.cluster, [done, ended])
        return True

    def _end_us(self, job_id: int) -> int:
        job = self.cluster.jobs[job_id]
        return job.start_us + job.time_limit_min * MINUTE_US


class SiteOfEarlyEnds(PromisingSite):
    """A cluster many of whose jobs end before their limits.

    A job that can start sooner does, even on nodes that were promised to one behind it. So of the
    jobs whose start has changed the first in the queue must be better off: nobody is put off for
    the sake of those behind, nor for nothing.
    """

    def __init__(self, conf: str, topology: str, random: Random) -> None:
        super().__init__(conf, topology)
        self._random = random
        self._minutes: dict[int, int] = {}

    def _end_us(self, job_id: int) -> int:
        job = self.cluster.jobs[job_id]
        if job_id not in self._minutes:
            least = self._random.choice((1, job.time_limit_min))
            self._minutes[job_id] = self._random.randint(least, job.time_limit_min)
        # A limit that was cut at the start counts.
        minutes = min(self._minutes[job_id], job.time_limit_min)
        return job.start_us + minutes * MINUTE_US

    def compare(self, plan: Plan) -> None:
        for job_id, promised_us in sorted(self.promised_us.items()):
            start_us = plan.expected_start_us.get(job_id, self.now_us)
            if start_us < promised_us:
                return
            if start_us > promised_us:
                raise Late(job_id, (start_us - promised_us) / 1_000_000, plan.waits[job_id])


@dataclass(frozen=True)
class Asked:
    """What is submitted."""

    minutes: int
    request: JobRequest
    ranges: tuple[tuple[int, int, int], ...] = ()
    uid: int = 1001
    array_limit: int = 0


def drawn(random: Random, wants: Mapping[str, Sequence[object]]) -> Asked:
    """Return a job of a few minutes that asks for one of the values of each option."""
    fields: dict[str, Any] = {name: random.choice(values) for name, values in wants.items()}
    fields |= fields.pop("", {})  # options that go together
    fields |= fields.pop("", {})  # options that go together
    uid, tasks, most = fields.pop("uid", 1001), fields.pop("array", 0), fields.pop("at_once", 0)
    ranges = ((1, tasks, 1),) if tasks else ()
    return Asked(random.randint(1, 7), JobRequest(**fields), ranges, uid, most)


def run(site: PromisingSite, first: list[Asked], later: list[Asked]) -> bool:
    """Return whether all jobs have run: some come at once, others one by one.

    Raises:
        Late: a job that waits has to wait longer than was promised.
    """
    for job in first:
        site.submit(job)
    site.run_pass()
    coming = list(later)
    while site.end_next():
        if coming:
            site.submit(coming.pop())
        site.run_pass()
    return not site.promised_us and not site.cluster.job_index.active


# What is asked for, and of which cluster.
OPEN = {"ntasks": (1, 2, 3, 5, 7, 9, 13), "cpus_per_task": (0, 0, 2, 3)}

LEAST = {"ntasks": (1, 2, 3, 5, 7, 9), "nodes_min": (0, 1, 2, 3), "cpus_per_task": (0, 0, 2)}

MIXTURE = {
    "ntasks": (1, 2, 3, 5, 7),
    "nodes_min": (0, 1, 2),
    "cpus_per_task": (0, 1, 2, 3),
    "partition": ("main", "half"),
    "constraint": ("", "", "new"),
}

WHOLE = {
    "ntasks": (0, 0, 1, 2),
    "nodes_min": (0, 1, 2, 3),
    "cpus_per_task": (0, 0, 2, 3),
    "flags": (0, 0, REQ_EXCLUSIVE),
}

LICENSED = {"nodes_min": (1, 2), "ntasks": (0, 4), "licenses": ("", "matlab:1", "matlab:2")}

NEAR = {"nodes_min": (1, 1, 2, 3), "cpus_per_task": (1, 2, 4)}

GPUS_EACH = {"nodes_min": (1, 1, 2), "cpus_per_task": (1, 2, 5), "gpus_per_node": ("", "1", "2")}

GPUS_IN_ALL = {"ntasks": (1,), "cpus_per_task": (1, 2, 5), "gpus": ("", "1", "2", "3")}

SHARDS = {
    "nodes_min": (1,),
    "cpus_per_task": (1, 2),
    "gres": ("", "shard:1", "shard:3", "shard:4", "gpu:1"),
}

SHARED_CORES = {
    "ntasks": (1, 2, 3, 5),
    "nodes_min": (0, 1, 2),
    "cpus_per_task": (0, 1, 2, 3),
    "mem_per_cpu_mib": (0, 10, 20),
    "threads_per_core": (0, 0, 0, 1),
}

CUT = {"nodes_min": (1, 2, 3), "cpus_per_task": (1, 2, 4), "time_min_min": (NO_VAL, 1, 2)}

PATIENT = {
    "nodes_min": (1, 2, 2, 3),
    "cpus_per_task": (1, 2, 4),
    "switches": (0, 1),
    "switches_wait_s": (0, 60, 120, 600),
}

OWN_NODES = {
    "nodes_min": (1, 1, 2, 3),
    "cpus_per_task": (1, 2, 4),
    "flags": (0, REQ_EXCLUSIVE_USER),
    "uid": (1001, 1002, 1003),
}

OWN_TASKS = {
    "ntasks": (1, 2, 3, 5, 7),
    "nodes_min": (0, 0, 1, 2),
    "cpus_per_task": (0, 1, 2),
    "mem_per_node_mib": (0, 0, 300),
    "flags": (0, REQ_EXCLUSIVE_USER),
    "uid": (1001, 1002),
}

OWN_LABELS = {
    "nodes_min": (1, 1, 2),
    "cpus_per_task": (1, 2, 3),
    "licenses": ("", "", "matlab:2"),
    "flags": (0, REQ_EXCLUSIVE_MCS),
    "mcs_label": ("", "red", "blue"),
}

SEGMENTS = {"nodes_min": (1, 1, 2, 4), "cpus_per_task": (1, 2, 4), "segment": (0, 0, 1)}

THROTTLED = {
    "nodes_min": (1, 1, 2),
    "cpus_per_task": (1, 2, 4),
    "array": (0, 0, 3, 5),
    "at_once": (0, 1, 2),
}

WHOLE_AND_SHARDS = {
    "nodes_min": (1, 1, 2),
    "cpus_per_task": (1, 2),
    "gres": ("", "shard:1", "shard:3", "gpu:1", "gpu:2"),
}

BY_SOCKET = {
    "ntasks": (1, 2, 3, 4),
    "nodes_min": (0, 1, 2),
    "cpus_per_task": (1, 2, 3),
    "ntasks_per_socket": (0, 0, 1, 2),
}

BESIDE_GPUS = {
    "nodes_min": (1, 1, 2),
    "cpus_per_task": (1, 2, 4),
    "gpus_per_node": ("", "1", "2", "3"),
    "": ({}, {}, {"gpus_per_node": "", "sockets_per_node": 2, "gpus_per_socket": "1"}),
    "flags": (0, 0, REQ_GRES_ENFORCE_BIND),
}

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tasks over any nodes": (PLAIN, "", OPEN),
    "tasks over some nodes": (PLAIN, "", LEAST),
    "weights, threads, partitions": (MIXED, "", MIXTURE),
    "whole nodes": (PLAIN, "", WHOLE),
    "licences": (PLAIN, "", LICENSED),
    "switches": (PLAIN, TREE, NEAR),
    "GPUs of each node": (GPUS, "", GPUS_EACH),
    "GPUs in all": (GPUS, "", GPUS_IN_ALL),
    "GPUs in parts": (GPUS, "", SHARDS),
    "GPUs in parts and whole": (GPUS, "", WHOLE_AND_SHARDS),
    "sockets": (SOCKETS, "", BY_SOCKET),
    "cores near GPUs": (NEAR_GPUS, "", BESIDE_GPUS),
    "memory per CPU on threads": (THREADS, "", SHARED_CORES),
    "limits that may be cut": (PLAIN, "", CUT),
    "few switches": (PLAIN, TREE, PATIENT),
    "least loaded nodes": (LEAST_LOADED, "", NEAR),
    "arrays of some tasks at once": (PLAIN, "", THROTTLED),
    "blocks": (SOCKETS, BLOCKS, SEGMENTS),
    "nodes of a user's own": (PLAIN, "", OWN_NODES),
    "tasks on nodes of a user's own": (PLAIN, "", OWN_TASKS),
    "nodes of a label's own": (PLAIN, "", OWN_LABELS),
}


def queue_of(random: Random, wants: Mapping[str, Sequence[object]]) -> tuple[list[Asked], ...]:
    """Return the jobs that are there at first, and those that come one by one."""
    first = [drawn(random, wants) for _ in range(random.randint(4, 12))]
    later = [drawn(random, wants) for _ in range(random.randint(0, 12))]
    return first, later
