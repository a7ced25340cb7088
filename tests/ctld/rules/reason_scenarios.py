"""Every reason code: the smallest scenario in which it arises, or why it cannot here.

A scenario ends with a job that shows its reason. Waiting jobs must also have a sentence with it.
"""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.base.numbers import (
    END_LOST,
    END_OUT_OF_MEMORY,
    HOUR_US,
    MINUTE_US,
    REQ_EXCLUSIVE,
    REQ_HOLD,
)
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.ends import requeue
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs, requeue_jobs
from pyslurm_ng.ctld.rules.steps.steps import end_inactive
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.cluster import RUNS_PROLOG
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.sched.limits.reasons import tres_reason
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import HoldJobs, RequeueJobs
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.reservations import ReservationSite

ID = bytes(16)


# Waiting for others ---------------------------------------------------------------------------


def full(scene: ReservationSite) -> None:
    """Let all nodes be in use for an hour."""
    scene.running(BOB, nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)


def resources(scene: ReservationSite) -> Job:
    full(scene)
    return scene.waiting()


def priority(scene: ReservationSite) -> Job:
    resources(scene)
    return scene.waiting()


def dependency(scene: ReservationSite) -> Job:
    first = scene.running()
    return scene.waiting(dependency=f"afterok:{first.job_id}")


def never_satisfied(scene: ReservationSite) -> Job:
    first = scene.running()
    second = scene.waiting(dependency=f"afterok:{first.job_id}")
    scene.ended(first, 1 << 8)
    return second


def begin_time(scene: ReservationSite) -> Job:
    return scene.waiting(begin_us=scene.now_us + HOUR_US)


def held_by_user(scene: ReservationSite) -> Job:
    return scene.waiting(flags=REQ_HOLD)


def held_by_admin(scene: ReservationSite) -> Job:
    full(scene)
    job = scene.waiting()
    outcome = hold_jobs(scene.cluster, HoldJobs(ID, [str(job.job_id)]), scene.context(ROOT))
    scene.apply(list(outcome.events))  # type: ignore[union-attr]
    return job


def licenses(scene: ReservationSite) -> Job:
    scene.apply([ev.LicensesUpdated(scene.now_us, (("matlab", 1),))])
    scene.running(licenses="matlab:1")
    return scene.waiting(licenses="matlab:1")


def array_limit(scene: ReservationSite) -> Job:
    return scene.waiting(array="0-3%1")


def buffer_in(state: BufferState) -> Callable[[ReservationSite], Job]:
    def scenario(scene: ReservationSite) -> Job:
        full(scene)
        job = scene.waiting(burst_buffer="#BB_LUA pool=fast capacity=3")
        buffer = Buffer(job.job_id, state, pool="fast", size=3)
        scene.apply([ev.BufferChanged(scene.now_us, job.job_id, buffer)])
        return job

    return scenario


def cleaning(scene: ReservationSite) -> Job:
    job = scene.running()
    outcome = requeue_jobs(scene.cluster, RequeueJobs(ID, [str(job.job_id)]), scene.context(ROOT))
    scene.apply(list(outcome.events))  # type: ignore[union-attr]
    return job


def max_requeue(scene: ReservationSite) -> Job:
    job = scene.running()
    job.launch_failures = 5
    flags = JobFlag.REQUEUED | JobFlag.LAUNCH_FAILED
    duty_id = scene.cluster.next_duty_id
    over = ev.JobCompleting(scene.now_us, job.job_id, JobState.FAILED, 1, 0, duty_id, (), flags)
    again = requeue.requeued(job, flags, scene.now_us, requeue.requeue_rules(scene.conf))
    scene.apply([over, again])
    return job


# Nodes, partitions, reservations --------------------------------------------------------------


def node_fields(scene: ReservationSite, name: str, **fields: object) -> None:
    node_id = scene.cluster.node_index.by_name[name]
    scene.apply([ev.NodeUpdated(scene.now_us, (node_id,), fields)])


