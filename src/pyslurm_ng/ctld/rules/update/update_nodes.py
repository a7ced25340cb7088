"""`scontrol update node`: states, reasons, weights, features."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.base.tres import TresError, parse_node_gres
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.conf.node_loss import policy
from pyslurm_ng.ctld.rules.configure import gres_text, node_gres
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.ends import lost_runs, node_loss
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.feature_nodes import after_features
from pyslurm_ng.ctld.rules.nodes import power, reboots
from pyslurm_ng.ctld.rules.nodes.future_nodes import without_host
from pyslurm_ng.ctld.rules.nodes.node_names import find_known_nodes
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node, is_part
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.model.topology import are_places
from pyslurm_ng.wire.query_messages import UpdateNodes

KEYS = (
    "state",
    "reason",
    "weight",
    "availablefeatures",
    "activefeatures",
    "comment",
    "cpubind",
    "extra",
    "gres",
    "instanceid",
    "instancetype",
    "nodeaddr",
    "nodehostname",
    "resumeafter",
    "topology",
    "nextstate",
)
_LISTS = ("instanceid", "instancetype", "nodeaddr", "nodehostname")  # a value for each node
CPU_BINDS = ("none", "socket", "ldom", "core", "thread", "off")
NEEDS_REASON = ("DOWN", "DRAIN", "FAIL")
STATES = (*NEEDS_REASON, "FUTURE", "IDLE", "NORESP", "RESUME", "UNDRAIN")
_INSTANCE_LENGTH = 255  # as a slurmd may say, `bounds.LabelText`
_HOST_LENGTH = 255  # as a slurmd may say, `bounds.HostText`
_PLACE_LENGTH = 4096  # of Topology=, `bounds.LineText`
_DRAINED = NodeFlag.DRAIN | NodeFlag.FAIL
_ENDS_SERVICE_STOP = _DRAINED | reboots.REBOOT_FLAGS


def update_nodes(cluster: Cluster, request: UpdateNodes, context: Context) -> Decision | Reject:
    """Change settings of the nodes named.

    Names of no node are refused, and the others change all the same, as in Slurm: an administrator
    drains a rack by a list with a node that is gone. Of nodes that are to return to service those
    do that can: some of the rack are in use.
    """
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    listed = find_known_nodes(cluster, request.nodes)
    if isinstance(listed, Reject):
        return Reject(listed.code)
    nodes, unknown = listed
    settings = request.settings
    if unknown and any(key in settings for key in _LISTS):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    for key in settings:
        if key not in KEYS:
            return Reject(Errno.ESLURM_NOT_SUPPORTED, key)
    fields = _plain_fields(settings, nodes, context)
    if isinstance(fields, Reject):
        return fields
    topology = settings.get("topology")
    if topology is not None:
        if len(topology) > _PLACE_LENGTH or not are_places(
            cluster.topologies, topology, [node.node_id for node in nodes]
        ):
            return Reject(Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE)
        fields["topology"] = topology
    instances = _instance_events(settings, nodes, context)
    if isinstance(instances, Reject):
        return instances
    resources = _gres(settings, nodes, context)
    if isinstance(resources, Reject):
        return resources
    hosts = _hosts(settings, nodes)
    if isinstance(hosts, Reject):
        return hosts
    bind = settings.get("cpubind")
    if bind is not None:
        kind = bind.lower().removesuffix("s")
        if kind not in CPU_BINDS:
            return Reject(Errno.ESLURM_NOT_SUPPORTED, f"CpuBind={bind}")
        resources = {**resources, "cpu_bind": "" if kind == "off" else kind}
    events: list[ev.AnyEvent] = [*instances]
    for node, host in zip(nodes, hosts, strict=True):
        if resources or host:
            events.append(_described(node, {**resources, **host}, context.now_us))
    ids = tuple(node.node_id for node in nodes)
    if fields:
        events.append(ev.NodeUpdated(time_us=context.now_us, node_ids=ids, fields=fields))
    if "availablefeatures" in settings:
        features = dict.fromkeys(ids, _words(settings["availablefeatures"]))
        events += after_features(cluster, context.conf, features, context.now_us)
    changes = _changes(cluster, nodes, settings, context)
    if isinstance(changes, Reject):
        return changes
    refused = int(Errno.ESLURM_INVALID_NODE_NAME) if unknown else changes.refused
    return Decision([*events, *changes.events], refused=refused)


def _changes(
    cluster: Cluster, nodes: list[Node], settings: dict[str, str], context: Context
) -> Decision | Reject:
    """Return what becomes of the nodes' states and reasons."""
    state, reason = settings.get("state", "").upper(), settings.get("reason", "")
    if not state:
        if "reason" in settings and (out_of_service := _out_of_service(nodes)):
            return Decision([_with_reason(out_of_service, reason, context, {})])
        return Decision()
    able = [node for node in nodes if _can_become(cluster, node, state)]
    if not able:
        return Reject(Errno.ESLURM_INVALID_NODE_STATE)
    if state in reboots.REBOOT_STATES:
        events = reboots.change(able, state, settings, context)
    elif state in power.STATES:
        events = power.change(cluster, able, state, reason, context)
    else:
        events = _state_events(cluster, able, state, reason, context)
    if isinstance(events, Reject):
        return events
    refused = Errno.ESLURM_INVALID_NODE_STATE if len(able) < len(nodes) else 0
    return Decision(events, refused=int(refused))


