"""Two users under limits of accounts and QOS, of which one preempts the other, while the very
configuration changes under what waits and runs: all that constrains a start, at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pyslurm_ng.base.numbers import INFINITE, SECOND_US
from pyslurm_ng.cli.control.explain import lines
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.queries.explained import explained
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.explain.explain import outlook
from pyslurm_ng.sched.frame.job_views import may_be_considered
from pyslurm_ng.sim.chaos import CONF as BASE
from pyslurm_ng.sim.checks import Violation
from pyslurm_ng.sim.controller import SimController
from tests.sim.meddling import CONF, Meddling

ENFORCED = """
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightQOS=1000
PriorityWeightAge=10
"""
_QOS = (
    Qos(1, "normal"),
    Qos(2, "small", limits=Limits(grp_tres={"cpu": 6}, max_jobs=3, max_wall_min=20)),
    Qos(3, "high", priority=100, preempt=("normal", "small"),
        limits=Limits(max_tres_per_user={"cpu": 8})),
)  # fmt: skip
_NAMES = tuple(qos.name for qos in _QOS)
_ASSOCIATIONS = (
    Association(1, "root"),
    Association(2, "physics", parent_id=1, limits=Limits(grp_jobs=6)),
    Association(3, "physics", "alice", parent_id=2, qos=_NAMES, default_qos="normal"),
    Association(4, "maths", parent_id=1, limits=Limits(grp_tres={"cpu": 8, "gres/gpu": 1})),
    Association(5, "maths", "bob", parent_id=4, qos=_NAMES, default_qos="normal",
                limits=Limits(max_jobs=4, max_tres_per_job={"cpu": 4})),
)  # fmt: skip
_USERS = (UserRecord("alice", "physics"), UserRecord("bob", "maths"))
# Marks of what was not meant for users: unset numbers, Python, gaps where a name should be.
_ODD_WORDS = re.compile(
    r"429496729|NO_VAL|None|\b[A-Z]\w+\.\w+\b|\[\]|, *$| ;|-\d+ (s|min|h)\b", re.MULTILINE
)
_QUIET_US = 1800 * SECOND_US
# What an administrator makes of slurm.conf, in turn.
_EDITS = (
    ("NodeName=n[1-3] ", "NodeName=n[1-2] "),
    ("Licenses=soft:3,hard:1", "Licenses=soft:1,hard:1"),
    ("other Nodes=n[2-4] MaxTime=30", "other Nodes=n[3-4] MaxTime=10"),
    ("rows Nodes=n[1-2] MaxTime=60", "rows Nodes=n[2-4] MaxTime=5"),
    ("MaxTime=60 DefMemPerCPU=100\n", "MaxTime=60 DefMemPerCPU=100 State=DRAIN\n"),
)


class Crowd(Meddling):
    """A seed's life under limits."""

    def __init__(self, seed: int, plan: object, jobs: int = 30, **more: object) -> None:
        conf = str(more.pop("conf", ""))
        super().__init__(seed, plan, jobs, conf=CONF + ENFORCED + conf, **more)
        self._text = BASE + CONF + ENFORCED + conf
        self.reloads = 0
        self._quiet_since_us = 0

    def caller(self, number: int) -> Caller:
        """Return one of two users."""
        if number % 2:
            return Caller(1002, 1002, "bob", "bob")
        return super().caller(number)

    def request(self, number: int, mark: str) -> JobRequest:
        """Return a request in some QOS, maybe after a task of an array."""
        chance = self.world.random
        request = super().request(number, mark)
        wants: dict[str, object] = {"qos": chance.choice(("", "", "normal", "small", "high"))}
        cluster = self.controller.cluster if self.controller is not None else None
        if cluster is not None and cluster.job_index.arrays and chance.random() < 0.2:
            array = chance.choice([*cluster.job_index.arrays])
            kind = chance.choice(("afterany", "afterok", "aftercorr", "after"))
            task = "" if kind == "aftercorr" else chance.choice(("", "_0", "_3"))
            wants["dependency"] = f"{kind}:{array}{task}"
            wants["flags"] = 0
        return msgspec.structs.replace(request, **wants)

    def refused(self, code: int, text: str) -> None:
        """Anything may be refused where everything changes, but in words for users."""
        if not text or "internal" in text or "Traceback" in text:
            raise Violation(f"a request was refused: {code} {text}")

    def _job_settings(self, cluster: Cluster) -> list[tuple[str, str]]:
        chance = self.world.random
        return [
            *super()._job_settings(cluster),
            ("qos", chance.choice(("small", "high", "normal", ""))),
            ("account", chance.choice(("physics", "maths", ""))),
            ("numcpus", chance.choice(("1", "3", "8"))),
            ("timelimit", chance.choice(("10", "30"))),
        ]

    def _reload(self, controller: SimController) -> None:
        """Read a configuration in which some lines are different."""
        text = self._text
        if not self._calm:
            for old, new in self.world.random.sample(_EDITS, 2):
                text = text.replace(old, new)
            if "n[1-3] " not in text:
                for nodes in ("Nodes=n[1-4]", "Nodes=n[2-4]", "Nodes=n[3-4]"):
                    text = text.replace(nodes, "Nodes=n[2,4]")
        self.conf = parse_slurm_conf(text, "the simulator's slurm.conf")
        self.reloads += 1
        self._read(controller)

    def _read(self, controller: SimController) -> None:
        now_us = self.world.now_us
        controller.writer.record(configure(controller.cluster, self.conf, now_us, self.topologies))

    def _meddle(self) -> None:
        if self.controller is not None and not self._calm and self.world.random.random() < 0.02:
            self._reload(self.controller)
        if self.controller is not None and not self._calm:
            jobs = [
                *self.controller.cluster.job_index.pending,
                *self.controller.cluster.job_index.active,
            ]
            if jobs and self.world.random.random() < 0.1:
                check_words(self.controller, self.world.random.choice(jobs))
        super()._meddle()

    def _calm_down(self) -> None:
        super()._calm_down()
        if self.controller is not None:
            self._reload(self.controller)

    def _settle(self) -> None:
        """Let all start that can, before what is left is cancelled."""
        controller = self.controller
        if controller is None:
            self.world.after(SECOND_US, self._settle)
            return
        if self.conf.text_hash != self._whole_hash:
            self._reload(controller)
        self._quiet_since_us = self._quiet_since_us or self.world.now_us
        if self.world.now_us < self._quiet_since_us + _QUIET_US:
            self._reopen(controller)
            self.world.after(60 * SECOND_US, self._settle)
            return
        if not controller.cluster.job_index.active:
            check_nobody_waits_in_vain(controller)
        super()._settle()

    def _start_controller(self, payloads: list[bytes]) -> None:
        super()._start_controller(payloads)
        assert self.controller is not None
        cluster, writer = self.controller.cluster, self.controller.writer
        if not cluster.qos:
            self._whole_hash = self.conf.text_hash
            now_us = self.world.now_us
            changed: Sequence[Struct] = (
                ev.QosChanged(now_us, _QOS),
                ev.AssocChanged(now_us, _ASSOCIATIONS, users=_USERS, version=1),
            )
            writer.record([*changed])
        writer.observe(lambda events: check_limits(cluster, events))


