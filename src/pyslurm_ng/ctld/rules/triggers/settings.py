"""strigger --set and --clear: who may have which triggers.

The program runs as the user who set the trigger, so slurmctld must be able to become that user:
unless it runs as root it takes triggers of SlurmUser only. Source: the manual's page of strigger,
and of slurm.conf about allow_user_triggers.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.job_filter import find_jobs
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import TERMINAL_STATES
from pyslurm_ng.model.trigger import JOB_EVENTS, TRIGGER_EVENTS, Trigger
from pyslurm_ng.wire.trigger_messages import ClearTriggers, SetTrigger

MOST_OF_A_USER = 1_000
"""Every event is compared with all of them, which takes some milliseconds."""
MOST = 10_000
MOST_NODES_OF_A_USER = 65_536
"""Of all lists of nodes of a user's triggers: each name takes time when something happens."""
_ROOT = ("root", "0")


def set_trigger(cluster: Cluster, request: SetTrigger, context: Context) -> Decision | Reject:
    """Keep a trigger."""
    caller = context.caller
    if has_option(context.conf.slurmctld_parameters, "disable_triggers"):
        return Reject(Errno.ESLURM_DISABLED)
    if not _may_set(context.conf, caller):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if not request.program.startswith("/") or not request.program.isprintable():
        return Reject(Errno.ESLURM_NOT_SUPPORTED, "program: a path from / on is allowed")
    job_id = _job_of(cluster, request, caller)
    if isinstance(job_id, Reject):
        return job_id
    nodes = _nodes_of(cluster, request)
    if isinstance(nodes, Reject):
        return nodes
    trigger = Trigger(
        trigger_id=cluster.last_trigger_id + 1,
        uid=caller.uid,
        gid=caller.gid,
        user_name=caller.user_name,
        program=request.program,
        events=tuple(name for name in TRIGGER_EVENTS if name in request.events),
        job_id=job_id,
        nodes=nodes,
        offset_s=request.offset_s,
        is_permanent=request.is_permanent,
    )
    wish = trigger.wish()
    if any(known.wish() == wish for known in cluster.triggers.values()):
        return Reject(Errno.ESLURM_TRIGGER_DUP)
    own_count = sum(known.uid == caller.uid for known in cluster.triggers.values())
    if own_count >= MOST_OF_A_USER or len(cluster.triggers) >= MOST:
        most = MOST_OF_A_USER if own_count >= MOST_OF_A_USER else MOST
        why = f"there are {most} triggers already; some of them must be cleared first"
        return Reject(Errno.ESLURM_ACCOUNTING_POLICY, why)
    if not caller.is_admin and _name_too_many_nodes(cluster, trigger):
        why = (
            f"nodes: {MOST_NODES_OF_A_USER} are allowed in all triggers of a user; "
            "some of them must be cleared first"
        )
        return Reject(Errno.ESLURM_ACCOUNTING_POLICY, why)
    return Decision([ev.TriggerSet(context.now_us, trigger)])


def _name_too_many_nodes(cluster: Cluster, new: Trigger) -> bool:
    """Return whether too many nodes are looked at for a user's triggers, with a new one."""
    count = _nodes_looked_at(cluster, new)
    if not count:
        return False
    for known in cluster.triggers.values():
        if known.uid == new.uid:
            count += _nodes_looked_at(cluster, known)
            if count > MOST_NODES_OF_A_USER:
                return True
    return count > MOST_NODES_OF_A_USER


def _nodes_looked_at(cluster: Cluster, trigger: Trigger) -> int:
    """Return how many names a trigger is compared with; all nodes are compared for all at once."""
    if trigger.nodes:
        return len(hostlist.expand(trigger.nodes))
    return len(cluster.nodes) if "idle" in trigger.events and not trigger.job_id else 0


def _may_set(conf: SlurmConf, caller: Caller) -> bool:
    """Return whether slurmctld may run programs as the caller."""
    is_slurm_user = conf.slurm_user in (caller.user_name, str(caller.uid))
    if conf.slurm_user not in _ROOT:
        return is_slurm_user
    return is_slurm_user or has_option(conf.slurmctld_parameters, "allow_user_triggers")


def _job_of(cluster: Cluster, request: SetTrigger, caller: Caller) -> int | Reject:
    """Return the id of the job that a trigger is about, 0 if it is about none."""
    if not request.job:
        lonely = any(name in JOB_EVENTS for name in request.events)
        return Reject(Errno.ESLURM_INVALID_JOB_ID) if lonely else 0
    parts = find_jobs(cluster, request.job)
    if not parts:
        return Reject(Errno.ESLURM_INVALID_JOB_ID)
    living = [part for part in parts if part[0].state not in TERMINAL_STATES]
    if not living:
        return Reject(Errno.ESLURM_ALREADY_DONE)
    if len(living) > 1 or living[0][1]:
        why = f"{request.job}: a trigger is about one job, not about waiting tasks of an array"
        return Reject(Errno.ESLURM_NOT_SUPPORTED, why)
    job, _ = living[0]
    return job.job_id if may_change(cluster, job, caller) else Reject(Errno.ESLURM_ACCESS_DENIED)


def _nodes_of(cluster: Cluster, request: SetTrigger) -> str | Reject:
    """Return the nodes that a trigger is about, as they were typed; "" for all."""
    if request.job or not request.nodes:
        return ""
    try:
        names = hostlist.expand_of_user(request.nodes, len(cluster.nodes))
    except hostlist.HostlistError:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    if not all(name in cluster.node_index.by_name for name in names):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return request.nodes


def clear_triggers(cluster: Cluster, request: ClearTriggers, context: Context) -> Decision | Reject:
    """Delete the triggers that agree with everything that the request names."""
    caller = context.caller
    matching = [trigger for trigger in cluster.triggers.values() if _is_named(trigger, request)]
    if not matching:
        return Reject(Errno.ESRCH)
    if not caller.is_admin and any(trigger.uid != caller.uid for trigger in matching):
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    return Decision([_cleared(matching, context.now_us)])


def _is_named(trigger: Trigger, request: ClearTriggers) -> bool:
    return (
        request.trigger_id in (0, trigger.trigger_id)
        and request.job_id in (0, trigger.job_id)
        and request.uid in (-1, trigger.uid)
    )


def _cleared(triggers: Iterable[Trigger], now_us: int) -> ev.TriggersCleared:
    return ev.TriggersCleared(now_us, tuple(trigger.trigger_id for trigger in triggers))
