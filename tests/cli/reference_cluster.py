"""The cluster of the reference outputs: its configuration, jobs and the moment they were shown.

Built from events, so that the records are what the controller would hold; the client is the real
encoding and decoding without the sockets between.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.base.numbers import NO_VAL, REQ_EXCLUSIVE, REQ_HOLD, REQ_NODES_SET, REQ_NTASKS_SET
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.ctld.queries.associations import show_associations
from pyslurm_ng.ctld.queries.diagnostics import show_diagnostics
from pyslurm_ng.ctld.routes import QUERIES, RULES
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.permission import has_level
from pyslurm_ng.ctld.slices import at_once
from pyslurm_ng.ctld.soft import NodeMeasures, Soft
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Dependency, GresAlloc, JobRequest, NodeAlloc, Step
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState, Reason
from pyslurm_ng.sched.fair_share.factors import ShareStanding, share_rules
from pyslurm_ng.sched.fair_share.share_tree import ShareTree
from pyslurm_ng.sched.frame.plan import PlannedNodes, Wait
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.messages import Done, decode_request, encode, row
from pyslurm_ng.wire.query_messages import ShowAssociations, ShowDiagnostics
from tests.world.people import UIDS

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "cli"
ADMIN = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)


def at(clock: str) -> int:
    """Return a moment of the recorded day in microseconds."""
    moment = time.strptime(f"2026-11-20T{clock}", "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(moment) * 1_000_000


NOW_US = at("12:10:53")
_BEGIN_2030_US = calendar.timegm((2030, 1, 1, 0, 0, 0)) * 1_000_000


def caller(name: str) -> Caller:
    """Return a user of the reference cluster."""
    if name == "root":
        return ADMIN
    return Caller(uid=UIDS[name], gid=UIDS[name], user_name=name, group_name=name)


def reference_conf() -> SlurmConf:
    """Return the recorded slurm.conf."""
    return parse_slurm_conf((GOLDEN / "conf" / "slurm.conf").read_text(), "/etc/slurm/slurm.conf")


class ReferenceCluster:
    """The cluster, its soft state and configuration."""

    def __init__(self) -> None:
        self.conf = reference_conf()
        self.cluster = Cluster()
        self.soft = Soft(started_us=at("12:08:00"))
        self.now_us = NOW_US
        self.spent: dict[OwnerKey, Spent] = {}
        self.apply(configure(self.cluster, self.conf, at("12:08:00")))
        for node in self.cluster.living_nodes():
            self.apply([self._registered(node.node_id, node.spec.name)])

    def apply(self, events: list[ev.AnyEvent]) -> None:
        """Apply events and tell the record cache, as the writer does."""
        apply_all(self.cluster, events)
        self.soft.records.note(self.cluster, events)

    def _registered(self, node_id: int, name: str) -> ev.NodeRegistered:
        facts = NodeFacts(
            arch="x86_64",
            os="Linux 6.18.44-fc-v595 #1 SMP PREEMPT_DYNAMIC @0 ",
            version="26.11.0-0rc1",
            boot_us=at("11:16:29"),
            daemon_start_us=at("12:08:00"),
            hostname=name,
            addr="127.0.0.1",
        )
        load = {"n1": 4352, "n2": 4352, "n3": 3621, "n4": 3495}[name]
        free = {"n1": 19819, "n2": 19819, "n3": 19731, "n4": 19905}[name]
        self.soft.node_load[node_id] = NodeMeasures(
            last_seen_us=NOW_US, cpu_load_hundredths=load, free_mem_mib=free
        )
        return ev.NodeRegistered(
            time_us=at("12:08:00"), node_id=node_id, facts=facts, state=NodeState.IDLE
        )

    def submit(
        self,
        job_id: int,
        user: str,
        clock: str,
        name: str,
        *,
        account: str = "physics",
        qos: str = "normal",
        partition: str = "main",
        minutes: int = 60,
        dependencies: tuple[Dependency, ...] = (),
        array: tuple[tuple[int, int, int], ...] = (),
        array_limit: int = 0,
        het: tuple[int, int] = (0, 0),
        begin_us: int = 0,
        reason: Reason = Reason.NONE,
        priority: int = NO_VAL,
        **request: Any,
    ) -> None:
        """Let a user submit a job."""
        uid = UIDS[user]
        waits = bool(dependencies or begin_us > NOW_US or reason == Reason.JobHeldUser)
        self.apply(
            [
                ev.JobSubmitted(
                    time_us=at(clock),
                    job_id=job_id,
                    request=JobRequest(
                        name=name,
                        work_dir=f"/home/{user}",
                        alloc_node="localhost",
                        alloc_sid=6885,
                        begin_us=begin_us,
                        **request,
                    ),
                    uid=uid,
                    gid=uid,
                    user_name=user,
                    group_name=user,
                    account=account,
                    qos=qos,
                    assoc_id=5,
                    partition=partition,
                    time_limit_min=minutes,
                    script_hash="51" * 16,
                    reason=reason,
                    priority=priority,
                    begin_us=begin_us,
                    eligible_us=0 if waits else at(clock),
                    array_pending=array,
                    array_limit=array_limit,
                    dependencies=dependencies,
                    requeue=True,
                    het_job_id=het[0],
                    het_offset=het[1],
                )
            ]
        )

    def start(self, job_id: int, tasks: int, *allocs: tuple[str, int, int, int]) -> None:
        """Let a job run on nodes given as (name, core mask, MiB, gpu mask)."""
        cluster = self.cluster
        nodes = tuple(
            NodeAlloc(
                node_id=cluster.node_index.by_name[name],
                cpus=mask.bit_count(),
                cores=mask.to_bytes(2, "little"),
                mem_mib=mem,
                gres=(GresAlloc("gpu", "a100", gpus.bit_count(), gpus.to_bytes(1, "little")),)
                if gpus
                else (),
            )
            for name, mask, mem, gpus in allocs
        )
        job = cluster.jobs[job_id]
        self.apply(
            [
                ev.JobAllocated(
                    time_us=at("12:10:14"),
                    job_id=job_id,
                    partition=job.partition,
                    nodes=nodes,
                    batch_node_id=nodes[0].node_id,
                    total_tasks=tasks,
                    first_duty_id=cluster.next_duty_id,
                ),
                ev.JobStarted(time_us=at("12:10:14"), job_id=job_id, attempt=0),
            ]
        )
        self.add_step(job_id, STEP_BATCH, "batch", 1, nodes[:1], at("12:10:14"), srun="")

    def add_step(
        self,
        job_id: int,
        step_id: int,
        name: str,
        tasks: int,
        nodes: tuple[NodeAlloc, ...],
        start_us: int,
        *,
        srun: str,
        pid: int = 0,
        distribution: str = "",
    ) -> None:
        """Let a step run on what it is given."""
        step = Step(
            step_id=step_id,
            name=name,
            uid=self.cluster.jobs[job_id].uid,
            ntasks=tasks,
            cpus=sum(alloc.cpus for alloc in nodes),
            nodes=nodes,
            created_us=start_us,
            start_us=start_us,
            srun_host=srun,
            srun_pid=pid,
            distribution=distribution,
        )
        self.apply([ev.StepCreated(time_us=start_us, job_id=job_id, step=step)])

    def part(self, name: str, mask: int, mem: int, gpus: int = 0) -> NodeAlloc:
        """Return a step's share of one node."""
        gres = (GresAlloc("gpu", "a100", gpus.bit_count(), gpus.to_bytes(1, "little")),)
        return NodeAlloc(
            node_id=self.cluster.node_index.by_name[name],
            cpus=mask.bit_count(),
            cores=mask.to_bytes(2, "little"),
            mem_mib=mem,
            gres=gres if gpus else (),
        )

    def plan(
        self,
        job_id: int,
        priority: int,
        reason: Reason = Reason.NONE,
        clock: str = "",
        nodes: str = "",
    ) -> None:
        """Note what the last scheduling pass found out about a job."""
        soft = self.soft
        assert isinstance(soft.priority, dict) and isinstance(soft.reason, dict)
        assert isinstance(soft.expected_start_us, dict)
        soft.priority[job_id] = priority
        if reason:
            soft.reason[job_id] = Wait(reason)
        if clock:
            soft.expected_start_us[job_id] = at(clock)
        if nodes:
            promised = tuple(self.cluster.node_index.by_name[name] for name in nodes.split())
            known = {**soft.sched_nodes, job_id: promised}
            soft.sched_nodes = PlannedNodes(lambda: known)

    def client(self, name: str = "alice") -> LocalClient:
        """Return a client for one user."""
        return LocalClient(self, caller(name))