def check_nobody_waits_in_vain(controller: SimController) -> None:
    """Raise Violation if a job waits for room while nothing runs and every node is in service."""
    cluster = controller.cluster
    if not all(cluster.node_index.columns.usable[node.node_id] for node in cluster.living_nodes()):
        return
    for job_id in cluster.job_index.pending:
        wait = controller.soft.reason.get(job_id)
        if not may_be_considered(cluster.jobs[job_id]):
            continue
        if cluster.jobs[job_id].het_job_id:
            continue  # components are placed one after another: room for all may be overlooked
        if wait is None or wait.reason in (Reason.NONE, Reason.Priority, Reason.Resources):
            raise Violation(f"job {job_id} waits in vain: {wait}: {cluster.jobs[job_id]!r:.800}")


def check_words(controller: SimController, job_id: int) -> None:
    """Raise Violation if `scontrol explain job` says what is no sentence, or no number."""
    cluster, scheduler = controller.cluster, controller.scheduler
    job, now_us = cluster.jobs[job_id], controller.world.now_us
    view = None
    if job_id in cluster.job_index.pending and may_be_considered(job):
        names = [*cluster.partitions]
        view = outlook(scheduler.look(), scheduler.policy, job_id, names, qos=_NAMES)
    answer = explained(cluster, controller.soft, job, view, [], 0, now_us)
    text = "\n".join(lines(msgspec.to_builtins(answer)))
    odd = _ODD_WORDS.search(text)
    if odd is not None:
        raise Violation(f"explain says {odd[0]!r}:\n{text}")


def check_limits(cluster: Cluster, events: Sequence[ev.AnyEvent]) -> None:
    """Raise Violation if a start breaks a limit of its QOS, its user or its account."""
    for event in events:
        if not isinstance(event, ev.JobAllocated):
            continue
        started = cluster.jobs[event.job_id]
        running = [cluster.jobs[job_id] for job_id in cluster.job_index.active]
        running = [job for job in running if not is_completing(job)]
        qos = cluster.qos[started.qos]
        _check(f"QOS {qos.name}", started, qos.limits, [
            job for job in running if job.qos == started.qos
        ])  # fmt: skip
        alike = [job for job in running if _is_alike(job, started)]
        own = {"cpu": sum(map(_cpus, alike))}
        most = qos.limits.max_tres_per_user.get("cpu", INFINITE)
        if own["cpu"] > most:
            raise Violation(f"job {event.job_id}: {started.user_name} has {own} in {qos.name}")
        assoc = cluster.assocs[started.assoc_id]
        mine = [job for job in running if job.assoc_id == assoc.assoc_id]
        # The QOS has the say where both limit the jobs of a user.
        counted, most = alike, qos.limits.max_jobs
        if most == INFINITE:
            counted, most = mine, assoc.limits.max_jobs
        if len(counted) > most:
            raise Violation(f"job {event.job_id}: {started.user_name} runs {len(counted)} jobs")
        if _cpus(started) > assoc.limits.max_tres_per_job.get("cpu", INFINITE):
            raise Violation(f"job {event.job_id} of {started.user_name} has {_cpus(started)} CPUs")
        account = cluster.assocs[assoc.parent_id]
        _check(f"account {account.account}", started, account.limits, [
            job for job in running if cluster.assocs[job.assoc_id].parent_id == account.assoc_id
        ])  # fmt: skip


def _is_alike(job: Job, other: Job) -> bool:
    return (job.qos, job.uid) == (other.qos, other.uid)


def _cpus(job: Job) -> int:
    return sum(alloc.cpus for alloc in job.nodes)


def _gpus(job: Job) -> int:
    return sum(gres.count for alloc in job.nodes for gres in alloc.gres if gres.name == "gpu")


def _check(whose: str, started: Job, limits: Limits, running: Sequence[Job]) -> None:
    used = {"cpu": sum(map(_cpus, running)), "gres/gpu": sum(map(_gpus, running))}
    over = {name: used[name] for name, most in limits.grp_tres.items() if used[name] > most}
    if over or len(running) > limits.grp_jobs:
        ids = [(job.job_id, _cpus(job)) for job in running]
        raise Violation(f"job {started.job_id}: {whose} holds {over or len(running)}: {ids}")