def _out_of_service(nodes: list[Node]) -> tuple[int, ...]:
    """Return the nodes that may have a reason; Slurm keeps none of a node that jobs can use."""
    return tuple(
        node.node_id for node in nodes if node.state == NodeState.DOWN or node.flags & _DRAINED
    )


def _plain_fields(
    settings: dict[str, str], nodes: list[Node], context: Context
) -> dict[str, object] | Reject:
    fields: dict[str, object] = {}
    weight = settings.get("weight")
    if weight is not None:
        number = whole_number(weight)
        if number is None or number >= NO_VAL:
            return Reject(Errno.ESLURM_INVALID_NODE_STATE, f"Weight={weight}")
        fields["weight"] = number
    for key in ("comment", "extra"):
        if key in settings:
            fields[key] = settings[key]
    resume_after = settings.get("resumeafter")
    if resume_after is not None:
        seconds = -1 if resume_after == "-1" else whole_number(resume_after)
        if seconds is None or seconds > INFINITE:
            return Reject(Errno.ESLURM_INVALID_TIME_VALUE, f"ResumeAfter={resume_after}")
        fields["resume_after_us"] = context.now_us + seconds * SECOND_US if seconds > 0 else 0
    available = settings.get("availablefeatures")
    active = settings.get("activefeatures")
    if available is not None:
        fields["features"] = fields["features_active"] = _words(available)
    if active is not None:
        fields["features_active"] = _words(active)
    if available is not None or active is not None:
        # What a node has active stays among what it may have, as in Slurm.
        for node in nodes:
            own = set(node.features_active if active is None else _words(active))
            if not own <= set(node.features if available is None else _words(available)):
                return Reject(Errno.ESLURM_ACTIVE_FEATURE_NOT_SUBSET)
    return fields


def _instance_events(
    settings: dict[str, str], nodes: list[Node], context: Context
) -> list[ev.NodeUpdated] | Reject:
    """InstanceId and InstanceType: one value for all nodes, or one for each in their order."""
    fields: list[dict[str, object]] = [{} for _ in nodes]
    for name, field in (("InstanceId", "instance_id"), ("InstanceType", "instance_type")):
        key = name.lower()
        if key not in settings:
            continue
        try:
            values = hostlist.expand_of_user(settings[key], len(nodes)) or [""]
        except hostlist.HostlistError as problem:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, f"{name}: {problem}")
        if len(values) == 1:
            values *= len(nodes)
        if len(values) != len(nodes) or any(len(value) > _INSTANCE_LENGTH for value in values):
            detail = (
                f"{name}: expected one value of at most {_INSTANCE_LENGTH} characters, "
                f"or one for each node ({len(nodes)})"
            )
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, detail)
        for values_of_node, value in zip(fields, values, strict=True):
            values_of_node[field] = value
    return [
        ev.NodeUpdated(time_us=context.now_us, node_ids=(node.node_id,), fields=values_of_node)
        for node, values_of_node in zip(nodes, fields, strict=True)
        if values_of_node
    ]


