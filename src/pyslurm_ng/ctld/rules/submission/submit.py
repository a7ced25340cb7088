"""Submission: defaults filled in, every check that needs no waiting, one `JobSubmitted`.

Source: sbatch's manual and what a running Slurm refuses, in which order and with which number.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from sys import intern

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_EXPEDITE,
    REQ_HOLD,
    REQ_KEEP_INVALID_DEP,
    REQ_KILL_INVALID_DEP,
    REQ_MEM_SET,
    REQ_NO_REQUEUE,
    REQ_REBOOT,
    REQ_REQUEUE,
)
from pyslurm_ng.base.plain_text import are_recipients
from pyslurm_ng.conf.values import has_option, option_int
from pyslurm_ng.ctld.rules.buffers.directives import LUA
from pyslurm_ng.ctld.rules.buffers.new_buffer import new_buffer
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.queue import dependency, dependency_text, job_count, queue_room
from pyslurm_ng.ctld.rules.reservation.reservations import check_requested
from pyslurm_ng.ctld.rules.submission import limits, mcs, pbs, plugins
from pyslurm_ng.ctld.rules.submission.account import (
    Standing,
    qos_choices,
    standing_of,
    wckey_of,
    with_own_priority,
)
from pyslurm_ng.ctld.rules.submission.feasible import cpus_for_all_memory
from pyslurm_ng.ctld.rules.submission.job_array import ArrayError, JobArray, parse_array
from pyslurm_ng.ctld.rules.submission.place import (
    check_memory,
    check_names,
    check_partitions,
    node_extra,
    switches_wait_s,
    with_full_license_names,
)
from pyslurm_ng.ctld.rules.submission.step_manager import with_step_manager
from pyslurm_ng.ctld.rules.submission.times import time_limit
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, free_job_id
from pyslurm_ng.model.job import Dependency, Job, JobRequest
from pyslurm_ng.model.partition import Partition, opened
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.policy import selection
from pyslurm_ng.sched.request import features
from pyslurm_ng.sched.request.need import node_ids
from pyslurm_ng.wire.job_messages import AllocateJob, JobAccepted, SubmitJob

_MAX_SUBMIT_LINE_BYTES = 1 << 20
ADDRESSES = (
    "mail_user: user names and addresses with commas or spaces between them are allowed,"
    " of letters, digits and . _ - + = % ~ ' @ $ { } < >"
)


class Accepted(msgspec.Struct, frozen=True):
    """A request that passed all checks, with filled-in values.

    `pbs_words` is what job_submit/pbs has made of its dependency.
    """

    request: JobRequest
    partitions: tuple[Partition, ...]
    standing: Standing
    time_limit_min: int
    array: JobArray | None
    dependencies: tuple[Dependency, ...]
    dependency_any: bool
    pbs_words: pbs.Translated = pbs.NO_WORDS


def submit_job(cluster: Cluster, message: SubmitJob, context: Context) -> Decision | Reject:
    """sbatch: accept a batch job. The writer stores script and environment by their digests."""
    if not message.script:
        return Reject(Errno.ESLURM_JOB_SCRIPT_MISSING)
    if len(message.script) > script_limit(context):
        return Reject(Errno.ESLURM_PATHNAME_TOO_LONG)
    if message.components:
        requests = [message.request, *message.components]
        return _enter_het(cluster, requests, context, message.script, message.environment)
    return _enter(cluster, message.request, context, message.script, message.environment)


def allocate_job(cluster: Cluster, message: AllocateJob, context: Context) -> Decision | Reject:
    """salloc, srun: accept a job without a script."""
    if message.request.array:
        return Reject(Errno.ESLURM_INVALID_ARRAY)
    if message.components:
        requests = [message.request, *message.components]
        return _enter_het(cluster, requests, context, b"", message.environment)
    return _enter(cluster, message.request, context, b"", message.environment)


def script_limit(context: Context) -> int:
    """Return the largest batch script in bytes: `max_script_size`, 4 MiB by default."""
    return option_int(context.conf.scheduler_parameters, "max_script_size", 4 << 20)


def digest_of(content: bytes) -> str:
    """Return the name a script or environment is kept under; "" for no content."""
    # Many jobs have the same content, so they share its name.
    return intern(blake2b(content, digest_size=16).hexdigest()) if content else ""


def _enter(
    cluster: Cluster, request: JobRequest, context: Context, script: bytes, environment: bytes
) -> Decision | Reject:
    accepted = check(cluster, request, context)
    if isinstance(accepted, Reject):
        return accepted
    refusal = queue_room.refusal(cluster, context, [counted(accepted)])
    if refusal is not None:
        return refusal
    return decide(cluster, accepted, context, digest_of(script), digest_of(environment))


def counted(accepted: Accepted) -> int:
    """Return what a job counts for among the long ones of its user."""
    tasks = accepted.array.count if accepted.array is not None else 1
    terms = len(accepted.dependencies) + len(accepted.pbs_words.before)
    return queue_room.beyond_usual(accepted.request, terms, tasks)


def _enter_het(
    cluster: Cluster,
    requests: Sequence[JobRequest],
    context: Context,
    script: bytes,
    environment: bytes,
) -> Decision | Reject:
    """Accept all components of a heterogeneous job under ids that follow one another, or none."""
    accepted: list[Accepted] = []
    for request in requests:
        if request.array:
            return Reject(Errno.ESLURM_INVALID_ARRAY)
        checked = check(cluster, request, context, components=len(requests))
        if isinstance(checked, Reject):
            return checked
        accepted.append(checked)
    refusal = _refused_together(cluster, accepted, context)
    if refusal is not None:
        return refusal
    # What keeps one component from starting keeps all.
    holds = max(request.flags & REQ_HOLD for request in requests)
    begin_us = max(request.begin_us for request in requests)
    leader = free_run(cluster, len(requests))
    script_hash, env_hash = digest_of(script), digest_of(environment)
    events: list[ev.AnyEvent] = []
    followers = pbs.Followers(cluster, context)
    for offset, checked in enumerate(accepted):
        request = checked.request
        request = msgspec.structs.replace(request, flags=request.flags | holds, begin_us=begin_us)
        decision = decide(
            cluster,
            msgspec.structs.replace(checked, request=request),
            context,
            script_hash,
            env_hash,
            het=(leader, offset),
        )
        events += decision.events
        followers.add(leader + offset, checked.dependencies, checked.pbs_words)
    ends = [event for event in events if isinstance(event, ev.JobEnded)]
    if ends:
        events = [event for event in events if not isinstance(event, ev.JobEnded)]
        events += [
            msgspec.structs.replace(ends[0], job_id=leader + offset)
            for offset in range(len(accepted))
        ]
    events += [] if ends else followers.events()
    return Decision(events=events, reply=JobAccepted(leader, followers.notes))


def _refused_together(
    cluster: Cluster, accepted: Sequence[Accepted], context: Context
) -> Reject | None:
    """Return why components, each of which is accepted, are too much together."""
    by_name = cluster.node_index.by_name
    named = [node_ids(checked.request.node_list, by_name) for checked in accepted]
    if len(frozenset[int]().union(*named)) < sum(map(len, named)):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)  # each has nodes of its own
    refusal = limits.check_together(
        cluster,
        ((checked.request, checked.partitions[0], checked.standing) for checked in accepted),
        context,
    )
    if refusal is not None:
        return refusal
    if sum(len(component.dependencies) for component in accepted) > dependency_text.MOST_TERMS:
        return dependency_text.TOO_MANY
    return queue_room.refusal(cluster, context, map(counted, accepted))


def free_run(cluster: Cluster, count: int) -> int:
    """Return the first of so many free job ids in a row."""
    first = free_job_id(cluster)
    length = 0
    while length < count:
        if first + length > cluster.max_job_id:
            first, length = cluster.first_job_id, 0
        if first + length in cluster.jobs:
            first, length = first + length + 1, 0
        else:
            length += 1
    return first


def check(
    cluster: Cluster, request: JobRequest, context: Context, *, components: int = 1
) -> Accepted | Reject:
    """Check a request and fill in what it leaves open; `--test-only` stops here.

    Args:
        components: how many the heterogeneous job has that this is one of: limits count them all.

    Of several QOS the job begins with the one of highest priority that takes it as it is.
    """
    if "," not in request.qos:
        return _check(cluster, request, context, components)
    choices = qos_choices(cluster, request.qos)
    if isinstance(choices, Reject):
        return choices
    first: Reject | None = None
    for qos in choices:
        with_qos = msgspec.structs.replace(request, qos=qos)
        checked = _check(cluster, with_qos, context, components)
        if isinstance(checked, Accepted):
            listed = msgspec.structs.replace(checked.request, qos=",".join(choices))
            return msgspec.structs.replace(checked, request=listed)
        first = first or checked
    return first or Reject(Errno.ESLURM_INVALID_QOS)


def _check(
    cluster: Cluster, request: JobRequest, context: Context, components: int
) -> Accepted | Reject:
    """Check a request that names one QOS or none."""
    caller, conf = context.caller, context.conf
    refusal = _check_caller(request, context)
    if refusal is not None:
        return refusal
    plugged = plugins.edited(cluster, request, conf.job_submit_plugins, context)
    if isinstance(plugged, Reject):
        return plugged
    request, words = pbs.edited(plugged, conf.job_submit_plugins)
    request = with_full_license_names(cluster, request, conf)
    names = check_names(cluster, request, conf)
    if isinstance(names, Reject):
        return names
    demanded = node_extra(request.extra, conf)
    if isinstance(demanded, Reject):
        return demanded
    if request.node_extra != demanded:
        request = msgspec.structs.replace(request, node_extra=demanded)
    standing = standing_of(cluster, request, names, context)
    if isinstance(standing, Reject):
        return standing
    with_label = mcs.labelled(request, standing.account, caller, conf)
    managed = with_step_manager(with_label, conf, components)
    if isinstance(managed, Reject):
        return managed
    request = managed
    refusal = check_requested(
        cluster,
        request.reservation,
        caller,
        standing.account,
        standing.qos,
        [qos.name for qos in names],
    )
    if refusal is not None:
        return refusal
    array = _array(cluster, request, context, components)
    if isinstance(array, Reject):
        return array
    request = _with_defaults(cluster, request, names[0], context)
    refusal = check_memory(request, names[0])
    if refusal is not None:
        return refusal
    as_opened = [opened(name, standing.qos_record) for name in names]
    times = time_limit(request, as_opened, context.now_us)
    if isinstance(times, Reject):
        return times
    if request.time_limit_min == NO_VAL and names[0].default_time_min == NO_VAL:
        # None was asked for, and the partition has none: limits on jobs say how long it runs.
        times = min(times, limits.longest_min(cluster, request, names, standing, context))
    if max(request.nodes_min, 1) < (request.nodes_max or request.ntasks):
        request = _with_fewer_nodes(cluster, request, names, standing, context)
    partitions = check_partitions(cluster, request, names, standing, times, context)
    if isinstance(partitions, Reject):
        return partitions
    terms = None
    if request.dependency:
        terms = dependency_text.parse_dependency(cluster, request.dependency)
    if isinstance(terms, Reject):
        return terms
    count = array.count if array is not None else components
    refusal = limits.check(cluster, request, partitions[0], standing, times, count, context)
    if refusal is not None:
        return refusal
    dependencies, is_any = terms or ((), False)
    return Accepted(request, partitions, standing, times, array, dependencies, is_any, words)


def _with_fewer_nodes(
    cluster: Cluster,
    request: JobRequest,
    partitions: Sequence[Partition],
    standing: Standing,
    context: Context,
) -> JobRequest:
    """Return a request for a range of nodes that ends where limits on jobs do."""
    most = limits.most_nodes(cluster, request, partitions, standing, context)
    if max(request.nodes_min, 1) <= most < (request.nodes_max or request.ntasks):
        return msgspec.structs.replace(request, nodes_max=most)
    return request


def refused_rights(request: JobRequest, context: Context) -> Reject | None:
    """Refuse what only operators and root may ask for, and jobs for other users."""
    caller = context.caller
    if request.uid not in (NO_VAL, caller.uid):
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if request.gid not in (NO_VAL, caller.gid) and not caller.is_admin:
        return Reject(Errno.ESLURM_GROUP_ID_MISSING)
    if request.nice < 0 and not caller.is_operator:
        return Reject(Errno.ESLURM_INVALID_NICE)
    if request.admin_comment and not caller.is_operator:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if request.flags & REQ_REBOOT and not caller.is_admin:
        detail = "rebooting of nodes is only allowed for admins"
        return Reject(Errno.ESLURM_ACCESS_DENIED, detail)
    return None


def _check_caller(request: JobRequest, context: Context) -> Reject | None:
    """Refuse what a user has no right to, unless scripts asked for it, and what is not here."""
    if not context.caller.user_name:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    refusal = None if context.caller.is_passed else refused_rights(request, context)
    if refusal is not None:
        return refusal
    if request.cron:
        return Reject(Errno.ESLURM_NOT_SUPPORTED, "cron: jobs of scrontab have it")
    if request.mail_user and not are_recipients(request.mail_user):
        return Reject(Errno.ESLURM_NOT_SUPPORTED, ADDRESSES)
    if request.burst_buffer and context.conf.burst_buffer_type not in ("", LUA):
        detail = f"--bb: BurstBufferType={context.conf.burst_buffer_type} is not supported yet"
        return Reject(Errno.ESLURM_NOT_SUPPORTED, detail)
    if request.flags & REQ_EXPEDITE and not has_option(
        context.conf.slurmctld_parameters, "enable_expedited_requeue"
    ):
        return Reject(Errno.ESLURM_DISABLED)
    return None


def _with_defaults(
    cluster: Cluster, request: JobRequest, partition: Partition, context: Context
) -> JobRequest:
    """Fill in what to do with a hopeless dependency, and apply bounds of the configuration."""
    if not context.caller.is_passed:
        request = with_own_priority(request, context.caller)
    wckey = wckey_of(cluster, request, context)
    if wckey != request.wckey:
        request = msgspec.structs.replace(request, wckey=wckey)
    if request.flags & REQ_REBOOT and context.conf.reboot_program:
        # A node boots when no other job is on it.
        request = msgspec.structs.replace(request, flags=request.flags | REQ_EXCLUSIVE)
    kills = "kill_invalid_depend" in context.conf.dependency_parameters
    either = REQ_KILL_INVALID_DEP | REQ_KEEP_INVALID_DEP
    if kills and not request.flags & either:
        request = msgspec.structs.replace(request, flags=request.flags | REQ_KILL_INVALID_DEP)
    request = _with_cpus_for_memory(
        cluster, request, partition, with_memory=selection(context.conf).with_memory
    )
    if "," in request.constraint or "," in request.prefer:
        request = msgspec.structs.replace(
            request,
            constraint=features.spelled(request.constraint),
            prefer=features.spelled(request.prefer),
        )
    if "*" in request.constraint:
        least = features.least_nodes(request.constraint)
        if request.nodes_min < least and not request.nodes_max:
            request = msgspec.structs.replace(request, nodes_min=least)
    words = context.conf.scheduler_parameters
    longest_line = option_int(words, "max_submit_line_size", _MAX_SUBMIT_LINE_BYTES)
    if len(request.submit_line) > longest_line:
        request = msgspec.structs.replace(request, submit_line=request.submit_line[:longest_line])
    if request.switches:
        wait_s = switches_wait_s(context.conf, request.switches_wait_s)
        request = msgspec.structs.replace(request, switches_wait_s=wait_s)
    return request


def _with_cpus_for_memory(
    cluster: Cluster, request: JobRequest, partition: Partition, *, with_memory: bool
) -> JobRequest:
    """Turn memory beyond MaxMemPerCPU into more CPUs, of each task or each node.

    A job that gets all memory of a node pays as on the node that costs most.
    """
    most = partition.max_mem_per_cpu_mib
    if not most:
        return request
    if request.mem_per_cpu_mib > most:
        factor = -(-request.mem_per_cpu_mib // most)
        return msgspec.structs.replace(
            request,
            cpus_per_task=max(1, request.cpus_per_task) * factor,
            mem_per_cpu_mib=-(-request.mem_per_cpu_mib // factor),
        )
    sizes = job_sizes(request, partition)
    cpus = -(-sizes.mem_per_node_mib // most)
    if sizes.mem_whole_node and (with_memory or request.flags & REQ_MEM_SET):
        cpus = cpus_for_all_memory(cluster, partition, most)
    return msgspec.structs.replace(request, mincpus=max(request.mincpus, cpus))


def _array(
    cluster: Cluster, request: JobRequest, context: Context, components: int
) -> JobArray | Reject | None:
    """Read the array and see whether its tasks fit into the job table."""
    conf = context.conf
    array = None
    if request.array:
        try:
            array = parse_array(request.array, conf.max_array_size)
        except ArrayError:
            return Reject(Errno.ESLURM_INVALID_ARRAY)
        if array.count > option_int(
            conf.scheduler_parameters, "max_array_tasks", conf.max_array_size
        ):
            return Reject(Errno.ESLURM_INVALID_ARRAY)
    more = array.count if array is not None else components
    refusal = job_count.refusal(cluster, more, context)
    return array if refusal is None else refusal


def decide(
    cluster: Cluster,
    accepted: Accepted,
    context: Context,
    script_hash: str,
    env_hash: str,
    *,
    het: tuple[int, int] = (0, 0),
    job_id: int = 0,
) -> Decision:
    """Return the events of an accepted job and the reply that names it.

    Args:
        het: of a component, its leader's id and its place; ids follow one another.
        job_id: of one of several jobs; 0 for the next free one.
    """
    request, caller, now_us = accepted.request, context.caller, context.now_us
    job_id = job_id or sum(het) or free_job_id(cluster)
    request = pbs.with_output(request, job_id, context.conf.job_submit_plugins)
    begin_us = request.begin_us if request.begin_us > now_us else 0
    probe = _probe(accepted, context, job_id, begin_us)
    terms, is_never = dependency.judge(cluster, probe, dependency.Ends(), now_us)
    is_held = bool(request.flags & REQ_HOLD) or request.priority == 0
    reason = Reason.BeginTime if begin_us else Reason.NONE
    if terms or is_never:
        reason = Reason.DependencyNeverSatisfied if is_never else Reason.Dependency
    if is_held:
        reason = Reason.JobHeldUser
    submitted = ev.JobSubmitted(
        time_us=now_us,
        job_id=job_id,
        request=request,
        uid=caller.uid,
        gid=request.gid if request.gid != NO_VAL else caller.gid,
        user_name=caller.user_name,
        group_name=caller.group_name,
        account=accepted.standing.account,
        qos=accepted.standing.qos,
        assoc_id=accepted.standing.assoc_id,
        partition=",".join(partition.name for partition in accepted.partitions),
        time_limit_min=accepted.time_limit_min,
        script_hash=script_hash,
        env_hash=env_hash,
        reason=int(reason),
        priority=0 if is_held else request.priority,
        begin_us=begin_us,
        eligible_us=0 if terms or begin_us or is_held else now_us,
        array_pending=accepted.array.ranges if accepted.array is not None else (),
        array_limit=accepted.array.limit if accepted.array is not None else 0,
        array_count=accepted.array.count if accepted.array is not None else 0,
        dependencies=terms,
        dependency_any=accepted.dependency_any,
        requeue=bool(script_hash) and _may_requeue(request, context),
        alloc_host=request.alloc_node or caller.host,
        het_job_id=het[0],
        het_offset=het[1],
    )
    events: list[ev.AnyEvent] = [submitted, *new_buffer(request, job_id, context)]
    if is_never and request.flags & REQ_KILL_INVALID_DEP:
        events.append(dependency.never(job_id, now_us))
    elif terms and probe.array_pending:
        # Of an array that this one follows task by task, some may be over already.
        probe.dependencies = terms
        ends = dependency.Ends(taken={job_id})
        events += dependency.settle(cluster, probe, ends, now_us, None)
    if het[0] or isinstance(events[-1], ev.JobEnded):
        return Decision(events, JobAccepted(job_id, [*accepted.pbs_words.discarded]))
    followers = pbs.Followers(cluster, context)
    followers.add(job_id, terms, accepted.pbs_words)
    return Decision([*events, *followers.events()], JobAccepted(job_id, followers.notes))


def _may_requeue(request: JobRequest, context: Context) -> bool:
    if request.flags & (REQ_REQUEUE | REQ_NO_REQUEUE):
        return bool(request.flags & REQ_REQUEUE)
    return context.conf.job_requeue


def as_pending(cluster: Cluster, accepted: Accepted, context: Context) -> Job:
    """Return the job that an accepted request would be, eligible at once unless it has to wait."""
    begin_us = accepted.request.begin_us if accepted.request.begin_us > context.now_us else 0
    job = _probe(accepted, context, free_job_id(cluster), begin_us)
    job.partition = ",".join(partition.name for partition in accepted.partitions)
    job.priority, job.nice = accepted.request.priority, accepted.request.nice
    job.array_limit = accepted.array.limit if accepted.array is not None else 0
    if not (begin_us or accepted.dependencies):
        job.eligible_us = job.accrue_us = context.now_us
    return job


def _probe(accepted: Accepted, context: Context, job_id: int, begin_us: int) -> Job:
    """Return the job as far as what its dependencies mean for it needs that."""
    array = accepted.array
    return Job(
        job_id=job_id,
        request=accepted.request,
        uid=context.caller.uid,
        gid=context.caller.gid,
        user_name=context.caller.user_name,
        group_name=context.caller.group_name,
        submit_us=context.now_us,
        account=accepted.standing.account,
        qos=accepted.standing.qos,
        assoc_id=accepted.standing.assoc_id,
        partition=accepted.partitions[0].name,
        time_limit_min=min(accepted.time_limit_min, INFINITE),
        begin_us=begin_us,
        array_job_id=job_id if array is not None else 0,
        array_pending=array.ranges if array is not None else (),
        dependencies=accepted.dependencies,
        dependency_any=accepted.dependency_any,
    )


__all__ = [
    "Accepted",
    "allocate_job",
    "as_pending",
    "check",
    "counted",
    "decide",
    "digest_of",
    "free_run",
    "refused_rights",
    "script_limit",
    "submit_job",
]