class LocalClient:
    """Answers a command's requests in this process, through the real encoding both ways."""

    def __init__(self, reference: ReferenceCluster, user: Caller) -> None:
        self.reference = reference
        self.user = user

    def call(self, kind: str, fields: dict[str, Any], timeout_s: float = 0) -> dict[str, Any]:
        """Answer a question or do a change."""
        reference = self.reference
        request = decode_request(kind, pack(fields))
        is_special = kind not in QUERIES and kind not in RULES
        if is_special and not has_level(row(kind).owner_rule, self.user):
            raise SlurmError(Errno.ESLURM_ACCESS_DENIED, error_text(Errno.ESLURM_ACCESS_DENIED))
        if kind == "ShowDiagnostics":
            return self._diagnostics(request)
        if isinstance(request, ShowAssociations):
            return self._associations(request)
        if is_special:
            # The daemon's own: files, configuration, sockets.
            raise SlurmError(1800, "Unable to contact slurm controller (connect failure)")
        if kind in QUERIES:
            outcome = QUERIES[kind](
                reference.cluster, reference.soft, reference.conf, request, self.user,
                reference.now_us,
            )  # fmt: skip
        else:
            outcome = self._change(RULES[kind], request)
        if isinstance(outcome, Reject):
            text = error_text(outcome.code)
            raise SlurmError(outcome.code, f"{outcome.detail}\n{text}" if outcome.detail else text)
        reply: dict[str, Any] = unpack(encode(outcome))
        return reply

    def _diagnostics(self, request: msgspec.Struct) -> dict[str, Any]:
        reference = self.reference
        assert isinstance(request, ShowDiagnostics)
        reply: dict[str, Any] = unpack(
            encode(
                show_diagnostics(
                    reference.cluster, reference.soft, reference.conf, request, self.user,
                    reference.now_us,
                )
            )
        )  # fmt: skip
        return reply

    def _associations(self, request: ShowAssociations) -> dict[str, Any]:
        reference = self.reference
        spent, tree = reference.spent, ShareTree(reference.cluster.assocs.values())
        used_s = [
            spent.get(("assoc", assoc_id), Spent()).tres_s.get("billing", 0.0)
            for assoc_id in tree.assoc_ids
        ]
        rules = share_rules(reference.conf)
        standing = ShareStanding(tree, used_s, rules, reference.soft.fairshare)
        work = show_associations(
            reference.cluster, reference.conf, request, self.user, {},
            lambda owner: spent.get(owner, Spent()), standing,
        )  # fmt: skip
        reply: dict[str, Any] = unpack(encode(at_once(work)))
        return reply

    def _change(self, rule: Any, request: msgspec.Struct) -> Any:
        reference = self.reference
        context = Context(conf=reference.conf, now_us=reference.now_us, caller=self.user)
        outcome = rule(reference.cluster, request, context)
        if isinstance(outcome, Decision):
            reference.apply(list(outcome.events))
            check(reference.cluster)
            return outcome.reply or Done(list(outcome.notes), outcome.refused)
        return outcome

    def change(self, kind: str, fields: dict[str, Any], timeout_s: float = 0) -> dict[str, Any]:
        """Do a change; as the real client, raise where it holds for some of the things only."""
        reply = self.call(kind, {**fields, "request_id": bytes(16)})
        if code := reply.get("refused"):
            raise SlurmError(code, error_text(code))
        return reply


