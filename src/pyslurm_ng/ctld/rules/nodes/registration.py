"""What nodes say of themselves: registrations and heartbeats; `reports` has what they did.

The daemon knows which node speaks: its credential says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pyslurm_ng.conf.node_loss import AS_SLURM, policy
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_text
from pyslurm_ng.ctld.rules.ends import job_end, lost_runs, node_loss
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.nodes import late_launches, power, reboots
from pyslurm_ng.ctld.rules.programs import programs
from pyslurm_ng.ctld.rules.starts.dispatch import SLEEPS
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.node import Node, NodeFacts
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState, NodeFlag, NodeState, Reason
from pyslurm_ng.model.topology import are_places
from pyslurm_ng.wire import node_messages as nm

_REBOOTED = "Node unexpectedly rebooted"


def register(
    cluster: Cluster,
    node_id: int,
    facts: NodeFacts,
    running: Sequence[nm.RunningJob],
    conf: SlurmConf,
    now_us: int,
    *,
    was_asked: bool = False,
) -> list[ev.AnyEvent]:
    """Return what a registration changes: hardware, the node's state, jobs lost with a reboot.

    The duties that are still open stay; the sender sends them to the node after this.

    Args:
        was_asked: it answers what became of launches: `late_launches`.
    """
    node = cluster.node(node_id)
    rebooted = bool(node.facts.boot_id) and node.facts.boot_id != facts.boot_id
    events = lost_runs.rebooted(cluster, node, facts.boot_id, now_us)
    late = late_launches.missing_jobs(cluster, node_id, conf, now_us) if was_asked else []
    events += _lost_jobs(cluster, node, running, rebooted, now_us, conf, late)
    is_start = not node.registered_us or node.facts.boot_id != facts.boot_id
    wakes = is_start and not node.flags & NodeFlag.POWERING_DOWN
    written = _command_line_fields(cluster, node, facts, now_us) if is_start else []
    if not is_start:
        facts = replace(facts, instance_id=node.instance_id, instance_type=node.instance_type)
    events.append(_registered(cluster, conf, node, facts, rebooted, now_us))
    if rebooted and node.flags & (NodeFlag.REBOOT_ISSUED | NodeFlag.POWERING_UP):
        events += reboots.open_reboots(cluster, node_id, now_us)
        events.append(ev.NodeUpdated(now_us, (node_id,), dict(reboots.AT_REST)))
    if node.flags & SLEEPS and wakes:
        events += programs.node_is_up(cluster, node_id, now_us, preparation(conf))
    return events + written


def _command_line_fields(
    cluster: Cluster, node: Node, facts: NodeFacts, now_us: int
) -> list[ev.AnyEvent]:
    """Return what slurmd's command line writes on its node: Extra and Topology.

    As InstanceId and InstanceType it counts when the node registers for the first time and when it
    has booted. A slurmd that was only started again leaves what an administrator has written since.
    """
    fields = {}
    if facts.extra not in ("", node.extra):
        fields["extra"] = facts.extra
    is_place = facts.topology not in ("", node.topology)
    if is_place and are_places(cluster.topologies, facts.topology, (node.node_id,)):
        fields["topology"] = facts.topology
    return [ev.NodeUpdated(now_us, (node.node_id,), dict(fields))] if fields else []


def _registered(
    cluster: Cluster, conf: SlurmConf, node: Node, facts: NodeFacts, rebooted: bool, now_us: int
) -> ev.NodeRegistered:
    """Return the node's new state by its hardware and ReturnToService."""
    flags = node.flags & ~NodeFlag.NOT_RESPONDING
    state, reason = NodeState(node.state), node.reason
    expected_reboot = bool(flags & (reboots.REBOOT_FLAGS | SLEEPS | NodeFlag.POWERING_DOWN))
    has_booted = rebooted or not node.registered_us
    if has_booted and flags & SLEEPS and not flags & NodeFlag.POWERING_DOWN:
        flags &= ~(SLEEPS | NodeFlag.POWER_UP)
        if state == NodeState.DOWN and reason == power.FAILED:
            state, reason = NodeState.IDLE, ""
    as_told = rebooted and bool(flags & NodeFlag.REBOOT_ISSUED)
    if as_told:
        state, flags, reason = reboots.after_boot(node, flags)
    problem = "" if _is_pretended(conf) else _shortage(node, facts, _memory_percent(conf, node))
    if problem:
        flags |= NodeFlag.INVALID_REG | NodeFlag.DRAIN
        reason = problem
    elif flags & NodeFlag.INVALID_REG:
        flags &= ~(NodeFlag.INVALID_REG | NodeFlag.DRAIN)
        reason = ""
    if state in (NodeState.UNKNOWN, NodeState.FUTURE):
        state = NodeState.IDLE
    elif state == NodeState.DOWN and not as_told and _may_return(conf, node):
        state = NodeState.IDLE
        if not flags & (NodeFlag.DRAIN | NodeFlag.FAIL):
            reason = ""
    had_jobs = bool(cluster.node_index.use[node.node_id].allocs)
    if rebooted and had_jobs and not expected_reboot and conf.return_to_service != 2:
        state, reason = NodeState.DOWN, _REBOOTED
    return ev.NodeRegistered(
        time_us=now_us,
        node_id=node.node_id,
        facts=facts,
        state=int(state),
        flags=int(flags),
        reason=reason,
        addr=facts.addr,
    )


def _may_return(conf: SlurmConf, node: Node) -> bool:
    """Return whether a node that is DOWN comes back by registering, as ReturnToService says."""
    if conf.return_to_service == 1:
        return node.down_for_silence
    if conf.return_to_service != 2:
        return False
    # A node that an operator or the configuration took down stays down until an operator resumes
    # it.
    return node.down_for_silence or node.reason == _REBOOTED


