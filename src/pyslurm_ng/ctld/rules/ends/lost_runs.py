"""Whether a run that was lost with its node is over: what proves it, and what waits for the proof.

A node that falls silent may go on running what it has. `node_loss` of SlurmctldParameters says what
that means for the next run of a job (ADR 0026): only a note in its record, as in Slurm, or that it
waits until the lost run is known to be over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.conf.node_loss import AS_SLURM, policy
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, LostRun
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.states import NodeState

_FENCED = re.compile(r"fenced\b", re.IGNORECASE)
_OURS = re.compile(r"run \d+ began ")


def lost(
    cluster: Cluster,
    job: Job,
    gone: Collection[int],
    now_us: int,
    *,
    node_loss: str,
    proof: str = "",
) -> ev.LostRunsChanged:
    """Return the events that note a job's run as lost with those of its nodes that are `gone`."""
    lost_ids = dict.fromkeys(alloc.node_id for alloc in job.nodes_held if alloc.node_id in gone)
    return ev.LostRunsChanged(
        now_us,
        job.job_id,
        tuple(
            LostRun(
                job.attempt,
                node.node_id,
                node.spec.name,
                boot_id=node.facts.boot_id,
                policy=node_loss,
                proof=proof,
            )
            for node in cluster.nodes_of(lost_ids)
            if job.job_id in cluster.node_index.use[node.node_id].allocs
        ),
    )


def over(
    job: Job, node: str, proof: str, now_us: int, *, attempt: int = -1, not_boot: str = ""
) -> list[ev.AnyEvent]:
    """Return the events that note a job's runs as over on a node, and how that is known.

    Args:
        attempt: this run only; -1 for all.
        not_boot: only runs of other boots of the node than this one.
    """
    runs = tuple(
        msgspec.structs.replace(run, proof=proof)
        for run in job.lost_runs
        if run.node == node
        and not run.proof
        and attempt in (-1, run.attempt)
        and (not not_boot or run.boot_id not in ("", not_boot))
    )
    return [ev.LostRunsChanged(now_us, job.job_id, runs)] if runs else []


def over_on(cluster: Cluster, node: str, proof: str, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that note all runs lost on a node as over there."""
    events: list[ev.AnyEvent] = []
    for job_id in cluster.job_index.lost_on.get(node, ()):
        events += over(cluster.jobs[job_id], node, proof, now_us)
    return events


def rebooted(cluster: Cluster, node: Node, boot_id: str, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that note all runs from before a node's boot as over there."""
    name, events = node.spec.name, list[ev.AnyEvent]()
    for job_id in cluster.job_index.lost_on.get(name, ()) if boot_id else ():
        job = cluster.jobs[job_id]
        events += over(job, name, f"{name} came back with a new boot id", now_us, not_boot=boot_id)
    return events


def open_on(cluster: Cluster, node: str) -> list[tuple[int, int]]:
    """Return (job, attempt) of runs that were lost on a node and may go on there."""
    return [
        (job_id, run.attempt)
        for job_id in cluster.job_index.lost_on.get(node, ())
        for run in cluster.jobs[job_id].lost_runs
        if run.node == node and not run.proof
    ]


def administrators_word(reason: str, user: str) -> str:
    """Return the proof in `scontrol update node State=DOWN Reason="fenced ..."`, "" in others."""
    return f"{user} said that the node is fenced" if _FENCED.match(reason) else ""


def configured(
    cluster: Cluster, conf: SlurmConf, gone: Sequence[int], now_us: int
) -> list[ev.AnyEvent]:
    """Return what a new configuration means for runs that were lost before.

    A changed `node_loss` holds for all jobs that do not run now. A node that is taken out of the
    configuration while it is DOWN does not come back.
    """
    events: list[ev.AnyEvent] = []
    policy_word = policy(conf)
    for job_id in dict.fromkeys(
        job_id for jobs in cluster.job_index.lost_on.values() for job_id in jobs
    ):
        job = cluster.jobs[job_id]
        runs = tuple(
            msgspec.structs.replace(run, policy=policy_word)
            for run in job.lost_runs
            if run.policy != policy_word and not run.proof
        )
        if runs and job_id not in cluster.job_index.active:
            events.append(ev.LostRunsChanged(now_us, job_id, runs))
    for node in cluster.nodes_of(gone):
        if node.state == NodeState.DOWN:
            proof = f"{node.spec.name} was taken out of the configuration"
            events += over_on(cluster, node.spec.name, proof, now_us)
    return events


def begun_again(job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return what a job's record says of its lost runs when it begins again: SystemComment."""
    if not job.lost_runs:
        return []
    if all(run.proof and run.policy == AS_SLURM for run in job.lost_runs):
        return []  # all is as it should be, and Slurm says nothing of that
    unproven = [run for run in job.lost_runs if not run.proof]
    named_runs = unproven or list(job.lost_runs)
    attempts = ", ".join(map(str, sorted({run.attempt for run in named_runs})))
    nodes = hostlist.fold(sorted({run.node for run in named_runs}))
    runs = f"run{'s' * (',' in attempts)} {attempts} on {nodes}"
    text = f"run {job.attempt} began after the end of {runs} was confirmed: {named_runs[0].proof}"
    if unproven:
        text = f"run {job.attempt} began, the end of {runs} was never confirmed"
    text += f" (node_loss={named_runs[0].policy})"
    before = job.system_comment
    if before and not _OURS.match(before):
        text = f"{before}; {text}"
    return [ev.JobUpdated(now_us, job.job_id, {"system_comment": text})]
