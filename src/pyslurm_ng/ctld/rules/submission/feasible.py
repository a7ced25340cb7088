"""Could a request ever run in a partition: on its nodes when all are empty and in service?"""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_OVERCOMMIT
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import Node, effective_cpus, schedulable_mem_mib, spec_with_facts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import NOTHING
from pyslurm_ng.model.sizes import total
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.cons_tres.fit import has_shape
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.hidden_parts import hide
from pyslurm_ng.sched.cons_tres.layouts import layouts_of
from pyslurm_ng.sched.cons_tres.select import choose, wanted_nodes
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.frame.answers import answers
from pyslurm_ng.sched.request.features import least_nodes, suits
from pyslurm_ng.sched.request.need import Need, Selection, need_of, placing, width_of

_MOST_KEPT = 4096
_LONG = 1024  # characters of a request whose answer is not kept
_MOST_SIZES = 64  # node counts to try on rings and tori for a job that leaves the choice
_TOPOLOGY = Reject(Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE)
_CPU_DETAIL = "CPU count per node can not be satisfied"
_MEMORY_DETAIL = "Memory specification can not be satisfied"
_SHAPE_DETAIL = "Socket, core and/or thread specification can not be satisfied"
_DISK_DETAIL = "Temporary disk specification can not be satisfied"


def feasible(
    cluster: Cluster, request: JobRequest, partition: Partition, selection: Selection
) -> Reject | None:
    """Return why `request` can never run in `partition`, None if it can or is merely too wide.

    A job that wants more nodes or CPUs than the partition has is accepted and waits, as in Slurm
    (`EnforcePartLimits` refuses it elsewhere): nodes may be added.
    """
    fields = placing(request)
    key = (partition.name, selection, fields, request.distribution)
    kept = answers(cluster)
    known = kept.get(key, key)
    if known is not key:
        assert known is None or isinstance(known, Reject)
        return known
    answer = _judge(cluster, request, partition, selection)
    if sum(len(field) for field in fields if isinstance(field, str)) > _LONG:
        return answer
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[key] = answer
    return answer


# Reservations with these say nothing of where their jobs run.
_ANYWHERE = frozenset(("FLEX", "ANY_NODES", "LICENSE_ONLY"))


def feasible_inside(
    cluster: Cluster, request: JobRequest, partition: Partition, selection: Selection
) -> Reject | None:
    """Return why `request` can never run in the reservations it names, None if one would do.

    Unlike partitions, reservations are not waited for to grow, as in Slurm.
    """
    if not request.reservation:
        return None
    need = need_of(request, partition, cluster.node_index.by_name, selection)
    layout = layouts_in(cluster).get(partition.name)
    for name in request.reservation.split(","):
        reservation = cluster.reservations.get(name)
        if reservation is None or not _ANYWHERE.isdisjoint(reservation.flags):
            return None
        inside = set(partition.node_ids).intersection(reservation.node_ids)
        nodes = [
            _empty(node)
            for node in cluster.nodes_of(sorted(inside - need.excluded_nodes))
            if _suits(request, need, node)
        ]
        parts = reservation.parts()
        for node in nodes:
            if node.node_id in parts:
                hide(node, parts[node.node_id], NOTHING)
        if need.required_nodes <= inside and choose(need, nodes, layout) is not None:
            return None
    return Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)


def size_of(cluster: Cluster, partition: Partition) -> tuple[int, int]:
    """Return how many nodes and CPUs a partition has."""
    kinds = _kinds(cluster, partition)
    count = sum(len(nodes) for nodes in kinds)
    return count, sum(len(nodes) * effective_cpus(nodes[0].spec) for nodes in kinds)


def most_cpus_of_a_node(cluster: Cluster, partition: Partition) -> int:
    """Return the CPUs of a partition's largest node, 0 if it has none."""
    kinds = _kinds(cluster, partition)
    return max((effective_cpus(nodes[0].spec) for nodes in kinds), default=0)


def least_mem_mib(cluster: Cluster, partition: Partition) -> int:
    """Return the memory of a partition's smallest node, 0 if it has none."""
    kinds = _kinds(cluster, partition)
    return min((schedulable_mem_mib(nodes[0].spec) for nodes in kinds), default=0)