def down(scene: ReservationSite, name: str) -> None:
    node_id = scene.cluster.node_index.by_name[name]
    scene.apply(nodes_down(scene.cluster, (node_id,), "fan", scene.now_us))


def nodes_away(scene: ReservationSite) -> Job:
    down(scene, "n4")
    return scene.waiting(nodes_min=4, nodes_max=4)


def node_not_available(scene: ReservationSite) -> Job:
    down(scene, "n4")
    return scene.waiting(node_list="n4")


def maintenance(scene: ReservationSite) -> Job:
    scene.make(nodes="ALL", starttime=scene.now_us + HOUR_US, flags="MAINT,IGNORE_JOBS")
    return scene.waiting(BOB, time_limit_min=90)


def reserved_for_others(scene: ReservationSite) -> Job:
    scene.make(nodes="ALL", starttime=scene.now_us + HOUR_US, flags="IGNORE_JOBS")
    return scene.waiting(BOB, time_limit_min=90)


def reservation(scene: ReservationSite) -> Job:
    scene.make(nodes="ALL", starttime=scene.now_us + HOUR_US, flags="IGNORE_JOBS")
    return scene.waiting(ALICE, reservation="r", time_limit_min=10)


def reservation_deleted(scene: ReservationSite) -> Job:
    job = reservation(scene)
    assert scene.delete("r") == 0
    return job


def partition_state(state: str) -> Callable[[ReservationSite], Job]:
    def scenario(scene: ReservationSite) -> Job:
        full(scene)
        job = scene.waiting()
        partition = scene.cluster.partitions["main"]
        scene.apply([ev.PartitionUpdated(scene.now_us, changed(partition, state=state))])
        scene.run_pass()
        return job

    return scenario


def changed(record: object, **fields: object) -> object:
    from msgspec.structs import replace as with_fields

    return with_fields(record, **fields)  # type: ignore[type-var]


def in_partition(request: dict[str, object], **fields: object) -> Callable[[ReservationSite], Job]:
    def scenario(scene: ReservationSite) -> Job:
        partition = scene.cluster.partitions["main"]
        scene.apply([ev.PartitionUpdated(scene.now_us, changed(partition, **fields))])
        return scene.waiting(**request)

    return scenario


def bad_constraints(scene: ReservationSite) -> Job:
    full(scene)
    job = scene.waiting(constraint="gpunode")
    for name in ("n1", "n2"):
        node_fields(scene, name, features=(), features_active=())
    scene.run_pass()
    return job


def constraints(scene: ReservationSite) -> Job:
    full(scene)
    job = scene.waiting(constraint="gpunode")
    for name in ("n1", "n2"):
        node_fields(scene, name, features_active=())
    scene.run_pass()
    return job


def topology_unit(scene: ReservationSite) -> Job:
    blocks = parse_topology_conf("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\n")
    scene.apply(configure(scene.cluster, scene.conf, scene.now_us, [blocks]))
    for name in ("n1", "n3"):
        scene.running(BOB, node_list=name, flags=REQ_EXCLUSIVE, time_limit_min=60)
    return scene.waiting(nodes_min=2, nodes_max=2, segment=2, flags=REQ_EXCLUSIVE)


# Accounts -------------------------------------------------------------------------------------

ENFORCED = (
    "AccountingStorageEnforce=limits,qos,safe\nAccountingStorageType=accounting_storage/slurmdbd"
)


def invalid_account(scene: ReservationSite) -> Job:
    scene.account()
    full_of_alice(scene)
    job = scene.waiting()
    scene.apply([ev.AssocChanged(scene.now_us, removed=(3,), version=2)])
    scene.run_pass()
    return job


def full_of_alice(scene: ReservationSite) -> None:
    scene.running(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)


