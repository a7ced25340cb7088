"""Could a request ever run in a partition: on its nodes when all are empty and in service?"""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster, effective_cpus, schedulable_mem_mib
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.features import matches
from pyslurm_ng.sched.need import Need, need_of
from pyslurm_ng.sched.select import choose, empty_node

_MOST_KEPT = 4096
_CPU_DETAIL = "CPU count per node can not be satisfied"
_MEMORY_DETAIL = "Memory specification can not be satisfied"


def feasible(
    cluster: Cluster, request: JobRequest, partition: Partition, with_memory: bool
) -> Reject | None:
    """Return why `request` can never run in `partition`, None if it can or is merely too wide.

    A job that wants more nodes or CPUs than the partition has is accepted and waits, as in Slurm
    (`EnforcePartLimits` refuses it elsewhere): nodes may be added.
    """
    key = (partition.name, with_memory, _shape(request))
    known = cluster.memo.get(key, key)
    if known is not key:
        assert known is None or isinstance(known, Reject)
        return known
    answer = _judge(cluster, request, partition, with_memory)
    if len(cluster.memo) >= _MOST_KEPT:
        cluster.memo.clear()
    cluster.memo[key] = answer
    return answer


def size_of(cluster: Cluster, partition: Partition) -> tuple[int, int]:
    """Return how many nodes and CPUs a partition has."""
    key = ("size", partition.name)
    known = cluster.memo.get(key)
    if known is None:
        nodes = _nodes(cluster, partition)
        known = len(nodes), sum(effective_cpus(node.spec) for node in nodes)
        cluster.memo[key] = known
    assert isinstance(known, tuple)
    return known


def _shape(request: JobRequest) -> tuple[object, ...]:
    """Return everything of a request that decides where it fits."""
    return (
        request.nodes_min, request.nodes_max, request.ntasks, request.ntasks_per_node,
        request.ntasks_per_socket, request.ntasks_per_core, request.ntasks_per_gpu,
        request.cpus_per_task, request.mincpus, request.sockets_per_node,
        request.cores_per_socket, request.threads_per_core, request.core_spec,
        request.thread_spec, request.mem_per_node_mib, request.mem_per_cpu_mib,
        request.mem_per_gpu_mib, request.tmp_mib, request.gres, request.gpus,
        request.gpus_per_node, request.gpus_per_socket, request.gpus_per_task,
        request.cpus_per_gpu, request.tres_per_task, request.node_list, request.exclude,
        request.constraint, request.flags,
    )  # fmt: skip


def _nodes(cluster: Cluster, partition: Partition) -> list[Node]:
    found = [cluster.node(node_id) for node_id in partition.node_ids]
    return [node for node in found if node.state != NodeState.FUTURE]


def _judge(
    cluster: Cluster, request: JobRequest, partition: Partition, with_memory: bool
) -> Reject | None:
    need = need_of(request, partition, cluster.node_by_name, with_memory)
    nodes = _nodes(cluster, partition)
    refusal = Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)
    if not need.required_nodes <= set(partition.node_ids):
        return refusal
    if need.required_nodes & need.excluded_nodes:
        return refusal
    detail = _too_much_for_any(request, need, nodes)
    if detail:
        return Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, detail)
    total_cpus = sum(effective_cpus(node.spec) for node in nodes)
    if need.nodes_min > len(nodes) or need.tasks * need.cpus_per_task > total_cpus:
        return _one_of_them_fits(request, need, nodes, refusal)
    candidates = [
        empty_node(node.node_id, node.spec) for node in nodes if _is_open(request, need, node)
    ]
    return None if choose(need, candidates) is not None else refusal


def _is_open(request: JobRequest, need: Need, node: Node) -> bool:
    if node.node_id in need.excluded_nodes:
        return False
    spec = node.spec
    if spec.sockets < request.sockets_per_node:
        return False
    if spec.cores_per_socket < request.cores_per_socket:
        return False
    if request.threads_per_core > spec.threads_per_core:
        return False
    return not request.constraint or matches(request.constraint, node.features_active)


def _one_of_them_fits(
    request: JobRequest, need: Need, nodes: list[Node], refusal: Reject
) -> Reject | None:
    """Judge a request too wide for the partition by whether any node suits it at all."""
    for name, kind, _ in need.gres_total:
        if not any(_has(node, name, kind) for node in nodes):
            return refusal
    return None if any(_is_open(request, need, node) for node in nodes) else refusal


def _has(node: Node, name: str, kind: str) -> bool:
    return any(item.name == name and kind in ("", item.type) for item in node.spec.gres)


def _too_much_for_any(request: JobRequest, need: Need, nodes: list[Node]) -> str:
    """Return Slurm's line for what no single node has enough of, or nothing."""
    cpus = max(need.cpus_min_per_node, need.cpus_per_task)
    if request.ntasks_per_node and not need.overcommit:
        cpus = max(cpus, request.ntasks_per_node * need.cpus_per_task)
    if nodes and all(effective_cpus(node.spec) < cpus for node in nodes):
        return _CPU_DETAIL
    mem_mib = need.mem_per_node_mib or need.mem_per_cpu_mib * cpus
    if nodes and mem_mib and all(schedulable_mem_mib(node.spec) < mem_mib for node in nodes):
        return _MEMORY_DETAIL
    return ""