def _described(node: Node, spec: dict[str, object], now_us: int) -> ev.NodeUpdated:
    """Change how a node is described, until slurm.conf is read again."""
    fields: dict[str, object] = {"spec": replace(node.spec, **spec)}
    if "addr" in spec and node.facts.addr:
        fields["facts"] = replace(node.facts, addr=spec["addr"])  # until its slurmd says another
    return ev.NodeUpdated(now_us, (node.node_id,), fields)


def _hosts(settings: dict[str, str], nodes: list[Node]) -> list[dict[str, object]] | Reject:
    """NodeAddr and NodeHostName: one for each node, in their order."""
    hosts: list[dict[str, object]] = [{} for _ in nodes]
    for key, field in (("nodeaddr", "addr"), ("nodehostname", "hostname")):
        if key not in settings:
            continue
        try:
            names = hostlist.expand_of_user(settings[key], len(nodes) + 1)
        except hostlist.HostlistError:
            names = []
        if len(names) != len(nodes) or any(len(name) > _HOST_LENGTH for name in names):
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        for host, name in zip(hosts, names, strict=True):
            host[field] = name
    return hosts


def _gres(
    settings: dict[str, str], nodes: list[Node], context: Context
) -> dict[str, object] | Reject:
    """Gres: counts of resources; of devices all or none."""
    text = settings.get("gres")
    if text is None:
        return {}
    try:
        resources = parse_node_gres(text) if text else ()
    except TresError as error:
        return Reject(Errno.ESLURM_INVALID_GRES, str(error))
    for gres in resources:
        if gres.name not in context.conf.gres_types:
            return Reject(Errno.ESLURM_INVALID_GRES, f"{gres.name} is not in GresTypes")
    counts = Counter[str]()
    for gres in resources:
        counts[gres.name] += gres.amount
    for node in nodes:
        devices = Counter[str]()
        for registered in node.facts.gres:
            if registered.files and not is_part(registered.name):
                devices[registered.name] += registered.count
        for name, count in counts.items():
            if devices[name] and count not in (0, devices[name]):
                detail = f"{name}: node {node.spec.name} has {devices[name]}; allowed: that or 0"
                return Reject(Errno.ESLURM_INVALID_GRES, detail)
    return {"gres": node_gres(resources), "gres_text": gres_text(resources)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in text.split(",") if word))


def _with_reason(
    ids: tuple[int, ...], reason: str, context: Context, fields: dict[str, object]
) -> ev.NodeUpdated:
    if reason:
        fields |= {
            "reason": reason,
            "reason_us": context.now_us,
            "reason_uid": context.caller.uid,
        }
    return ev.NodeUpdated(time_us=context.now_us, node_ids=ids, fields=fields)


def _state_events(
    cluster: Cluster, nodes: list[Node], state: str, reason: str, context: Context
) -> list[ev.AnyEvent] | Reject:
    if state not in STATES:
        return Reject(Errno.ESLURM_INVALID_NODE_STATE)
    if state == "DOWN":
        return _down(cluster, nodes, reason, context)
    if state == "NORESP":
        ids = tuple(node.node_id for node in nodes)
        return [ev.NodesSilent(time_us=context.now_us, node_ids=ids, silent=True)]
    if state == "FUTURE":
        return _future(cluster, nodes, reason, context)
    if state in ("DRAIN", "FAIL"):
        flag = NodeFlag.DRAIN if state == "DRAIN" else NodeFlag.FAIL
        return [
            _with_reason((node.node_id,), reason, context, _stays_out(node, flag)) for node in nodes
        ]
    return _return(cluster, nodes, state, context)