def queue() -> ReferenceCluster:
    """Return the cluster at the time of `squeue` and `sinfo`: three jobs run, eleven wait."""
    reference = ReferenceCluster()
    submit = reference.submit
    submit(
        17, "alice", "12:08:09", "depfail",
        dependencies=(Dependency("afterok", 3, state=2),),
        reason=Reason.DependencyNeverSatisfied, exclude="n3",
        dependency="afterok:3", ntasks=0,
    )  # fmt: skip
    submit(
        21, "alice", "12:10:14", "sim", nodes_min=1, nodes_max=1, ntasks=4,
        flags=REQ_NTASKS_SET | REQ_NODES_SET, comment="reference", std_out="sim.%j.out",
        submit_line="sbatch --parsable -J sim -N1 -n4 -t 60 -o sim.%j.out",
    )  # fmt: skip
    submit(
        22, "alice", "12:10:14", "train", partition="gpu", minutes=120, gpus="2",
        cpus_per_task=4, std_out="train.out",
        submit_line="sbatch --parsable -J train -p gpu --gpus=2 -c4 -t 2:00:00 -o train.out"
        " --wrap srun sleep 900",
    )  # fmt: skip
    submit(
        23, "bob", "12:10:14", "wide", account="chem", minutes=30, nodes_min=2, nodes_max=2,
        ntasks_per_node=4, node_list="n[3-4]", std_out="wide.out", flags=REQ_NODES_SET,
        submit_line="sbatch --parsable -A chem -J wide -N2 --ntasks-per-node=4 -w n3,n4 -t 30"
        " -o wide.out --wrap srun sleep 900",
    )  # fmt: skip
    reference.start(21, 4, ("n3", 0x0330, 4000, 0))
    reference.start(22, 1, ("n1", 0x000F, 4000, 0b11))
    reference.start(23, 8, ("n3", 0x000F, 4000, 0), ("n4", 0x000F, 4000, 0))
    second = at("12:10:15")
    n3 = reference.part("n3", 0x0030, 1000)
    add = reference.add_step
    add(21, 0, "sleep", 2, (n3,), second, srun="n3", pid=8109, distribution="Block")
    n3 = reference.part("n3", 0x0100, 1000)
    add(21, 1, "stepB", 1, (n3,), second, srun="n3", pid=8125, distribution="Cyclic")
    n1 = reference.part("n1", 0x000F, 4000, 0b11)
    add(22, 0, "sleep", 1, (n1,), second, srun="n1", pid=8124, distribution="Block")
    both = (reference.part("n3", 0x000F, 4000), reference.part("n4", 0x000F, 4000))
    add(23, 0, "sleep", 8, both, second, srun="n3", pid=8108, distribution="Block")
    _waiting(reference)
    return reference


