"""Runs ResumeProgram, SuspendProgram and ResumeFailProgram for nodes that are powered up or down.

A view of the events: a program runs when its event is durable, with the nodes as its only argument.
One that was due when the controller crashed is lost, none runs twice: a machine in a cloud must not
be made twice. Nodes that do not come are given up after ResumeTimeout.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.programs.runner import run_program
from pyslurm_ng.ctld.rules.programs.program_environment import oversubscribe
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, NodeFlag

_LIMIT_S = 600.0  # of a program; a cloud may need minutes to answer


class Log(Protocol):
    """Where lines go."""

    def info(self, text: str) -> None:
        """Worth knowing."""

    def error(self, text: str) -> None:
        """Something is wrong."""


class PowerPrograms:
    """Follows the power of nodes.

    Args:
        conf: returns the configuration in force now; it names the programs.
    """

    def __init__(
        self,
        cluster: Cluster,
        conf: Callable[[], SlurmConf],
        when_durable: Callable[[Callable[[], None]], None],
        log: Log,
    ) -> None:
        self._conf = conf
        self._cluster = cluster
        self._when_durable = when_durable
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Run what events just applied bring."""
        for event in events:
            if not isinstance(event, ev.NodesPowered) or event.first_duty_id:
                continue
            nodes = fold(self._cluster.node_names(event.node_ids))
            if event.failed:
                self._run(self._conf().resume_fail_program, "handle failed nodes", nodes)
            elif event.flag == NodeFlag.POWERING_UP:
                jobs = resume_file(self._cluster, event.node_ids)
                self._run(self._conf().resume_program, "waking nodes", nodes, jobs)
            elif event.flag == NodeFlag.POWERING_DOWN:
                self._run(self._conf().suspend_program, "suspending nodes", nodes)

    def _run(self, program: str, doing: str, nodes: str, jobs: bytes = b"") -> None:
        if program:
            self._when_durable(partial(self._begin, program, doing, nodes, jobs))

    def _begin(self, program: str, doing: str, nodes: str, jobs: bytes) -> None:
        self._log.info(f"power_save: {doing} {nodes}")
        task = asyncio.get_running_loop().create_task(self._to_its_end(program, nodes, jobs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _to_its_end(self, program: str, nodes: str, jobs: bytes) -> None:
        environment = {"SLURM_CONF": self._conf().path}
        descriptor = -1
        if jobs:
            # A file that is gone with this process; the program reads it through /proc.
            descriptor = os.memfd_create("resume")
            os.write(descriptor, jobs)
            environment["SLURM_RESUME_FILE"] = f"/proc/{os.getpid()}/fd/{descriptor}"
        try:
            failure = await run_program((program, nodes), environment, _LIMIT_S)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if failure:
            self._log.error(f"power_save: {failure} (nodes {nodes})")


def resume_file(cluster: Cluster, node_ids: Iterable[int]) -> bytes:
    """Return what SLURM_RESUME_FILE tells of the nodes that wake and the jobs that want them."""
    waking = dict.fromkeys(node_ids)
    jobs: dict[int, Job] = {}
    for node_id in waking:
        for job_id in cluster.node_index.use[node_id].allocs:
            job = cluster.jobs[job_id]
            if job.flags & JobFlag.POWER_UP_NODE:
                jobs[job_id] = job
    listed = []
    for job_id in sorted(jobs):
        job = jobs[job_id]
        allocated = [alloc.node_id for alloc in job.nodes]
        listed.append(
            {
                "extra": job.request.extra or None,
                "features": job.request.constraint or None,
                "job_id": job_id,
                "nodes_alloc": fold(cluster.node_names(allocated)),
                "nodes_resume": fold(
                    cluster.node_names([node_id for node_id in allocated if node_id in waking])
                ),
                "oversubscribe": oversubscribe(cluster, job),
                "partition": job.partition,
                "reservation": job.reservation or None,
            }
        )
    whole = {"all_nodes_resume": fold(cluster.node_names(tuple(waking))), "jobs": listed}
    return json.dumps(whole).encode()
