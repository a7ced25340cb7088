"""What stands in the way of a job that finds no room: nodes out of service, reservations, itself.

Each answer takes a look at every node of a partition, so a pass affords only so many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set as AbstractSet

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.units import plural
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node, free_node
from pyslurm_ng.sched.cons_tres.layouts import layouts_of
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand import reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.demand.het import Part, choice
from pyslurm_ng.sched.demand.reason import minutes, needs
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.features import suits
from pyslurm_ng.sched.request.need import Need

AWAY = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
_MAINTENANCE = "ReqNodeNotAvail, Reserved for maintenance"
_RESERVED = "ReqNodeNotAvail, May be reserved for other job"
# Nodes looked at in one pass; the last look may go beyond.
_NODES_PER_PASS = 4000
_LEAST_COST = 200  # of a look, in nodes
_MOST_NAMES = 8
_MOST_RESERVATIONS = 3


class Obstacles:
    """The answers of one pass; those about nodes alone are kept with the demand."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._left = _NODES_PER_PASS
        self._closed: tuple[reserved.Closed, ...] | None = None

    def lasting(self, request: JobRequest, demand: Demand) -> Wait | None:
        """Return why a job could not run if nothing else did; None if it could."""
        if not demand.is_judged:
            if self._left <= 0:
                return None
            self._left -= len(demand.partition.node_ids)
            demand.is_judged = True
            demand.lasting_wait = unplaceable(
                self._snapshot, demand.partition, request, demand.need
            )
        return demand.lasting_wait

    def lasting_together(self, parts: Sequence[Part]) -> dict[int, Wait]:
        """Return why components could not run at once if nothing else did, by job id."""
        if self._left <= 0:
            return {}
        self._left -= sum(len(part.demands[0].partition.node_ids) for part in parts)
        return never_together(self._snapshot, parts)

    def reservation(self, demand: Demand, taken: Callable[[], frozenset[int]]) -> Wait | None:
        """Return the reservation but for which a job would start now, if there is one.

        Args:
            taken: returns the nodes that other jobs have got or been promised in this pass.
        """
        if self._left <= 0:
            return None
        snapshot = self._snapshot
        now_us = snapshot.now_us
        end_us = demand.end_us(now_us)
        if self._closed is None:
            self._closed = reserved.closed_times(snapshot.reservations, reserved.OUTSIDE)
        closing = [
            closed
            for closed in self._closed
            if closed.name != reserved.REST
            and closed.begin_us < end_us
            and closed.end_us > now_us
            and any(demand.mask[node_id] for node_id in closed.node_ids)
        ]
        required = demand.need.required_nodes
        if any(required.intersection(closed.node_ids) for closed in closing):
            closing = [closed for closed in closing if required.intersection(closed.node_ids)]
        if not closing:
            return None
        self._left -= max(_LEAST_COST, len(demand.partition.node_ids))
        busy = taken()
        free = (
            free_node(snapshot, node_id)
            for node_id in demand.partition.node_ids
            if demand.mask[node_id] and node_id not in busy and snapshot.cpus_free[node_id] > 0
        )
        if choose(demand.need, free) is None:
            return None
        return reserved_nodes(closing, now_us, demand.duration_us)


def reserved_nodes(closing: Sequence[reserved.Closed], now_us: int, duration_us: int) -> Wait:
    """Return the reason of a job that would start now but for these; maintenance is named first."""
    ordered = sorted(closing, key=lambda closed: not closed.is_maintenance)
    times = [_times(closed, now_us) for closed in ordered[:_MOST_RESERVATIONS]]
    if len(ordered) > len(times):
        times.append(f"and {len(ordered) - len(times)} more")
    text = f"its nodes are reserved: {'; '.join(times)}"
    if duration_us < NO_END_US:
        text += f"; its time limit is {minutes(duration_us)}"
    shown = _MAINTENANCE if ordered[0].is_maintenance else _RESERVED
    return Wait(Reason.ReqNodeNotAvail, text, shown)


def _times(closed: reserved.Closed, now_us: int) -> str:
    text = f"{closed.name} has begun"
    if closed.begin_us > now_us:
        text = f"{closed.name} begins in {minutes(closed.begin_us - now_us)}"
    if closed.end_us < NO_END_US:
        text += f" and ends in {minutes(closed.end_us - now_us)}"
    return text


def unplaceable(
    snapshot: Snapshot, partition: Partition, request: JobRequest, need: Need
) -> Wait | None:
    """Return why a job would not fit even if its partition were empty; None if it would."""
    suited = [
        node_id
        for node_id in partition.node_ids
        if snapshot.specs[node_id] is not None
        and node_id not in need.excluded_nodes
        and suits(request, snapshot.features[node_id])
    ]
    usable = [node_id for node_id in suited if snapshot.usable[node_id]]
    layout = _layout(snapshot, partition)
    if _fits(snapshot, usable, need, layout):
        return None
    what = needs(need)
    if _fits(snapshot, suited, need, layout):
        away = [node_id for node_id in suited if not snapshot.usable[node_id]]
        share_in_service = (
            f"{len(usable)} of {plural(len(suited), 'suitable node')} of {partition.name}"
        )
        verb = "is" if len(usable) == 1 else "are"
        text = f"needs {what}; {share_in_service} {verb} in service, not {_names(snapshot, away)}"
        return Wait(Reason.Resources, text, AWAY)
    if layout is not None and _fits(snapshot, suited, need):
        return reason.topology(need, snapshot.network(partition), partition.name)
    verb = "has" if len(suited) == 1 else "have"
    if request.constraint:
        able = [
            node_id
            for node_id in partition.node_ids
            if snapshot.specs[node_id] is not None
            and node_id not in need.excluded_nodes
            and suits(request, _available(snapshot, node_id))
        ]
        if len(able) > len(suited) and _fits(snapshot, able, need):
            text = (
                f"needs {what}; {len(suited)} of {plural(len(able), 'node')} of {partition.name} "
                f"that can have {request.constraint} {verb} it active"
            )
            return Wait(Reason.Constraints, text)
    if request.node_extra:
        able = [
            node_id
            for node_id in partition.node_ids
            if snapshot.specs[node_id] is not None and suits(request, snapshot.features[node_id])
        ]
        if _fits(snapshot, able, need):
            text = (
                f"needs {what}; of {plural(len(able), 'suitable node')} of {partition.name} "
                f"{len(suited)} {verb} Extra with {request.node_extra}"
            )
            return Wait(Reason.Constraints, text)
    text = f"needs {what}; {partition.name} has no such nodes, in service or not"
    if request.constraint:
        text += f", with {request.constraint}"
    return Wait(Reason.BadConstraints, text)


