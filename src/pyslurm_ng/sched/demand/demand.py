"""Demands: requests of one shape, with one limit, in one partition, judged once for all their jobs.

Most jobs of a queue are alike. What follows from request, partition and nodes alone is worked out
once per shape and kept from pass to pass, as long as nodes and partitions stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import (
    MINUTE_US,
    NO_VAL,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_USER,
    REQ_MEM_SET,
)
from pyslurm_ng.base.units import plural
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import schedulable_mem_mib
from pyslurm_ng.model.partition import Partition, opened, opens
from pyslurm_ng.model.sizes import job_sizes, mem_of_node_mib
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.features import suits
from pyslurm_ng.sched.request.need import Need, need_of, placing
from pyslurm_ng.sched.request.sharing import NOBODY, TOPO, USER, Tenant, tenant_of

_MOST_SHORTER = 256
# Products of two such numbers, as tasks and CPUs of each, are within 64 bits.
_MOST_COUNTED = 1 << 32
_counts_of = attrgetter(
    "nodes_min", "nodes_max", "tasks", "cpus_per_task", "tasks_per_node", "tasks_per_core",
    "threads_per_core", "cpus_min_per_node", "mem_per_node_mib", "mem_per_cpu_mib",
    "mem_per_gpu_mib", "tmp_mib", "segment", "switches", "sockets_min", "cores_per_socket_min",
    "threads_per_core_min", "real_memory_min_mib", "tasks_per_socket", "special_cores",
    "special_threads", "tasks_per_gpu", "cpus_per_gpu",
)  # fmt: skip
_OWNED = REQ_EXCLUSIVE_USER | REQ_EXCLUSIVE_MCS


class Demand:
    """What every job of one kind needs, and how far the present pass has looked for room.

    `mask` has a byte per node, 1 where the node is in service and suits the request. A job that
    cannot run as things are has `verdict`. The rest is the planner's, and valid in pass `stamp`.
    """

    __slots__ = (
        "apart",
        "duration_us",
        "index",
        "is_elastic",
        "is_judged",
        "is_plain",
        "kind",
        "kinds_amounts",
        "lasting_wait",
        "licenses",
        "limit_min",
        "loose",
        "mask",
        "need",
        "partition",
        "pool",
        "shorter",
        "stamp",
        "suitable",
        "tenant",
        "tries_us",
        "verdict",
    )

    def __init__(
        self,
        partition: Partition,
        need: Need,
        duration_us: int,
        licenses: tuple[tuple[str, int], ...],
        mask: bytes,
        verdict: Wait | None,
        tenant: Tenant = NOBODY,
    ) -> None:
        self.tenant = tenant  # of no one user, unless it matters which jobs share its nodes
        self.partition = partition
        self.need = need
        self.duration_us = duration_us
        self.licenses = licenses
        self.mask = mask
        self.is_plain = verdict is None and not licenses
        self.suitable = mask.count(1)
        self.verdict = verdict
        self.stamp = 0
        self.tries_us = 0  # no room before this time
        self.index = -1
        self.kind = -1  # the grid's, of a demand with one variant and nothing special
        self.kinds_amounts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.pool: object = None
        self.is_judged = False  # `lasting_wait` is known: why it has no room on empty nodes
        self.lasting_wait: Wait | None = None
        self.is_elastic = False  # may start with a limit shorter than its own: see `elastic`
        self.limit_min = NO_VAL  # that limit
        self.shorter: dict[int, Demand] = {}
        self.loose: Demand | None = None  # the same once it has waited enough for few switches
        self.apart: tuple[int, dict[bytes, Demand]] = (0, {})  # by mask, of the pass `stamp`

    @property
    def may_join(self) -> bool:
        """Return whether its owner's jobs that keep all others away may be joined."""
        return self.tenant is not NOBODY and self.tenant.sharing != TOPO

    def end_us(self, start_us: int) -> int:
        """Return when a job that starts at a time has reached its limit."""
        return min(NO_END_US, start_us + self.duration_us)

    def lasting(self, limit_min: int, now_us: int) -> Demand:
        """Return the same demand with another time limit, as if it had not been looked for yet."""
        if limit_min >= self.duration_us // MINUTE_US:  # not quite whole where there is no limit
            return self
        lasting_demand = self.shorter.get(limit_min)
        if lasting_demand is None:
            lasting_demand = self._with(limit_min * MINUTE_US, self.mask)
            lasting_demand.limit_min = limit_min
            if len(self.shorter) > _MOST_SHORTER:
                self.shorter.clear()
            self.shorter[limit_min] = lasting_demand
        return self._seen_now(lasting_demand, now_us)

    def without(self, node_ids: Collection[int], now_us: int) -> Demand:
        """Return the same demand for any nodes but these, as if it had not been looked for yet."""
        mask = bytearray(self.mask)
        for node_id in node_ids:
            mask[node_id] = 0
        if mask == self.mask:
            return self
        if self.apart[0] != self.stamp:
            self.apart = (self.stamp, {})  # planners know demands of one pass by their identity
        known, key = self.apart[1], bytes(mask)
        if key not in known:
            known[key] = self._with(self.duration_us, key)
            known[key].limit_min = self.limit_min
        return self._seen_now(known[key], now_us)

    def _with(self, duration_us: int, mask: bytes) -> Demand:
        """Return a demand for the same with another duration or for other nodes."""
        return Demand(
            self.partition, self.need, duration_us, self.licenses, mask, self.verdict, self.tenant
        )

    def _seen_now(self, other: Demand, now_us: int) -> Demand:
        """Return a demand made of this one, known to the planner of this pass as this one is."""
        other.index, other.pool, other.kinds_amounts = self.index, self.pool, self.kinds_amounts
        other.stamp, other.kind, other.tries_us = self.stamp, -1, now_us
        return other


