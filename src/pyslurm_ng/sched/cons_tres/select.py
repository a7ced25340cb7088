"""Which nodes a job gets, in the way of cons_tres."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit, threads_used, usable_devices
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.node_choice import (
    Chooser,
    Picker,
    Plain,
    choose_counted,
    node_counts,
    ways_of,
)
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, choose_shares, weight_groups
from pyslurm_ng.sched.request.features import matches
from pyslurm_ng.sched.request.need import Need


def choose(
    need: Need, candidates: Iterable[FreeNode], layout: Layout | None = None
) -> list[tuple[FreeNode, int]] | None:
    """Return the nodes for a job with the tasks each gets, or None if it does not fit now.

    Lighter nodes come first; among equals, the fewest that hold all tasks. Ties follow the order of
    `candidates`, so the same state always gives the same answer.
    """
    fitting = [
        (node, fit)
        for node in candidates
        if (fit := tasks_that_fit(need, node)) > 0 and _has_some(need, node)
    ]
    required = [pair for pair in fitting if pair[0].node_id in need.required_nodes]
    if len(required) < len(need.required_nodes):
        return None
    fitting.sort(key=lambda pair: (pair[0].node_id not in need.required_nodes, pair[0].weight))
    if len(fitting) < need.nodes_min:
        return None
    if need.is_choosy or need.is_ranged:
        return _choose_by(need, fitting, layout)
    if layout is not None:
        return _choose_near(need, fitting, layout)
    if need.nodes_min == need.nodes_max and len(fitting) > need.nodes_min:
        fitting = _narrow(need, fitting)
    chosen: list[tuple[FreeNode, int]] = []
    capacity = 0
    devices = {(name, kind): count for name, kind, count in need.gres_total}
    for node, fit in fitting:
        if len(chosen) >= need.nodes_max:
            break
        enough = capacity >= need.tasks and all(
            missing_count <= 0 for missing_count in devices.values()
        )
        if len(chosen) >= max(need.nodes_min, len(required)) and enough:
            break
        useful = [(key, usable_devices(need, node, *key)) for key in devices if devices[key] > 0]
        if devices and useful and not any(count for _, count in useful):
            continue
        chosen.append((node, fit))
        capacity += fit
        for key, count in useful:
            devices[key] -= count
    if len(chosen) < need.nodes_min or capacity < need.tasks:
        return None
    if any(missing_count > 0 for missing_count in devices.values()):
        return None
    return share_tasks(need, chosen)


def _has_some(need: Need, node: FreeNode) -> bool:
    """Return whether a node can give any of the devices that a job wants in all, if it does."""
    gres = need.gres_total
    return not gres or any(usable_devices(need, node, name, kind) for name, kind, _ in gres)


def wanted_nodes(need: Need, layout: Picker) -> WantedNodes:
    """Return what a job asks of the network at its least number of nodes."""
    required = sum(1 << layout.position[node_id] for node_id in need.required_nodes)
    return WantedNodes(
        need.nodes_min,
        required,
        need.segment,
        need.switches,
        need.consolidates,
        need.spreads_segments,
    )


def _choose_by(
    need: Need, fitting: list[tuple[FreeNode, int]], layout: Layout | None
) -> list[tuple[FreeNode, int]] | None:
    """Choose for a job for which it matters which nodes it gets, or that may want more of them."""
    base: Layout | Plain
    ordered = sorted((node for node, _ in fitting), key=lambda node: (node.weight, node.node_id))
    if layout is None:
        base = Plain({node.node_id: index for index, node in enumerate(ordered)})
    else:
        base = layout
    nodes = {base.position[node.node_id]: node for node in ordered}
    most = max(nodes, default=-1) + 1
    ids = [nodes[position].node_id if position in nodes else -1 for position in range(most)]
    features = [nodes[position].features if position in nodes else () for position in range(most)]
    weights = [nodes[position].weight if position in nodes else 0 for position in range(most)]
    groups = weight_groups(weights) if layout is None else layout.groups
    chooser = Chooser(need, base, ids, ways_of(need, features), groups)
    if need.least_loaded:
        chooser.load = [
            _load(nodes[position]) if position in nodes else 1.0 for position in range(most)
        ]
    fits = [(base.position[node.node_id], fit) for node, fit in fitting]
    counts = node_counts(need, need.nodes_min, min(need.nodes_max, len(fits)), layout)
    shares = choose_counted(
        chooser,
        fits,
        need.tasks,
        counts,
        wanted_nodes(need, base),
        _device_test(need, nodes),
    )
    if shares is None:
        return None
    return share_tasks(need, [(nodes[position], fit) for position, fit in shares], layout)


def _load(node: FreeNode) -> float:
    """Return which share of a node's CPUs is in use."""
    return 1 - node.cpus() / max(1, node.spec.cpus)


def _device_test(need: Need, nodes: dict[int, FreeNode]) -> Callable[[list[int]], bool]:
    """Return a test whether some positions have the devices asked for in all."""

    def has_devices(positions: list[int]) -> bool:
        return all(
            sum(usable_devices(need, nodes[position], name, kind) for position in positions)
            >= count
            for name, kind, count in need.gres_total
        )

    return has_devices


