"""Runs `fence_program` for nodes that are silent while jobs wait to hear that they are over there.

What it is run for is part of the Cluster, so a controller that was stopped begins it again. Jobs go
on waiting until it has returned 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int, option_text
from pyslurm_ng.ctld.programs.job_programs import Log, Runner
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobFlag, JobState

_AT_ONCE = 32
_LIMIT_S = 60
_FIRST_PAUSE_S = 10
_LONGEST_PAUSE_S = 600
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Fences:
    """Runs the program for each such node, again and again until it succeeds.

    Attributes:
        conf: in force now; names the program and its time limit.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        conf: SlurmConf,
        runner: Runner,
        *,
        now_us: Callable[[], int],
        log: Log,
    ) -> None:
        self.conf = conf
        self._writer = writer
        self._soft = soft
        self._runner = runner
        self._now_us = now_us
        self._log = log
        self._running: set[str] = set()
        self._pauses: dict[str, tuple[int, int]] = {}  # by node: seconds, and until when

    def tick(self) -> None:
        """Start programs that are due; called about once a second."""
        cluster = self._writer.cluster
        program = option_text(self.conf.slurmctld_parameters, "fence_program")
        if not program or not cluster.job_index.lost_on:
            self._pauses.clear()
            return
        for name in list(cluster.job_index.lost_on):
            if len(self._running) >= _AT_ONCE:
                return
            if name not in self._running and self._is_due(name):
                self._begin(program, name)

    def _is_due(self, name: str) -> bool:
        """Return whether a node is silent and jobs wait for it."""
        cluster, now_us = self._writer.cluster, self._now_us()
        node_id = cluster.node_index.by_name.get(name, -1)
        if node_id < 0 or now_us < self._pauses.get(name, (0, 0))[1]:
            return False
        silent_us = now_us - self._soft.last_seen_us.get(node_id, now_us)
        if silent_us < self.conf.slurmd_timeout * SECOND_US:
            return False
        return any(
            _waits_for(cluster.jobs[job_id], name) for job_id in cluster.job_index.lost_on[name]
        )

    def _begin(self, program: str, name: str) -> None:
        cluster = self._writer.cluster
        runs = lost_runs.open_on(cluster, name)
        node = cluster.node(cluster.node_index.by_name[name])
        environment = {
            "PATH": _PATH,
            "SLURM_NODE_NAME": name,
            "SLURM_NODE_ADDR": node.facts.addr or node.spec.addr,
            "SLURM_JOB_IDS": ",".join(str(job_id) for job_id, _ in runs),
        }
        limit_s = option_int(self.conf.slurmctld_parameters, "fence_timeout", _LIMIT_S)
        self._running.add(name)
        self._log.info(f"fence_program begins for node {name}, jobs {environment['SLURM_JOB_IDS']}")
        self._runner.run((program,), environment, limit_s, partial(self._ended, name, runs))

    def _ended(self, name: str, runs: Sequence[tuple[int, int]], result: HookResult) -> None:
        self._running.discard(name)
        if result.status:
            before_s = self._pauses.get(name, (0, 0))[0]
            pause_s = min(_LONGEST_PAUSE_S, before_s * 2 or _FIRST_PAUSE_S)
            self._pauses[name] = pause_s, self._now_us() + pause_s * SECOND_US
            self._log.error(
                f"fence_program for node {name}: {result.text}; again in {pause_s} s, "
                "its jobs wait until then"
            )
            return
        self._pauses.pop(name, None)
        jobs, now_us = self._writer.cluster.jobs, self._now_us()
        events: list[ev.AnyEvent] = []
        for job_id, attempt in runs:
            job = jobs.get(job_id)
            if job is not None:
                proof = f"fence_program has fenced {name}"
                events += lost_runs.over(job, name, proof, now_us, attempt=attempt)
        self._writer.record(events)


def _waits_for(job: Job, name: str) -> bool:
    """Return whether a job would begin again but for a run that was lost on a node."""
    comes_back = is_completing(job) and job.flags & JobFlag.REQUEUED
    if job.state != JobState.PENDING and not comes_back:
        return False
    return any(run.node == name and run.blocks for run in job.lost_runs)