Entry = tuple[int, Waiting, Demand]
"""Place in the queue (smallest first), job, demand in one of its partitions."""


def _shape(request: JobRequest) -> tuple[object, ...]:
    """Return everything of a request that decides where, how and when it fits."""
    return (
        placing(request), request.licenses, request.time_min_min, request.deadline_us,
        request.reservation, request.distribution,
    )  # fmt: skip


class Demands:
    """All demands known; those of before are kept while they still hold."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[JobRequest, int]] = {}  # by identity of the request
        self._shape_ids: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[object, ...], Demand] = {}
        self._masks: dict[tuple[str, ...], bytes] = {}
        self._cpus: dict[str, int] = {}
        self._snapshot: Snapshot | None = None
        self._policy: Policy | None = None
        self._opening: dict[str, Qos] = {}  # QOS that go beyond limits of partitions
        self._hosts: frozenset[int | str] = frozenset()  # see `sharing.Hosts`
        self.rehosted: frozenset[int | str] = frozenset()  # of whom that has changed in this pass
        self.generation = 0  # grows when what was known has been forgotten

    def begin(self, snapshot: Snapshot, policy: Policy) -> None:
        """Prepare for a pass: forget what no longer holds."""
        last, met = self._snapshot, snapshot.hosts
        self._hosts, self.rehosted = met, self._hosts ^ met
        if (
            last is None
            or last.specs is not snapshot.specs
            or last.usable != snapshot.usable
            or last.partitions != snapshot.partitions
            or last.qos != snapshot.qos
            or self._policy is not policy
        ):
            self._known, self._masks, self._cpus = {}, {}, {}
            self.generation += 1
        if len(self._shapes) > 2 * len(snapshot.waiting) + 10_000:
            self._shapes = {}
        if len(self._known) > 100_000 or len(self._shape_ids) > 100_000:
            self._known, self._shape_ids, self._shapes = {}, {}, {}
            self.generation += 1
        self._snapshot, self._policy = snapshot, policy
        self._opening = {name: qos for name, qos in snapshot.qos.items() if opens(qos)}

    def shape_id(self, request: JobRequest) -> int:
        """Return a number that requests of equal shape share."""
        known = self._shapes.get(id(request))
        if known is None or known[0] is not request:
            shape = _shape(request)
            number = self._shape_ids.setdefault(shape, len(self._shape_ids))
            known = self._shapes[id(request)] = (request, number)
        return known[1]

    def each(self, job: Waiting, shape_id: int, partition: Partition) -> list[Demand]:
        """Return a demand for each alternative of `--licenses=a|b`; one for other jobs."""
        if "|" not in job.request.licenses:
            return [self.of(job, shape_id, partition)]
        return [self.of(job, shape_id, partition, text) for text in job.request.licenses.split("|")]

    def of(self, job: Waiting, shape_id: int, partition: Partition, licenses: str = "") -> Demand:
        """Return the demand of a job in one of its partitions.

        Args:
            licenses: the alternative of those it names; empty: the first.
        """
        key: tuple[object, ...] = (shape_id, partition.name, job.time_limit_min, job.switches)
        has_host = self._has_host(job)
        if partition.exclusive == USER or job.request.flags & _OWNED or has_host:
            key = (*key, job.uid, job.request.mcs_label, has_host)
        if limits_accounts(partition):
            key = (*key, job.account, job.qos)
        if licenses:
            key = (*key, licenses)
        if job.time_limit_min > partition.max_time_min:
            key = (*key, job.request.time_limit_min == NO_VAL)
        if self._opening:
            own = self._opening.get(job.qos)
            partition, key = opened(partition, own), (*key, own is not None and job.qos)
        demand = self._known.get(key)
        if demand is None:
            demand = self._known[key] = self._judge(job, partition, licenses)
            if job.switches:
                demand.loose = self.of(replace(job, switches=0), shape_id, partition)
                demand.is_plain = False
        return demand

    def _has_host(self, job: Waiting) -> bool:
        """Return whether a job may go where its owner's keep all others away."""
        return bool(self._hosts) and not self._hosts.isdisjoint((job.uid, job.request.mcs_label))

    def _judge(self, job: Waiting, partition: Partition, licenses: str) -> Demand:
        assert self._snapshot is not None and self._policy is not None
        snapshot, request = self._snapshot, job.request
        need = need_of(
            request,
            partition,
            snapshot.node_by_name,
            self._policy.selection,
            snapshot.extras,
        )
        if job.switches:
            need = replace(need, switches=job.switches)
        mask = self._mask(request, partition, need)
        limit_min = limit_in(request, job.time_limit_min, partition)
        duration_us = limit_us(limit_min, partition)
        _check_range(need, limit_min, duration_us)
        least_min = request.time_min_min
        may_cut = self._policy.backfills
        is_cut = may_cut and 0 < least_min < NO_VAL and least_min * MINUTE_US < duration_us
        if is_cut and self._policy.time_min_is_soft:
            duration_us = least_min * MINUTE_US  # the limit stays, the plan counts on less
        made = Demand(
            partition,
            need,
            duration_us,
            tuple(license_counts(licenses or request.licenses)),
            mask,
            verdict(snapshot, job, partition, need) or self._too_wide(partition, need),
            tenant_of(request, partition, job.uid)
            if need.sharing or self._has_host(job)
            else NOBODY,
        )
        made.is_plain = made.is_plain and (bool(need.sharing) or made.tenant is NOBODY)
        made.limit_min = limit_min if limit_min != job.time_limit_min else NO_VAL
        made.is_elastic = is_cut and not self._policy.time_min_is_soft
        if request.deadline_us and may_cut:
            made.is_elastic = True
        made.is_plain = made.is_plain and not made.is_elastic
        return made

    def _too_wide(self, partition: Partition, need: Need) -> Wait | None:
        """Return why all CPUs of a partition together would not do, if so."""
        cpus = 0 if need.overcommit else need.tasks * need.cpus_per_task
        if cpus <= len(partition.node_ids):
            return None
        total = self._cpus.get(partition.name)
        if total is None:
            assert self._snapshot is not None
            specs = self._snapshot.specs
            specs_known = (specs[node_id] for node_id in partition.node_ids)
            total = sum(spec.cpus for spec in specs_known if spec is not None)
            self._cpus[partition.name] = total
        if cpus <= total:
            return None
        text = f"needs {plural(cpus, 'CPU')}; partition {partition.name} has {total}"
        reservation = self._snapshot.only_reservation if self._snapshot is not None else None
        if reservation is not None:
            text += f" in reservation {reservation.name}"
        return Wait(Reason.Reservation if reservation else Reason.PartitionConfig, text)

    def _mask(self, request: JobRequest, partition: Partition, need: Need) -> bytes:
        key: tuple[str, ...] = (
            partition.name, request.constraint, request.exclude, request.prefer, request.node_extra
        )  # fmt: skip
        if request.node_list and not need.required_nodes:
            key = (*key, request.node_list)  # it names those that it may have
        mask = self._masks.get(key)
        if mask is None:
            assert self._snapshot is not None
            mask = self._masks[key] = suitable_nodes(
                self._snapshot, partition.node_ids, request, need.excluded_nodes
            )
        return mask