def invalid_qos(scene: ReservationSite) -> Job:
    scene.account()
    full_of_alice(scene)
    job = scene.waiting(qos="late")
    scene.apply([ev.QosChanged(scene.now_us, removed=("late",))])
    scene.run_pass()
    return job


# Jobs that are over ---------------------------------------------------------------------------


def with_status(status: int, flags: int = 0) -> Callable[[ReservationSite], Job]:
    return lambda scene: scene.ended(scene.running(), status, flags)


def time_limit(scene: ReservationSite) -> Job:
    job = scene.running(time_limit_min=1)
    scene.now_us += 2 * MINUTE_US
    scene.apply(timers.due(scene.cluster, scene.conf, {}, scene.now_us))
    return job


def inactive(scene: ReservationSite) -> Job:
    """The command of an allocation has gone."""
    job = scene.running()
    scene.apply(end_inactive(scene.cluster, job, scene.now_us))
    return job


def deadline(scene: ReservationSite) -> Job:
    full(scene)
    job = scene.waiting(time_limit_min=10, deadline_us=scene.now_us + 30 * MINUTE_US)
    assert scene.shown(job)[0] == "DeadLine"
    scene.now_us += 25 * MINUTE_US
    for _ in range(8):
        scene.now_us += 1_000_000
        scene.apply(timers.due(scene.cluster, scene.conf, {}, scene.now_us))
    return job


def prolog(scene: ReservationSite) -> Job:
    """The controller's own program runs for a job that has its nodes."""
    scene.cluster.programs = RUNS_PROLOG
    return scene.running()


def node_down(scene: ReservationSite) -> Job:
    job = scene.running()
    job.requeue = False
    name = scene.cluster.node(job.batch_node_id).spec.name
    down(scene, name)
    return job


def launch_failed(scene: ReservationSite) -> Job:
    job = scene.running()
    (duty,) = scene.cluster.duties[job.batch_node_id].values()
    report = nm.LaunchFailed(job.job_id, 0, duty.duty_id, 4022, "/p: exit code 1", "Prolog error")
    judged = reports.judge(scene.cluster, job.batch_node_id, report, scene.conf, scene.now_us)
    scene.apply(judged)
    (duty,) = scene.cluster.duties[job.batch_node_id].values()
    done = nm.JobTerminated(job.job_id, 0, duty.duty_id)
    scene.apply(reports.judge(scene.cluster, job.batch_node_id, done, scene.conf, scene.now_us))
    return job


def lost(scene: ReservationSite) -> Job:
    """Its node was restarted and knows nothing of it."""
    job = scene.running()
    job.requeue = False
    return scene.ended(job, 0, END_LOST)


# Limits ---------------------------------------------------------------------------------------


def limited(
    own: Limits | None = None, quality: Limits | None = None
) -> Callable[[ReservationSite], Job]:
    def scenario(scene: ReservationSite) -> Job:
        scene.account(own, quality)
        # Nodes that jobs share count once, so these take whole ones.
        limits = own or quality
        is_whole = limits is not None and "node" in (limits.grp_tres | limits.max_tres_per_user)
        flags = REQ_EXCLUSIVE if is_whole else 0
        scene.running(gres="gpu:1", mem_per_node_mib=1000, flags=flags)
        return scene.waiting(gres="gpu:1", mem_per_node_mib=1000, flags=flags)

    return scenario


def of_user(**limits: object) -> Callable[[ReservationSite], Job]:
    return limited(own=Limits(**limits))  # type: ignore[arg-type]


def of_qos(**limits: object) -> Callable[[ReservationSite], Job]:
    return limited(quality=Limits(**limits))  # type: ignore[arg-type]


def too_much(
    own: Limits | None = None, quality: Limits | None = None
) -> Callable[[ReservationSite], Job]:
    """A job that alone is beyond a limit."""

    def scenario(scene: ReservationSite) -> Job:
        scene.account(own, quality)
        return scene.waiting(
            gres="gpu:2", mem_per_node_mib=2000, nodes_min=2, nodes_max=2, time_limit_min=60
        )

    return scenario