def _waiting(reference: ReferenceCluster) -> None:
    submit, plan = reference.submit, reference.plan
    whole: dict[str, Any] = {"flags": REQ_EXCLUSIVE | REQ_NODES_SET}
    submit(
        24, "carol", "12:10:17", "big", account="chem", minutes=240, nodes_min=4, nodes_max=4,
        submit_line="sbatch --parsable -J big -N4 --exclusive -t 4:00:00 --wrap sleep 100",
        **whole,
    )  # fmt: skip
    submit(
        25, "bob", "12:10:17", "low", qos="low", minutes=10, nodes_min=3, nodes_max=3,
        submit_line="sbatch --parsable -A physics --qos=low -J low -N3 --exclusive -t 10"
        " --wrap sleep 100", **whole,
    )  # fmt: skip
    submit(
        26, "alice", "12:10:18", "post", dependencies=(Dependency("afterok", 21),),
        reason=Reason.Dependency, dependency="afterok:21",
        submit_line="sbatch --parsable -J post --dependency=afterok:21 --wrap true",
    )  # fmt: skip
    submit(
        27, "alice", "12:10:18", "sweep", minutes=5, array=((0, 9, 1),), array_limit=2,
        nodes_min=2, nodes_max=2,
        submit_line="sbatch --parsable -J sweep --array=0-9%2 -N2 --exclusive -t 5 --wrap sleep 30",
        **whole,
    )  # fmt: skip
    submit(
        28, "alice", "12:10:18", "held", reason=Reason.JobHeldUser, priority=0, flags=REQ_HOLD,
        submit_line="sbatch --parsable -J held -H --wrap true",
    )  # fmt: skip
    submit(
        29, "alice", "12:10:18", "later", begin_us=_BEGIN_2030_US, reason=Reason.BeginTime,
        submit_line="sbatch --parsable -J later --begin=2030-01-01T00:00:00 --wrap true",
    )  # fmt: skip
    line = (
        "sbatch --parsable -J het -n1 --mem=100 : -n2 --mem=100 --wrap"
        " srun --het-group=0,1 hostname; sleep 400"
    )
    for offset, tasks in ((0, 1), (1, 2)):
        submit(
            30 + offset, "carol", "12:10:18", "het", account="chem", ntasks=tasks,
            mem_per_node_mib=100, het=(30, offset), flags=REQ_NTASKS_SET, submit_line=line,
        )  # fmt: skip
    submit(
        32, "alice", "12:10:18", "qoslim", qos="high", ntasks=16, nodes_min=2,
        flags=REQ_NTASKS_SET,
        submit_line="sbatch --parsable -J qoslim --qos=high -n16 --wrap true",
    )  # fmt: skip
    submit(
        33, "carol", "12:10:18", "uhold", account="chem", nodes_min=4, nodes_max=4,
        reason=Reason.JobHeldAdmin, priority=0,
        submit_line="sbatch --parsable -J uhold --wrap sleep 1 -N4 --exclusive", **whole,
    )  # fmt: skip
    plan(17, 232)
    plan(21, 256)
    plan(22, 1156)
    plan(23, 412)
    plan(24, 631, Reason.Resources, "14:10:14", "n1 n2 n3 n4")
    plan(25, 498, Reason.Priority, "13:10:14", "n2 n3 n4")
    plan(26, 232)
    plan(27, 365, Reason.Priority, "12:40:14", "n2 n4")
    plan(29, 232)
    plan(30, 232, Reason.Resources, "18:11:00", "n3")
    plan(31, 240, Reason.Resources, "12:10:53", "n1")
    plan(32, 2350, Reason.QOSMaxCpuPerUserLimit)


def cases(folder: str) -> Iterator[tuple[str, str, list[str], str, str, int]]:
    """Yield each recorded command: name, user, words, stdout, stderr, exit code."""
    import shlex

    for path in sorted((GOLDEN / folder).glob("*.txt")):
        text = path.read_text()
        first, _, rest = text.partition("\n")
        user = first.partition("@")[0].lstrip("[")
        words = shlex.split(first.partition("$ ")[2])
        stdout, _, rest = rest.partition("----- stdout\n")[2].partition("----- stderr\n")
        stderr, _, code = rest.partition("----- exit ")
        yield path.stem, user, words, stdout, stderr, int(code)