def _check_range(need: Need, limit_min: int, duration_us: int) -> None:
    """Refuse what kernels could not count with.

    Raises:
        OverflowError: no submission passes with such a value, but one may be in an old journal.
    """
    if not 0 <= duration_us <= NO_END_US:
        raise OverflowError(f"a time limit of {limit_min} minutes cannot be planned with")
    counts = _counts_of(need)
    if min(counts) < 0 or max(counts) >= _MOST_COUNTED:
        count = next(count for count in counts if not 0 <= count < _MOST_COUNTED)
        raise OverflowError(f"a request of {count} of something cannot be planned with")
    asked = (*need.gres_per_node, *need.gres_per_task, *need.gres_total, *need.gpus_per_socket)
    for name, _, count in asked:
        if not 0 <= count < _MOST_COUNTED:
            raise OverflowError(f"{count} of {name} cannot be planned with")


def suitable_nodes(
    snapshot: Snapshot, node_ids: Iterable[int], request: JobRequest, excluded: frozenset[int]
) -> bytes:
    """Return a byte per node: 1 where it is in service and suits."""
    mask = bytearray(len(snapshot.specs))
    usable, features = snapshot.usable, snapshot.features
    is_any = not request.constraint
    for node_id in node_ids:
        if usable[node_id] and (is_any or suits(request, features[node_id])):
            mask[node_id] = 1
    for node_id in excluded:
        mask[node_id] = 0
    return bytes(mask)