def _choose_near(
    need: Need, fitting: list[tuple[FreeNode, int]], layout: Layout
) -> list[tuple[FreeNode, int]] | None:
    """Choose by where nodes lie in the network."""
    nodes = {layout.position[node.node_id]: node for node, _ in fitting}
    has_devices = _device_test(need, nodes)
    fits = [(layout.position[node.node_id], fit) for node, fit in fitting]
    shares = choose_shares(
        layout, fits, need.tasks, need.nodes_max, wanted_nodes(need, layout), has_devices
    )
    if shares is None:
        return None
    return share_tasks(need, [(nodes[position], fit) for position, fit in shares], layout)


def _narrow(need: Need, fitting: list[tuple[FreeNode, int]]) -> list[tuple[FreeNode, int]]:
    """Drop nodes too small for their share where a fixed node count makes the share known."""
    share = -(-need.tasks // need.nodes_min)
    roomy = [pair for pair in fitting if pair[1] >= share or pair[0].node_id in need.required_nodes]
    return (
        roomy
        if len(roomy) >= need.nodes_min
        else sorted(
            fitting, key=lambda pair: (pair[0].node_id not in need.required_nodes, -pair[1])
        )
    )


def share_tasks(
    need: Need, chosen: list[tuple[FreeNode, int]], layout: Layout | None = None
) -> list[tuple[FreeNode, int]] | None:
    """Give each chosen node one task at least, then fill: required nodes, then lighter ones first.

    Jobs that have whole nodes get their tasks evenly, as Slurm 22.05 does it.
    Nodes stay in cluster order, those of one leaf switch or block together: ranks follow them.
    """
    chosen = sorted(chosen, key=lambda pair: pair[0].node_id)
    if layout is not None:
        position = layout.position
        turns = layout.turns([position[node.node_id] for node, _ in chosen])
        chosen.sort(key=lambda pair: turns[position[pair[0].node_id]])
    if need.tasks_per_node and need.fixed_tasks_per_node:
        return [(node, need.tasks_per_node) for node, _ in chosen]
    if need.listed_tasks:
        listed = dict(need.listed_tasks)
        fits = all(fit >= listed.get(node.node_id, 1) for node, fit in chosen)
        return [(node, listed.get(node.node_id, 1)) for node, _ in chosen] if fits else None
    task_count = need.tasks - len(chosen)
    if task_count < 0:
        return [(node, 1) for node, _ in chosen]
    if need.spread or need.is_exclusive:
        return _even_tasks(chosen, task_count)
    tasks = {}
    for node, fit in sorted(
        chosen, key=lambda pair: (pair[0].node_id not in need.required_nodes, pair[0].weight)
    ):
        more = min(fit - 1, task_count)
        task_count -= more
        tasks[node.node_id] = 1 + more
    if task_count:
        return None
    _fill_cores(need, chosen, tasks)
    return [(node, tasks[node.node_id]) for node, _ in chosen]


def _fill_cores(need: Need, chosen: list[tuple[FreeNode, int]], tasks: dict[int, int]) -> None:
    """Move tasks between nodes so that none has a core of several threads which is half used.

    Cores are given whole: two nodes with an odd task each would hold a core more than they need.
    """
    if need.overcommit or need.tasks_per_core or need.tasks_per_socket:
        return
    of_core = {
        node.node_id: max(1, threads_used(need, node.spec) // need.cpus_per_task)
        for node, _ in chosen
    }
    if max(of_core.values()) == 1:
        return
    room = {node.node_id: fit - tasks[node.node_id] for node, fit in chosen}
    for node_id, per_core in of_core.items():
        odd = tasks[node_id] % per_core
        if not odd:
            continue
        for other, others_per_core in of_core.items():
            if other == node_id:
                continue
            for more in (per_core - odd, -odd):  # fill the core, or do without it
                gives, takes = (other, node_id) if more > 0 else (node_id, other)
                moved = abs(more)
                is_whole = (tasks[other] - more) % others_per_core == 0
                if is_whole and tasks[gives] > moved and room[takes] >= moved:
                    break
            else:
                continue
            for position, change in ((node_id, more), (other, -more)):
                tasks[position] += change
                room[position] -= change
            break


def batch_node(
    request: JobRequest, allocs: Sequence[NodeAlloc], features: Sequence[tuple[str, ...]]
) -> int:
    """Return where the script of a job runs: --batch if one of its nodes suits, else the first.

    Args:
        features: of every node id.
    """
    expression = request.batch_features
    if expression:
        for alloc in allocs:
            if matches(expression, features[alloc.node_id]):
                return alloc.node_id
    return allocs[0].node_id


def _even_tasks(
    chosen: list[tuple[FreeNode, int]], task_count: int
) -> list[tuple[FreeNode, int]] | None:
    """Give a task to each node and the others round by round, as evenly as nodes can bear."""
    task_counts = [1] * len(chosen)
    while task_count:
        room = [index for index, (_, fit) in enumerate(chosen) if task_counts[index] < fit]
        if not room:
            return None
        # Whole rounds at once: under overcommit a job may have millions of tasks.
        least = min(chosen[index][1] - task_counts[index] for index in room)
        each = max(1, min(least, task_count // len(room)))
        for index in room:
            more = min(each, task_count)
            task_counts[index] += more
            task_count -= more
    return [(node, count) for (node, _), count in zip(chosen, task_counts, strict=True)]