def alone_of_user(**limits: object) -> Callable[[ReservationSite], Job]:
    return too_much(own=Limits(**limits))  # type: ignore[arg-type]


def alone_of_qos(**limits: object) -> Callable[[ReservationSite], Job]:
    return too_much(quality=Limits(**limits))  # type: ignore[arg-type]


GPU = "gres/gpu"
LIMITS: dict[Reason, Callable[[ReservationSite], Job]] = {
    Reason.AssocMaxJobsLimit: of_user(max_jobs=1),
    Reason.AssocGrpJobsLimit: of_user(grp_jobs=1),
    Reason.AssocGrpCpuLimit: of_user(grp_tres={"cpu": 1}),
    Reason.AssocGrpMemLimit: of_user(grp_tres={"mem": 1500}),
    Reason.AssocGrpNodeLimit: of_user(grp_tres={"node": 1}),
    Reason.AssocGrpGRES: of_user(grp_tres={GPU: 1}),
    Reason.AssocMaxCpuPerJobLimit: alone_of_user(max_tres_per_job={"cpu": 1}),
    Reason.AssocMaxMemPerJob: alone_of_user(max_tres_per_job={"mem": 1000}),
    Reason.AssocMaxNodePerJobLimit: alone_of_user(max_tres_per_job={"node": 1}),
    Reason.AssocMaxGRESPerJob: alone_of_user(max_tres_per_job={GPU: 1}),
    Reason.AssocMaxWallDurationPerJobLimit: alone_of_user(max_wall_min=30),
    Reason.QOSGrpJobsLimit: of_qos(grp_jobs=1),
    Reason.QOSGrpCpuLimit: of_qos(grp_tres={"cpu": 1}),
    Reason.QOSGrpMemLimit: of_qos(grp_tres={"mem": 1500}),
    Reason.QOSGrpNodeLimit: of_qos(grp_tres={"node": 1}),
    Reason.QOSGrpGRES: of_qos(grp_tres={GPU: 1}),
    Reason.QOSMaxJobsPerUserLimit: of_qos(max_jobs=1),
    Reason.QOSMaxCpuPerUserLimit: of_qos(max_tres_per_user={"cpu": 1}),
    Reason.QOSMaxMemoryPerUser: of_qos(max_tres_per_user={"mem": 1500}),
    Reason.QOSMaxNodePerUserLimit: of_qos(max_tres_per_user={"node": 1}),
    Reason.QOSMaxGRESPerUser: of_qos(max_tres_per_user={GPU: 1}),
    Reason.QOSMaxCpuPerJobLimit: alone_of_qos(max_tres_per_job={"cpu": 1}),
    Reason.QOSMaxMemoryPerJob: alone_of_qos(max_tres_per_job={"mem": 1000}),
    Reason.QOSMaxNodePerJobLimit: alone_of_qos(max_tres_per_job={"node": 1}),
    Reason.QOSMaxGRESPerJob: alone_of_qos(max_tres_per_job={GPU: 1}),
    Reason.QOSMaxWallDurationPerJobLimit: alone_of_qos(max_wall_min=30),
}

# What one job asks here, and one less than it: of each TRES that jobs can ask for.
ASKED = {"cpu": 2, "mem": 4000, "node": 2, GPU: 4, "license/matlab": 2, "billing": 2}
KINDS = {
    "group": ("grp_tres", 1),
    "group minutes": ("grp_tres_mins", 60),
    "group run minutes": ("grp_tres_run_mins", 60),
    "job": ("max_tres_per_job", 1),
    "job minutes": ("max_tres_mins_per_job", 60),
    "node": ("max_tres_per_node", 0),
}
QOS_KINDS = {
    "user": ("max_tres_per_user", 1),
    "user run minutes": ("max_tres_run_mins", 60),
    "account": ("max_tres_per_account", 1),
    "account run minutes": ("max_tres_run_mins_per_account", 60),
}