def limit_us(time_limit_min: int, partition: Partition) -> int:
    """Return how long a job may run, the partition's limits applied."""
    limit_min = time_limit_min
    if limit_min == NO_VAL:
        limit_min = partition.default_time_min
    limit_min = min(limit_min, partition.max_time_min)
    return NO_END_US if limit_min >= NO_VAL else limit_min * MINUTE_US


def limit_in(request: JobRequest, limit_min: int, partition: Partition) -> int:
    """Return a job's time limit in a partition; more than the partition's if it cannot run there.

    A job that asked for none has each partition's own; one with --time-min takes the partition's.
    """
    most = partition.max_time_min
    if limit_min <= most or limit_min == NO_VAL:
        return limit_min
    if request.time_limit_min == NO_VAL and not request.deadline_us:
        return min(partition.default_time_min, most)
    return most if 0 < request.time_min_min <= most else limit_min


def limits_accounts(partition: Partition) -> bool:
    """Return whether a partition allows or denies accounts or QOS."""
    return bool(
        partition.allow_accounts
        or partition.deny_accounts
        or partition.allow_qos
        or partition.deny_qos
    )


def _not_allowed(job: Waiting, partition: Partition) -> Wait | None:
    """Return that a partition is not for the account or QOS of a job, if so."""
    name, account, qos = partition.name, job.account, job.qos
    if not partition.admits_account(account):
        allow, deny = partition.allow_accounts, partition.deny_accounts
        text = f"partition {name} is not open to account {account or '(none)'}"
        shown = _shown_lists("account", account, name, allow, deny)
        return Wait(Reason.AccountNotAllowed, text, shown)
    if not partition.admits_qos(qos):
        allow, deny = partition.allow_qos, partition.deny_qos
        text = f"partition {name} is not open to QOS {qos or '(none)'}"
        return Wait(Reason.QOSNotAllowed, text, _shown_lists("QOS", qos, name, allow, deny))
    return None


