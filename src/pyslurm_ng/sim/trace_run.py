"""Run a workload through the scheduler and measure what its users would have felt."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pyslurm_ng.base.numbers import INFINITE, SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.timers import limit_moments_us
from pyslurm_ng.ctld.scheduling.scheduler import PlanFunction
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import free_job_id
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.nodes import PretendNodes
from pyslurm_ng.sim.workload import TraceJob
from pyslurm_ng.sim.world import World

_BEGIN_US = 1_000_000_000 * SECOND_US  # any moment: traces count from their own beginning
_BOUND_S = 10  # tau of the bounded slowdown, as the literature has it
_PURGE_EVERY_S = 3600


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run measured. Bounded slowdown is max(1, (wait + run) / max(run, 10 s))."""

    jobs: int
    mean_bounded_slowdown: float
    mean_wait_s: float
    max_wait_s: int
    utilisation: float
    makespan_s: int
    passes: int
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """Return the measures by name."""
        return asdict(self)


TRACE_CONF = "the simulator's slurm.conf"


def trace_conf(processors: int, settings: Sequence[str] = ()) -> SlurmConf:
    """Return the configuration of a machine whose processors are nodes of one core.

    Jobs are served first come, first served unless `settings` (KEY=VALUE lines) say otherwise.
    """
    return parse_slurm_conf("\n".join(trace_lines(processors, settings)) + "\n", TRACE_CONF)


def trace_lines(processors: int, settings: Sequence[str]) -> list[str]:
    """Return the lines of that configuration, the settings last."""
    lines = [
        "ClusterName=trace",
        "SlurmctldHost=trace",
        "AuthType=auth/slurm",
        "CredType=cred/slurm",
        "PriorityType=priority/basic",
        "SelectTypeParameters=CR_Core",
        "OverTimeLimit=UNLIMITED",
        "MinJobAge=1",
        f"NodeName=p[1-{processors}] CPUs=1 RealMemory=1",
        f"PartitionName=all Nodes=p[1-{processors}] Default=YES MaxTime=UNLIMITED",
    ]
    keys = {setting.partition("=")[0].strip().lower() for setting in settings}
    return [*(line for line in lines if line.partition("=")[0].lower() not in keys), *settings]


class TraceRun:
    """One workload on one simulated cluster."""

    def __init__(self, jobs: Sequence[TraceJob], conf: SlurmConf, plan: PlanFunction) -> None:
        self.world = World(start_us=_BEGIN_US)
        self.controller = SimController(self.world, conf, plan, keep_journal=False)
        self.jobs = jobs
        self._of_job: dict[int, TraceJob] = {}
        self._submit_us: dict[int, int] = {}
        self._waits_s: list[tuple[int, int]] = []
        self._last_end_us = _BEGIN_US
        self._next = 0
        self._will_purge = False
        PretendNodes(
            self.world, self.controller.writer, self._run_time_us, rules=requeue_rules(conf)
        )
        self.controller.writer.observe(self._applied)

    def run(self) -> Outcome:
        """Let the whole workload pass and return what was measured."""
        begun = time.perf_counter()
        self._submit_due()
        self.world.run()
        return self._outcome(time.perf_counter() - begun)

    def _submit_due(self) -> None:
        """Submit all jobs of this second and wake up at the next one's."""
        now_us = self.world.now_us
        batch: list[ev.AnyEvent] = []
        taken: set[int] = set()
        cluster = self.controller.cluster
        while self._next < len(self.jobs):
            job = self.jobs[self._next]
            if _BEGIN_US + job.submit_s * SECOND_US > now_us:
                self.world.at(_BEGIN_US + job.submit_s * SECOND_US, self._submit_due)
                break
            job_id = free_job_id(cluster, frozenset(taken)) if not taken else max(taken) + 1
            taken.add(job_id)
            self._of_job[job_id] = job
            self._submit_us[job_id] = now_us
            batch.append(_submitted(job, job_id, now_us))
            self._next += 1
        self.controller.writer.record(batch)

    def _purge_later(self) -> None:
        """Have jobs that are over forgotten after a while; nothing else needs the clock to tick."""
        age_s = self.controller.conf.min_job_age
        if age_s and not self._will_purge:
            self._will_purge = True
            self.world.after(max(_PURGE_EVERY_S, age_s) * SECOND_US, self._purge)

    def _purge(self) -> None:
        self._will_purge = False
        self.controller.tick()
        if self.controller.cluster.job_index.ended:
            self._purge_later()

    def _run_time_us(self, job_id: int) -> int:
        return self._of_job[job_id].run_s * SECOND_US

    def _applied(self, events: Sequence[ev.AnyEvent]) -> None:
        cluster, conf = self.controller.cluster, self.controller.conf
        for event in events:
            if isinstance(event, ev.JobAllocated):
                job = self._of_job[event.job_id]
                for limit_us in limit_moments_us(cluster, conf, cluster.jobs[event.job_id]):
                    self.world.at(limit_us, self.controller.tick)
                wait_us = event.time_us - self._submit_us.pop(event.job_id)
                self._waits_s.append((wait_us // SECOND_US, job.run_s))
            elif isinstance(event, ev.JobEnded):
                self._last_end_us = max(self._last_end_us, event.time_us)
                self._purge_later()

    def _outcome(self, seconds: float) -> Outcome:
        count = len(self._waits_s)
        slowdown = sum(max(1.0, (wait + run) / max(run, _BOUND_S)) for wait, run in self._waits_s)
        first_s = self.jobs[0].submit_s if self.jobs else 0
        makespan_s = (self._last_end_us - _BEGIN_US) // SECOND_US - first_s
        processors = len(self.controller.cluster.living_nodes())
        work = sum(job.run_s * job.processors for job in self.jobs)
        return Outcome(
            jobs=count,
            mean_bounded_slowdown=slowdown / count if count else 0.0,
            mean_wait_s=sum(wait for wait, _ in self._waits_s) / count if count else 0.0,
            max_wait_s=max((wait for wait, _ in self._waits_s), default=0),
            utilisation=work / (processors * makespan_s) if makespan_s else 0.0,
            makespan_s=makespan_s,
            passes=self.controller.soft.passes.cycles,
            seconds=seconds,
        )


def _submitted(job: TraceJob, job_id: int, now_us: int) -> ev.JobSubmitted:
    limit_min = min(INFINITE - 2, max(1, -(-job.requested_s // 60)))
    return ev.JobSubmitted(
        time_us=now_us,
        job_id=job_id,
        request=JobRequest(
            nodes_min=job.processors,
            nodes_max=job.processors,
            ntasks=job.processors,
            time_limit_min=limit_min,
        ),
        uid=10_000 + job.user,
        gid=10_000,
        user_name=f"user{job.user}",
        group_name="users",
        account="trace",
        qos="",
        assoc_id=0,
        partition="all",
        time_limit_min=limit_min,
        script_hash="0" * 32,
        eligible_us=now_us,
    )