def cpus_for_all_memory(cluster: Cluster, partition: Partition, mib_per_cpu: int) -> int:
    """Return the CPUs that pay for all memory of a node, of the node where that is the most."""
    specs = [nodes[0].spec for nodes in _kinds(cluster, partition)]
    return max(
        (min(effective_cpus(spec), -(-schedulable_mem_mib(spec) // mib_per_cpu)) for spec in specs),
        default=0,
    )


def _kinds(cluster: Cluster, partition: Partition) -> list[list[Node]]:
    """Return a partition's nodes in groups of equal ones; remembered until nodes change.

    A judgement then looks at a few of each kind, however many nodes there are.
    """
    key = ("kinds", partition.name)
    kept = answers(cluster)
    known = kept.get(key)
    if known is None:
        groups: dict[object, list[Node]] = {}
        for node_id in partition.node_ids:
            node = cluster.node(node_id)
            if node.state == NodeState.FUTURE:
                continue
            spec = spec_with_facts(node)
            kind = (
                spec.cpus, spec.sockets, spec.cores_per_socket, spec.threads_per_core,
                spec.real_memory_mib, spec.tmp_disk_mib, spec.core_spec_count,
                spec.cpu_spec_list, spec.mem_spec_limit_mib, spec.gres, node.weight,
                node.features_active, spec.restricted_cores_per_gpu,
            )  # fmt: skip
            groups.setdefault(kind, []).append(node)
        known = list(groups.values())
        kept[key] = known
    assert isinstance(known, list)
    return known


def _judge(
    cluster: Cluster, request: JobRequest, partition: Partition, selection: Selection
) -> Reject | None:
    need = need_of(request, partition, cluster.node_index.by_name, selection)
    kinds = _kinds(cluster, partition)
    examples = [nodes[0] for nodes in kinds]
    refusal = Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)
    if need.required_nodes & need.excluded_nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    if need.contiguous and 0 < request.nodes_max < width_of(need.required_nodes):
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)  # other nodes lie between those required
    node_count, total_cpus = size_of(cluster, partition)
    if _asks_too_much_of_a_node(request, need, examples):
        return refusal
    if "*" in request.constraint and least_nodes(request.constraint) > node_count:
        return refusal  # counts of features are not waited for, as in Slurm 22.05
    if need.tasks * need.cpus_per_task > total_cpus and not request.flags & REQ_OVERCOMMIT:
        return None  # other wishes are not checked: the nodes to come may fulfil them
    if need.required_nodes and not need.required_nodes <= set(partition.node_ids):
        return refusal
    # What is too much is told of the nodes with the features, if there are any.
    featured = [node for node in examples if suits(request, node.features_active)]
    detail = _too_much_for_any(request, need, featured or examples)
    if detail:
        return Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, detail)
    if request.ntasks_per_node and not request.nodes_min and need.nodes_min > node_count:
        return refusal  # as in Slurm 22.05; a count of nodes that is told may wait for more nodes
    node_count = min(node_count, partition.max_nodes)  # beyond it a job waits: PartitionNodeLimit
    if need.nodes_min > node_count or need.tasks * need.cpus_per_task > total_cpus:
        return _one_of_them_fits(request, need, examples, refusal)
    candidates = [
        _empty(node)
        for nodes in kinds
        if _suits(request, need, nodes[0])
        for node in _enough(need, nodes)
    ]
    if choose(need, candidates) is None:
        return refusal
    layout = layouts_in(cluster).get(partition.name)
    if layout is not None and need.is_choosy and choose(need, candidates, layout) is None:
        return _TOPOLOGY
    return None if _may_lie(cluster, request, partition, need) else _TOPOLOGY