def greedy(
    own: Limits | None = None, quality: Limits | None = None
) -> Callable[[ReservationSite], Job]:
    """A job for an hour that asks for a little of everything, more than a limit allows."""

    def scenario(scene: ReservationSite) -> Job:
        scene.apply([ev.LicensesUpdated(scene.now_us, (("matlab", 4),))])
        scene.account(own, quality)
        return scene.waiting(
            nodes_min=2, nodes_max=2, ntasks=2, mem_per_node_mib=2000, gres="gpu:2",
            licenses="matlab:2", time_limit_min=60,
        )  # fmt: skip

    return scenario


for _kind, (_field, _times) in (KINDS | QOS_KINDS).items():
    for _tres, _amount in ASKED.items():
        _most = Limits(**{_field: {_tres: max(0, _amount * _times - 1)}})  # type: ignore[arg-type]
        if _kind in KINDS:
            LIMITS.setdefault(tres_reason(_kind, "Assoc", _tres), greedy(own=_most))
        LIMITS.setdefault(tres_reason(_kind, "QOS", _tres), greedy(quality=_most))
for _tres, _amount in ASKED.items():
    _least = Limits(min_tres_per_job={_tres: _amount + 1})
    LIMITS[tres_reason("least", "QOS", _tres)] = greedy(quality=_least)


def wall_used(
    own: Limits | None = None, quality: Limits | None = None
) -> Callable[[ReservationSite], Job]:
    """Jobs of the group have run for long enough."""

    def scenario(scene: ReservationSite) -> Job:
        scene.account(own, quality)
        scene.running(time_limit_min=60)
        scene.now_us += 5 * MINUTE_US
        return scene.waiting(time_limit_min=60)

    return scenario


def below_threshold(scene: ReservationSite) -> Job:
    scene.account()
    flags = ("EnforceUsageThreshold",)
    quality = Qos(1, "normal", flags=flags, usage_threshold_millionths=250_000)
    scene.apply([ev.QosChanged(scene.now_us, (quality,))])
    scene.fairshare = {3: 0.125}
    return scene.waiting()


LIMITS |= {
    Reason.AssocGrpWallLimit: wall_used(own=Limits(grp_wall_min=5)),
    Reason.QOSGrpWallLimit: wall_used(quality=Limits(grp_wall_min=5)),
    Reason.MaxJobsPerAccount: of_qos(max_jobs_per_account=1),
    Reason.QOSUsageThreshold: below_threshold,
}