def _stays_out(node: Node, flag: NodeFlag) -> dict[str, object]:
    """Return the fields of a node that an administrator drains, whatever becomes of its reboot.

    As in Slurm, a node is drained or fails: the later word holds.
    """
    kept = node.flags & ~_DRAINED
    fields: dict[str, object] = {"flags": int(kept | flag)}
    return fields | {"drains_to_reboot": False} if node.drains_to_reboot else fields


def _down(cluster: Cluster, nodes: list[Node], reason: str, context: Context) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []
    proof = lost_runs.administrators_word(reason, context.caller.user_name)
    already = tuple(node.node_id for node in nodes if node.state == NodeState.DOWN)
    fresh = tuple(node.node_id for node in nodes if node.state != NodeState.DOWN)
    if already and reason:
        events.append(_with_reason(already, reason, context, {}))
    if fresh:
        events += node_loss.nodes_down(
            cluster,
            fresh,
            reason,
            context.now_us,
            uid=context.caller.uid,
            rules=requeue_rules(context.conf),
            policy=policy(context.conf),
            proof=proof,
        )
    if proof:
        for node in nodes:
            events += lost_runs.over_on(cluster, node.spec.name, proof, context.now_us)
    return events


def _future(
    cluster: Cluster, nodes: list[Node], reason: str, context: Context
) -> list[ev.AnyEvent] | Reject:
    if any(cluster.node_index.use[node.node_id].allocs for node in nodes):
        return Reject(Errno.ESLURM_NODES_BUSY)
    ids = tuple(node.node_id for node in nodes)
    events: list[ev.AnyEvent] = []
    for node_id in ids:
        events += reboots.open_reboots(cluster, node_id, context.now_us)
    for node in nodes:
        spec = without_host(node, context.conf)
        if spec is not node.spec:
            events.append(ev.NodeUpdated(context.now_us, (node.node_id,), {"spec": spec}))
    fields = {"state": int(NodeState.FUTURE), "flags": 0, **reboots.AT_REST}
    return [*events, _with_reason(ids, reason, context, fields)]


def _can_become(cluster: Cluster, node: Node, state: str) -> bool:
    """Return whether a state of a node allows another: RESUME needs what is to end, IDLE no job."""
    if state == "RESUME":
        kept_out = NodeFlag.DRAIN | NodeFlag.FAIL | NodeFlag.NOT_RESPONDING | reboots.REBOOT_FLAGS
        return node.state in (NodeState.DOWN, NodeState.FUTURE) or bool(node.flags & kept_out)
    return state != "IDLE" or not cluster.node_index.use[node.node_id].allocs


def _return(cluster: Cluster, nodes: list[Node], state: str, context: Context) -> list[ev.AnyEvent]:
    """RESUME, IDLE and UNDRAIN: what kept nodes out of service ends, and so does its reason."""
    now_us = context.now_us
    events: list[ev.AnyEvent] = []
    for node in nodes:
        if state == "UNDRAIN" and not node.flags & _DRAINED:
            continue
        ends = _DRAINED if state == "UNDRAIN" else _ENDS_SERVICE_STOP
        fields: dict[str, object] = {"flags": int(node.flags & ~ends), "resume_after_us": 0}
        if state != "UNDRAIN" and node.flags & reboots.REBOOT_FLAGS:
            events += reboots.open_reboots(cluster, node.node_id, now_us)
            fields |= reboots.AT_REST
        returns = node.state in (NodeState.DOWN, NodeState.FUTURE) and state != "UNDRAIN"
        if node.state != NodeState.DOWN or returns:
            fields |= {"reason": "", "reason_us": 0, "reason_uid": 0}
        events.append(ev.NodeUpdated(time_us=now_us, node_ids=(node.node_id,), fields=fields))
        if returns:
            events.append(ev.NodesReturned(time_us=now_us, node_ids=(node.node_id,)))
            is_silent = bool(node.flags & NodeFlag.NOT_RESPONDING) or not node.registered_us
            if is_silent and not node.flags & power.ASLEEP:
                silent = ev.NodesSilent(time_us=now_us, node_ids=(node.node_id,), silent=True)
                events.append(silent)
    return events