def never_together(snapshot: Snapshot, parts: Sequence[Part]) -> dict[int, Wait]:
    """Return why components of a heterogeneous job would not fit at once on empty nodes.

    By job id; empty if they would.
    """
    alone: dict[int, Wait] = {}
    for part in parts:
        suitable = [
            unplaceable(snapshot, demand.partition, part.job.request, demand.need)
            for demand in part.hopeful
        ]
        lasting = [wait for wait in suitable if wait is not None]
        if suitable and len(lasting) == len(suitable):
            alone[part.job.job_id] = lasting[0]
    if alone:
        stuck, why = next(iter(alone.items()))
        other = Wait(why.reason, f"component {stuck} of its job cannot run: {why.text}", why.shown)
        return {part.job.job_id: alone.get(part.job.job_id, other) for part in parts}
    if _fit_at_once(snapshot, parts):
        return {}
    wait = reason.never_together([part.demands[0] for part in parts])
    return dict.fromkeys((part.job.job_id for part in parts), wait)


def _fit_at_once(snapshot: Snapshot, parts: Sequence[Part]) -> bool:
    """Return whether components fit one after the other; who does not is tried before the rest."""
    order = sorted(parts, key=choice)
    for _ in parts:
        blocked = _first_blocked(snapshot, order)
        if blocked is None:
            return True
        if blocked is order[0]:
            return False
        order.remove(blocked)
        order.insert(0, blocked)
    return False


def _first_blocked(snapshot: Snapshot, order: Sequence[Part]) -> Part | None:
    """Place components on empty nodes in turn, each on its own; return the first without room."""
    free = {node.node_id: node for node in empty_nodes(snapshot, range(len(snapshot.specs)))}
    for part in order:
        for demand in part.hopeful:
            nodes = [
                free[node_id]
                for node_id in demand.partition.node_ids
                if demand.mask[node_id] and node_id in free
            ]
            chosen = choose(demand.need, (node for node in nodes if node.cores))
            if chosen is not None:
                for node, _ in chosen:
                    del free[node.node_id]
                break
        else:
            return part
    return None


def kept_for_others(
    snapshot: Snapshot,
    partition: Partition,
    request: JobRequest,
    need: Need,
    shut: AbstractSet[int],
) -> Wait | None:
    """Return why a job would find no room outside of nodes that jobs before it wait for.

    None: it would, on others of its partition's nodes, once they are idle.
    """
    suited = [
        node_id
        for node_id in partition.node_ids
        if snapshot.usable[node_id]
        and node_id not in need.excluded_nodes
        and suits(request, snapshot.features[node_id])
    ]
    others = [node_id for node_id in suited if node_id not in shut]
    if len(others) == len(suited) or _fits(snapshot, others, need):
        return None
    text = (
        f"needs {needs(need)}; jobs of higher priority wait for {len(suited) - len(others)} of "
        f"{plural(len(suited), 'suitable node')} of {partition.name} in other partitions"
    )
    return Wait(Reason.Resources, text, AWAY)


def _available(snapshot: Snapshot, node_id: int) -> tuple[str, ...]:
    active = snapshot.features[node_id]
    if node_id < len(snapshot.features_available):
        return (*active, *snapshot.features_available[node_id])
    return active


def _fits(
    snapshot: Snapshot, node_ids: Iterable[int], need: Need, layout: Layout | None = None
) -> bool:
    return choose(need, empty_nodes(snapshot, node_ids), layout) is not None


def _layout(snapshot: Snapshot, partition: Partition) -> Layout | None:
    """Return the network of a partition, if it has one."""
    if snapshot.network(partition) is None:
        return None
    weights = snapshot.weights
    order = sorted(range(len(weights)), key=lambda node_id: (weights[node_id], node_id))
    position = {node_id: index for index, node_id in enumerate(order)}
    in_order = [weights[node_id] for node_id in order]
    return layouts_of(snapshot.topologies, [partition], position, in_order)[partition.name]


def empty_nodes(snapshot: Snapshot, node_ids: Iterable[int]) -> Iterator[FreeNode]:
    """Yield some nodes as they are when nothing runs on them."""
    for node_id in node_ids:
        spec = snapshot.specs[node_id]
        if spec is not None:
            node = empty_node(node_id, spec)
            node.features, node.weight = snapshot.features[node_id], snapshot.weights[node_id]
            yield node


def _names(snapshot: Snapshot, node_ids: list[int]) -> str:
    names = [spec.name for node in node_ids if (spec := snapshot.specs[node]) is not None]
    shown = hostlist.fold(names)
    if shown.count(",") < _MOST_NAMES:
        return shown
    return ",".join(names[:_MOST_NAMES]) + "..."