ARISE: dict[Reason, Callable[[ReservationSite], Job]] = {
    Reason.NONE: lambda scene: scene.running(),
    Reason.Priority: priority,
    Reason.Dependency: dependency,
    Reason.Resources: resources,
    Reason.PartitionNodeLimit: in_partition({"nodes_min": 3, "nodes_max": 3}, max_nodes=2),
    Reason.PartitionTimeLimit: in_partition({"time_limit_min": 90}, max_time_min=60),
    Reason.PartitionDown: partition_state("DOWN"),
    Reason.PartitionInactive: partition_state("INACTIVE"),
    Reason.PartitionConfig: in_partition({"ntasks": 65}),
    Reason.MaxMemPerLimit: in_partition({"mem_per_node_mib": 900}, max_mem_per_node_mib=800),
    Reason.JobHeldAdmin: held_by_admin,
    Reason.JobHeldUser: held_by_user,
    Reason.BeginTime: begin_time,
    Reason.Licenses: licenses,
    Reason.BurstBufferResources: buffer_in(BufferState.PENDING),
    Reason.BurstBufferStageIn: buffer_in(BufferState.STAGING_IN),
    Reason.Reservation: reservation,
    Reason.ReservationDeleted: reservation_deleted,
    Reason.ReqNodeNotAvail: node_not_available,
    Reason.BadConstraints: bad_constraints,
    Reason.Constraints: constraints,
    Reason.No_suitable_topology_unit_found: topology_unit,
    Reason.InvalidAccount: invalid_account,
    Reason.InvalidQOS: invalid_qos,
    Reason.AccountNotAllowed: in_partition({}, allow_accounts=("chemistry",)),
    Reason.QOSNotAllowed: in_partition({}, allow_qos=("urgent",)),
    Reason.DependencyNeverSatisfied: never_satisfied,
    Reason.JobHoldMaxRequeue: max_requeue,
    Reason.JobArrayTaskLimit: array_limit,
    Reason.Cleaning: cleaning,
    Reason.Prolog: prolog,
    Reason.NodeDown: node_down,
    Reason.JobLaunchFailure: lost,
    Reason.NonZeroExitCode: with_status(1 << 8),
    Reason.RaisedSignal: with_status(11),
    Reason.OutOfMemory: with_status(125, END_OUT_OF_MEMORY),
    Reason.TimeLimit: time_limit,
    Reason.InactiveLimit: inactive,
    Reason.DeadLine: deadline,
}
_VAGUE = "a limit is always named by its own code, never by a word for many"
_ENERGY = "jobs ask for no energy, so nothing can be held back for it"
_ROOM = "room of burst buffers is no TRES here"
_UNKNOWN = "limits of TRES that nobody knows are refused by sacctmgr"
_SUBMIT = "refused at submission; what waits has been counted already"
CANNOT: dict[Reason, str] = {
    Reason.AssociationJobLimit: _VAGUE,
    Reason.AssociationResourceLimit: _VAGUE,
    Reason.AssociationTimeLimit: _VAGUE,
    Reason.QOSJobLimit: _VAGUE,
    Reason.QOSResourceLimit: _VAGUE,
    Reason.QOSTimeLimit: _VAGUE,
    Reason.AccountingPolicy: _VAGUE,
    Reason.SchedDefer: "passes never run inside a submission, so there is nothing to defer",
    Reason.NvidiaImexChannels: "SwitchType has no effect, so no channels are given out",
    Reason.MpiPortsBusy: "ports are given to steps: a step that finds none is refused",
    Reason.FedJobLock: "there are no federations: such options are refused",
    Reason.MaxPoweredUpNodes: "nodes are not powered up and down: those keys have no effect",
    Reason.SystemFailure: "a controller that cannot write stops; nothing unwritten has happened",
    Reason.ReservationInvalid: "a reservation that is gone is ReservationDeleted, others wait",
    Reason.BurstBufferOperation: "of the plugin for Cray's burst buffers",
    Reason.AssocMaxSubmitJobLimit: _SUBMIT,
    Reason.AssocGrpSubmitJobsLimit: _SUBMIT,
    Reason.QOSGrpSubmitJobsLimit: _SUBMIT,
    Reason.QOSMaxSubmitJobPerUserLimit: _SUBMIT,
    Reason.MaxSubmitJobsPerAccount: _SUBMIT,
}
for _reason in Reason:
    for _word, _why in (("Energy", _ENERGY), ("BB", _ROOM), ("Unknown", _UNKNOWN)):
        # A TRES without a code of its own for some kind of limit counts as unknown there.
        if _word in _reason.name and _reason not in LIMITS:
            CANNOT[_reason] = _why

SHOWN = {
    nodes_away: (
        "Resources",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
    ),
    node_not_available: ("ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n4"),
    maintenance: ("ReqNodeNotAvail", "ReqNodeNotAvail, Reserved for maintenance"),
    reserved_for_others: ("ReqNodeNotAvail", "ReqNodeNotAvail, May be reserved for other job"),
    launch_failed: ("JobHeldAdmin", "launch failed requeued held"),
}
"""Slurm 22.05's words, recorded."""