def _is_pretended(conf: SlurmConf) -> bool:
    return any(word.lower() == "config_overrides" for word in conf.slurmd_parameters)


def _memory_percent(conf: SlurmConf, node: Node) -> float:
    """Return which share of its configured memory a node has to have."""
    usual = 90 if node.flags & NodeFlag.CLOUD else 100
    return float(option_text(conf.slurmctld_parameters, "node_reg_mem_percent") or usual)


def _shortage(node: Node, facts: NodeFacts, memory_percent: float) -> str:
    """Return Slurm's reason for a node with less than configured, or nothing."""
    spec = node.spec
    if facts.cpus and facts.cpus < spec.cpus:
        return f"Low CPUs (reported:{facts.cpus} < configured:{spec.cpus})"
    reported_cpus = facts.sockets * facts.cores_per_socket * facts.threads_per_core
    configured_cpus = spec.sockets * spec.cores_per_socket * spec.threads_per_core
    if reported_cpus and reported_cpus < configured_cpus:
        return (
            f"Low socket*core*thread count (reported:{reported_cpus} < "
            f"configured:{configured_cpus})"
        )
    least_mib = spec.real_memory_mib * memory_percent / 100
    if facts.real_memory_mib and facts.real_memory_mib < least_mib:
        return (
            f"Low RealMemory (reported:{facts.real_memory_mib} < {memory_percent:.2f}% of "
            f"configured:{spec.real_memory_mib})"
        )
    if spec.tmp_disk_mib and facts.tmp_disk_mib < spec.tmp_disk_mib:
        return f"Low TmpDisk (reported:{facts.tmp_disk_mib} < configured:{spec.tmp_disk_mib})"
    missing: dict[str, int] = {}
    for gres in facts.gres:
        missing[gres.name] = missing.get(gres.name, 0) + gres.count
    counts: dict[str, int] = {}
    for gres in spec.gres:
        counts[gres.name] = counts.get(gres.name, 0) + gres.count
    for name, count in counts.items():
        have = missing.get(name, 0)
        if have < count:
            return f"gres/{name} count reported lower than configured ({have} < {count})"
    return ""


def _launched_scripts(cluster: Cluster, node_id: int) -> list[Job]:
    """Return running jobs with a script that the node has reported as started."""
    waiting = {duty.job_id for duty in cluster.duties.get(node_id, {}).values()}
    runs = []
    for job_id in cluster.node_index.use[node_id].allocs:
        job = cluster.jobs[job_id]
        if (
            job.batch_node_id == node_id
            and STEP_BATCH in job.steps
            and job_id not in waiting
            and not is_completing(job)
        ):
            runs.append(job)
    return runs


def _lost_jobs(
    cluster: Cluster,
    node: Node,
    running: Sequence[nm.RunningJob],
    rebooted: bool,
    now_us: int,
    conf: SlurmConf,
    late: Sequence[Job],
) -> list[ev.AnyEvent]:
    """Return the ends or requeues of jobs that this node no longer runs.

    Where ends have to be confirmed, what a node does not list counts as lost until it has answered
    for it, unless it has booted since: a registration may be older than the run.
    """
    known = {(job.job_id, job.attempt) for job in running}
    victims = [*_launched_scripts(cluster, node.node_id), *late]
    if rebooted:
        allocated_jobs = [
            cluster.jobs[job_id] for job_id in cluster.node_index.use[node.node_id].allocs
        ]
        victims = [
            job
            for job in allocated_jobs
            if not is_completing(job)
            and _runs_on(job, node.node_id)
            and not job.flags & JobFlag.POWER_UP_NODE  # it has waited for this
        ]
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for job in victims:
        if (job.job_id, job.attempt) in known:
            continue
        # An order may be on its way to a node that has not begun: it has to end that, too.
        is_clean = rebooted or job not in late
        if not rebooted and is_clean and policy(conf) != AS_SLURM:
            gone = (node.node_id,)
            events.append(lost_runs.lost(cluster, job, gone, now_us, node_loss=policy(conf)))
        events += job_end.complete(
            cluster,
            job,
            job_end.End(
                JobState.NODE_FAIL,
                reason=Reason.NodeDown,
                flags=JobFlag.REQUEUED if node_loss.may_requeue(job) else JobFlag.NONE,
                failed_node=node.spec.name,
            ),
            now_us,
            clean_nodes=frozenset((node.node_id,)) if is_clean else frozenset(),
            first_duty_id=duty_id,
            rules=requeue_rules(conf),
        )
        duty_id += len(job.nodes)
    return events


def strays(
    cluster: Cluster, node_id: int, running: Sequence[nm.RunningJob]
) -> list[tuple[int, int]]:
    """Return (job, attempt) of what a node has to end, after `register`.

    These are runs that it has and must not have, and runs that were lost there. It may know nothing
    of a lost run; its answer then says that the run is over.
    """
    runs = lost_runs.open_on(cluster, cluster.node(node_id).spec.name)
    asked = set(runs)
    for running_job in running:
        job = cluster.jobs.get(running_job.job_id)
        is_expected = job is not None and _runs_on(job, node_id)
        key = (running_job.job_id, running_job.attempt)
        is_stray = (
            job is None or not is_expected or job.attempt != running_job.attempt or _is_over(job)
        )
        if is_stray and key not in asked:
            runs.append(key)
    return runs


def _runs_on(job: Job, node_id: int) -> bool:
    return any(alloc.node_id == node_id for alloc in job.nodes)


def _is_over(job: Job) -> bool:
    return job.state in TERMINAL_STATES and not is_completing(job)