def _shown_lists(kind: str, own: str, name: str, allow: Sequence[str], deny: Sequence[str]) -> str:
    """Return what Slurm's commands print of a partition that is not for an account or QOS."""
    why = (
        f"allows {','.join(allow)} not {own}"
        if allow
        else f"denies {','.join(deny)} including {own}"
    )
    return f"Job's {kind} not permitted to use this partition ({name} {why})"


def _over_memory(snapshot: Snapshot, job: Waiting, partition: Partition, need: Need) -> Wait | None:
    """Return that a job asks more memory of each node than its partition gives, if so.

    It counts where memory is not consumed, too, as in Slurm.
    """
    most_mib = partition.max_mem_per_node_mib
    if not most_mib:
        return None
    sizes = job_sizes(job.request, partition)
    asked_mib = mem_of_node_mib(job.request, sizes)
    if need.mem_whole_node or (sizes.mem_whole_node and job.request.flags & REQ_MEM_SET):
        specs = (snapshot.specs[node_id] for node_id in partition.node_ids)
        asked_mib = min((schedulable_mem_mib(spec) for spec in specs if spec), default=0)
    if asked_mib <= most_mib:
        return None
    text = f"needs {asked_mib} MiB of a node; partition {partition.name} gives {most_mib} MiB"
    return Wait(Reason.MaxMemPerLimit, text)


def verdict(snapshot: Snapshot, job: Waiting, partition: Partition, need: Need) -> Wait | None:
    """Return why no such job can start on nodes and partitions as they are; None if one can."""
    if job.request.reservation and not snapshot.reservations:
        # Else its reservation would have been looked at before: see `inside`.
        return Wait(Reason.Reservation, f"reservation {job.request.reservation} does not exist")
    if partition.state in ("DOWN", "INACTIVE"):
        inactive = partition.state == "INACTIVE"
        reason = Reason.PartitionInactive if inactive else Reason.PartitionDown
        return Wait(reason, f"partition {partition.name} is {partition.state}")
    limit_min = limit_in(job.request, job.time_limit_min, partition)
    if limit_min > partition.max_time_min and limit_min != NO_VAL:
        asked = f"{limit_min} min" if limit_min < NO_VAL else "UNLIMITED"
        return Wait(
            Reason.PartitionTimeLimit,
            f"time limit {asked} is over partition {partition.name}'s {partition.max_time_min} min",
        )
    if need.nodes_min > partition.max_nodes or len(partition.node_ids) < need.nodes_min:
        return Wait(
            Reason.PartitionNodeLimit,
            f"needs {plural(need.nodes_min, 'node')}; partition {partition.name} allows "
            f"{min(partition.max_nodes, len(partition.node_ids))}",
        )
    if 0 < job.request.nodes_max < partition.min_nodes:
        return Wait(
            Reason.PartitionNodeLimit,
            f"may have {plural(job.request.nodes_max, 'node')} at most; "
            f"partition {partition.name} gives {partition.min_nodes} at least",
        )
    wait = _not_allowed(job, partition) or _over_memory(snapshot, job, partition, need)
    if wait is not None:
        return wait
    return _without_required(snapshot, need)


def _without_required(snapshot: Snapshot, need: Need) -> Wait | None:
    """Return that nodes which a job insists on are not in its reservation, or out of service."""
    required = sorted(need.required_nodes)
    outside = {node_id for node_id in required if snapshot.specs[node_id] is None}
    if outside and snapshot.only_reservation is not None:
        absent = [name for name, node_id in snapshot.node_by_name.items() if node_id in outside]
        nodes = hostlist.fold(absent)
        text = f"it insists on {nodes}; reservation {snapshot.only_reservation.name} is without"
        return Wait(Reason.Reservation, text)
    away = [node_id for node_id in required if not snapshot.usable[node_id]]
    if away:
        names = ",".join(spec.name for node in away if (spec := snapshot.specs[node]))
        return Wait(
            Reason.ReqNodeNotAvail,
            f"it needs nodes that are out of service: {names}",
            f"ReqNodeNotAvail, UnavailableNodes:{names}",
        )
    return None
