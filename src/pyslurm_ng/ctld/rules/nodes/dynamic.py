"""Dynamic nodes: `scontrol create nodename=`, `delete nodename=` and `slurmd -Z`.

They are described by a line of slurm.conf that slurm.conf does not have, and are kept over restarts
and reconfigurations until they are deleted. MaxNodeCount says how many nodes there may be.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.lexer import parse_words
from pyslurm_ng.conf.node_lines import NodeConf, build_nodes
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.configure import node_spec
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.rules.feature_nodes import after_features
from pyslurm_ng.ctld.rules.nodes.node_names import find_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.query_messages import CreateNodes, DeleteNodes

_STATES = ("CLOUD", "EXTERNAL", "FUTURE")
_WRONG_STATE = (
    "scontrol: error: Only State=FUTURE and State=CLOUD allowed for nodes created by scontrol"
)


def create_nodes(cluster: Cluster, request: CreateNodes, context: Context) -> Decision | Reject:
    """Make the nodes of a line that are not there yet; as in Slurm the others stay as they are."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    lines, problem = read_line(request.line, context.conf)
    if problem:
        detail = f"scontrol: error: {problem}\nscontrol: error: Failed to parse nodeline"
        return Reject(Errno.SLURM_ERROR, f"{detail} '{request.line}'")
    if any(line.state.upper() not in _STATES for line in lines):
        return Reject(Errno.ESLURM_INVALID_NODE_STATE, _WRONG_STATE)
    events = created(cluster, lines, context.conf, context.now_us)
    return events if isinstance(events, Reject) else Decision(events)


def joined(
    cluster: Cluster, name: str, line: str, conf: SlurmConf, now_us: int
) -> list[ev.AnyEvent] | Reject:
    """Return what makes the node of a slurmd that came with -Z and is not known."""
    lines, problem = read_line(line, conf)
    if problem or [known.name for known in lines] != [name]:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, problem or f"a line of {name} is expected")
    return created(cluster, [lines[0]._replace(state="UNKNOWN")], conf, now_us)


def read_line(line: str, conf: SlurmConf) -> tuple[Sequence[NodeConf], str]:
    """Return the nodes of a line, or what is wrong with it."""
    text = parse_words(line, "nodeline")
    is_nodes = bool(text.lines and text.lines[0]) and text.lines[0][0].key.lower() == "nodename"
    nodes: Sequence[NodeConf] = ()
    if is_nodes and not text.errors:
        nodes = build_nodes(text, text.lines, conf.slurmd_port, conf.gres_types)
    if text.errors:
        return (), str(text.errors[0])
    return nodes, "" if nodes else "expected NodeName=NAME and more keys of slurm.conf"


def created(
    cluster: Cluster, lines: Sequence[NodeConf], conf: SlurmConf, now_us: int
) -> list[ev.AnyEvent] | Reject:
    """Return the events that make nodes, and the partitions that get them by name set or ALL."""
    known = cluster.node_index.by_name
    new_lines = [line for line in lines if line.name not in known]
    if not new_lines:
        return []
    if len(known) + len(new_lines) > conf.max_node_count:
        first = new_lines[max(0, conf.max_node_count - len(known))].name
        detail = f"scontrol: error: Unable to add node, node table is full ({first})"
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT, detail)
    is_special_first = has_option(conf.scheduler_parameters, "spec_cores_first")
    specs = tuple(node_spec(line, is_special_first=is_special_first) for line in new_lines)
    first_id = len(cluster.nodes)
    features = {node_id: spec.features for node_id, spec in enumerate(specs, first_id)}
    return [
        ev.NodesCreated(now_us, first_id, specs, int(NodeFlag.DYNAMIC_NORM)),
        *after_features(cluster, conf, features, now_us),
    ]


def delete_nodes(cluster: Cluster, request: DeleteNodes, context: Context) -> Decision | Reject:
    """Delete nodes that slurm.conf does not have and that no job and no reservation uses."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if request.nodes.upper() == "ALL":
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    nodes = find_nodes(cluster, request.nodes)
    if isinstance(nodes, Reject):
        detail = f"scontrol: error: failed to delete nodes {nodes.detail or request.nodes}"
        return Reject(nodes.code, detail if request.nodes else "")
    kept = [(node, why) for node in nodes if (why := _why_kept(cluster, node))]
    if kept:
        node, why = kept[0]
        detail = f"scontrol: error: failed to delete nodes {node.spec.name}: {why[1]}"
        return Reject(why[0], detail)
    gone = frozenset(node.node_id for node in nodes)
    events: list[ev.AnyEvent] = []
    for node in nodes:
        proof = f"{node.spec.name} was deleted by {context.caller.user_name}"
        events += lost_runs.over_on(cluster, node.spec.name, proof, context.now_us)
    events += [
        ev.PartitionUpdated(context.now_us, _without(partition, gone))
        for partition in cluster.partitions.values()
        if not gone.isdisjoint(partition.node_ids)
    ]
    return Decision([*events, ev.NodesDeleted(context.now_us, tuple(sorted(gone)))])


def _without(partition: Partition, gone: Container[int]) -> Partition:
    node_ids = tuple(node_id for node_id in partition.node_ids if node_id not in gone)
    return msgspec.structs.replace(partition, node_ids=node_ids)


def _why_kept(cluster: Cluster, node: Node) -> tuple[int, str] | None:
    """Return why a node cannot be deleted; None if it can."""
    use = cluster.node_index.use[node.node_id]
    if not node.flags & NodeFlag.DYNAMIC_NORM:
        return Errno.ESLURM_INVALID_NODE_STATE, "it is in slurm.conf"
    if use.allocs or use.completing:
        return Errno.ESLURM_NODES_BUSY, "jobs are on it"
    if node.state != NodeState.DOWN and node.spec.name in cluster.job_index.lost_on:
        return Errno.ESLURM_NODES_BUSY, "a run that was lost may go on there; set it DOWN first"
    for reservation in cluster.reservations.values():
        if node.node_id in reservation.node_ids:
            return Errno.ESLURM_NODES_BUSY, f"reservation {reservation.name} has it"
    return None