def _may_lie(cluster: Cluster, request: JobRequest, partition: Partition, need: Need) -> bool:
    """Return whether the topology has a place for the job when all nodes are free."""
    layout = layouts_in(cluster).get(partition.name)
    if layout is None or need.is_choosy:
        return True
    fits = 0
    for nodes in _kinds(cluster, partition):
        if _suits(request, need, nodes[0]):
            for node in nodes:
                if node.node_id not in need.excluded_nodes:
                    fits |= 1 << layout.position[node.node_id]
    if (
        need.segment
        and layout.kind == "block"
        and need.nodes_min % min(need.segment, need.nodes_min)
    ):
        return False
    terms, most = wanted_nodes(need, layout), fits.bit_count()
    if layout.is_rigid:
        counts = range(need.nodes_min, min(need.nodes_max, max(most, need.nodes_min)) + 1)
        sizes = [count for count in counts if layout.may_have(terms._replace(nodes=count))]
        return any(
            count > most or layout.pick(fits, terms._replace(nodes=count)) is not None
            for count in sizes[:_MOST_SIZES]
        )
    return most < need.nodes_min or layout.pick(fits, terms) is not None


def layouts_in(cluster: Cluster) -> dict[str, Layout]:
    """Return the layout of every partition that has a network model; kept until nodes change."""
    kept = answers(cluster)
    layouts = kept.get("layouts")
    if layouts is None:
        nodes = sorted(cluster.living_nodes(), key=lambda node: (node.weight, node.node_id))
        position = {node.node_id: index for index, node in enumerate(nodes)}
        weights = [node.weight for node in nodes]
        layouts = layouts_of(cluster.topologies, cluster.partitions.values(), position, weights)
        kept["layouts"] = layouts
    assert isinstance(layouts, dict)
    return layouts


def _empty(node: Node) -> FreeNode:
    free = empty_node(node.node_id, spec_with_facts(node))
    free.features, free.weight = node.features_active, node.weight
    return free


def _enough(need: Need, nodes: list[Node]) -> list[Node]:
    """Return as many of equal nodes as could be chosen at all, the ones asked for among them."""
    if need.is_choosy:
        return [node for node in nodes if node.node_id not in need.excluded_nodes]
    enough = [node for node in nodes if node.node_id in need.required_nodes]
    for node in nodes:
        if len(enough) >= need.nodes_max:
            break
        if node.node_id not in need.excluded_nodes and node.node_id not in need.required_nodes:
            enough.append(node)
    return enough


def _suits(request: JobRequest, need: Need, node: Node) -> bool:
    return has_shape(need, node.spec) and suits(request, node.features_active)


def _one_of_them_fits(
    request: JobRequest, need: Need, nodes: list[Node], refusal: Reject
) -> Reject | None:
    """Judge a request too wide for the partition by whether any node suits it at all."""
    for name, kind, _ in need.gres_total:
        if not any(_has(node, name, kind) for node in nodes):
            return refusal
    return None if any(_suits(request, need, node) for node in nodes) else refusal


def _asks_too_much_of_a_node(request: JobRequest, need: Need, nodes: list[Node]) -> bool:
    """Return whether no node has the CPUs of the GPUs of a node, or of --overcommit's tasks.

    Slurm 22.05 refuses these however many CPUs the partition has, and without a detail.
    """
    cpus = request.cpus_per_gpu * max(1, total(request.gpus_per_node))
    if need.overcommit:
        cpus = max(cpus, request.ntasks_per_node * need.cpus_per_task)
    return cpus > 1 and all(effective_cpus(node.spec) < cpus for node in nodes)


def _has(node: Node, name: str, kind: str) -> bool:
    return any(gres.name == name and kind in ("", gres.type) for gres in node.spec.gres)


def _too_much_for_any(request: JobRequest, need: Need, nodes: list[Node]) -> str:
    """Return Slurm's line for what no single node has enough of, or nothing."""
    cpus = max(need.cpus_min_per_node, need.cpus_per_task)
    if request.ntasks_per_node and not need.overcommit:
        cpus = max(cpus, request.ntasks_per_node * need.cpus_per_task)
    if nodes and all(effective_cpus(node.spec) < cpus for node in nodes):
        return _CPU_DETAIL
    mem_mib = max(need.mem_per_node_mib, need.mem_per_cpu_mib * cpus, need.real_memory_min_mib)
    if nodes and mem_mib and all(schedulable_mem_mib(node.spec) < mem_mib for node in nodes):
        return _MEMORY_DETAIL
    if nodes and not any(has_shape(need, node.spec) for node in nodes):
        return _SHAPE_DETAIL
    if nodes and all(node.spec.tmp_disk_mib < need.tmp_mib for node in nodes):
        return _DISK_DETAIL
    return ""
