"""slurm.conf -> the event that tells the Cluster of its nodes and partitions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.tres import NodeGres as ConfGres
from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.conf.node_loss import policy
from pyslurm_ng.conf.power import is_on
from pyslurm_ng.conf.slurm_conf import PartitionConf, SlurmConf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.conf.torus_conf import TorusConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.cluster_values import MODEL_FIELDS
from pyslurm_ng.ctld.rules.ends import lost_runs, node_loss
from pyslurm_ng.ctld.rules.ends.requeue import requeue_rules
from pyslurm_ng.ctld.rules.feature_nodes import with_members
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import RUNS_EPILOG, RUNS_PROLOG, RUNS_RESUME, Cluster, remote_licenses
from pyslurm_ng.model.node import DownNode, NodeGres, NodeSpec, with_parts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.model.topology import Block, Switch, Topology
from pyslurm_ng.model.torus import Placement, Region, Torus

_NODE_REMOVED = "Node removed from the configuration"
_KEPT_OUT = {"DRAIN": NodeFlag.DRAIN, "FAIL": NodeFlag.FAIL, "FAILING": NodeFlag.FAIL}


def configure(
    cluster: Cluster,
    conf: SlurmConf,
    now_us: int,
    topologies: Sequence[TopologyConf] = (),
    *,
    keep_partitions: bool = False,
) -> list[ev.AnyEvent]:
    """Return the events that bring `cluster` in line with `conf`.

    Nodes that are no longer configured are lost to their jobs first.

    Args:
        topologies: the network, from topology.conf or topology.yaml.
        keep_partitions: partitions made or changed by hand stay (a restart, not a reconfigure).
    """
    events: list[ev.AnyEvent] = []
    named = {node.name for node in conf.nodes}
    others = [node for node in cluster.living_nodes() if node.spec.name not in named]
    dynamic = [node for node in others if node.flags & NodeFlag.DYNAMIC_NORM]
    gone = tuple(node.node_id for node in others if not node.flags & NodeFlag.DYNAMIC_NORM)
    if any(cluster.node_index.use[node_id].allocs for node_id in gone):
        events += node_loss.nodes_down(
            cluster,
            gone,
            _NODE_REMOVED,
            now_us,
            rules=requeue_rules(conf),
            policy=policy(conf),
        )
    events += lost_runs.configured(cluster, conf, gone, now_us)
    events += _down_again(cluster, conf, now_us)
    events += _no_longer_dynamic(cluster, named, now_us)
    node_ids = _future_ids(cluster, conf)
    features = _future_features(cluster, conf, node_ids)
    features |= {node.node_id: node.features for node in dynamic}
    rule = billing_rule(conf)
    partitions = [
        with_members(conf, _partition(partition, node_ids, rule), features, node_ids)
        for partition in conf.partitions
    ]
    if keep_partitions and cluster.partitions:
        partitions = _merge(cluster, conf, partitions)
    is_special_first = has_option(conf.scheduler_parameters, "spec_cores_first")
    events.append(
        ev.ConfigLoaded(
            time_us=now_us,
            cluster_name=conf.cluster_name,
            nodes=(
                *(
                    _with_host(cluster, node_spec(node, is_special_first=is_special_first))
                    for node in conf.nodes
                ),
                *(node.spec for node in dynamic),
            ),
            partitions=tuple(partitions),
            down_nodes=tuple(
                DownNode(line.node_names, line.state, line.reason) for line in conf.down_nodes
            ),
            licenses=(*conf.licenses, *remote_licenses(cluster)),
            conf_hash=conf.text_hash,
            first_job_id=conf.first_job_id,
            max_job_id=conf.max_job_id,
            topologies=tuple(_topology(topology, node_ids) for topology in topologies),
            programs=_programs(conf),
        )
    )
    return events


def _with_host(cluster: Cluster, spec: NodeSpec) -> NodeSpec:
    """Return a node of slurm.conf with the host that it has taken, if it has taken one."""
    node_id = cluster.node_index.by_name.get(spec.name)
    node = cluster.nodes[node_id] if node_id is not None else None
    if node is None or not node.flags & NodeFlag.DYNAMIC_FUTURE:
        return spec
    return replace(spec, hostname=node.spec.hostname, addr=node.spec.addr)


def _no_longer_dynamic(cluster: Cluster, named: set[str], now_us: int) -> list[ev.AnyEvent]:
    """Return the events of dynamic nodes that slurm.conf has now."""
    events: list[ev.AnyEvent] = []
    for node in cluster.living_nodes():
        if node.flags & NodeFlag.DYNAMIC_NORM and node.spec.name in named:
            flags = int(node.flags & ~NodeFlag.DYNAMIC_NORM)
            events.append(ev.NodeUpdated(now_us, (node.node_id,), {"flags": flags}))
    return events


def _down_again(cluster: Cluster, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    """Return the events that put known nodes out of service as DownNodes says.

    New nodes begin so. Known ones follow at each start and reconfigure, as in Slurm, also those
    that were resumed meanwhile.
    """
    events: list[ev.AnyEvent] = []
    ids = cluster.node_index.by_name
    for line in conf.down_nodes:
        nodes = [cluster.node(ids[name]) for name in line.node_names if name in ids]
        state = line.state.upper()
        lost = tuple(node.node_id for node in nodes if node.state != NodeState.DOWN)
        if state == "DOWN" and lost:
            events += node_loss.nodes_down(
                cluster, lost, line.reason, now_us, rules=requeue_rules(conf), policy=policy(conf)
            )
        flag = _KEPT_OUT.get(state, NodeFlag.NONE)
        for node in nodes:
            if flag & ~node.flags:
                fields: dict[str, object] = {"flags": int(node.flags | flag), "reason_us": now_us}
                fields |= {"reason": line.reason, "reason_uid": 0}
                events.append(ev.NodeUpdated(now_us, (node.node_id,), fields))
    return events


def _programs(conf: SlurmConf) -> int:
    """Return RUNS_* bits for what the controller itself runs for every job."""
    programs = RUNS_PROLOG if conf.prolog_slurmctld else 0
    programs |= RUNS_RESUME if is_on(conf) else 0
    return programs | (RUNS_EPILOG if conf.epilog_slurmctld else 0)


def billing_rule(conf: SlurmConf) -> str:
    """Return the flag that says how billing terms become one number; "" for their sum."""
    flags = {flag.upper() for flag in conf.priority_flags}
    return next((rule for rule in ("MAX_TRES_GRES", "MAX_TRES") if rule in flags), "")


def _merge(cluster: Cluster, conf: SlurmConf, fresh: list[Partition]) -> list[Partition]:
    """Keep what was changed by hand while slurm.conf has not changed; else take the file's."""
    if cluster.conf_hash != conf.text_hash:
        return fresh
    return list(cluster.partitions.values())


def _future_ids(cluster: Cluster, conf: SlurmConf) -> dict[str, int]:
    """Return the node ids as apply will give them: old ones stay, new ones follow."""
    node_ids = dict(cluster.node_index.by_name)
    following = len(cluster.nodes)
    for node in conf.nodes:
        if node.name not in node_ids:
            node_ids[node.name] = following
            following += 1
    return node_ids


def _future_features(
    cluster: Cluster, conf: SlurmConf, node_ids: dict[str, int]
) -> dict[int, tuple[str, ...]]:
    """Return the features that nodes will have: those set by hand stay until the line changes."""
    features = {}
    for line in conf.nodes:
        node_id = node_ids[line.name]
        node = cluster.nodes[node_id] if node_id < len(cluster.nodes) else None
        is_kept = node is not None and node.spec.features == line.features
        features[node_id] = node.features if node is not None and is_kept else line.features
    return features


def node_gres(resources: Sequence[ConfGres]) -> tuple[NodeGres, ...]:
    """Return the model's form of Gres= of a node; devices are numbered over all types of a name."""
    gres = []
    next_index: dict[str, int] = {}
    for resource in resources:
        first = next_index.get(resource.name, 0)
        next_index[resource.name] = first + resource.amount
        flags = "" if resource.is_consumed else "no_consume"
        gres.append(
            NodeGres(
                resource.name, resource.type_name, resource.amount, flags=flags, first_index=first
            )
        )
    return with_parts(gres)


def gres_text(resources: Sequence[ConfGres]) -> str:
    """Return Gres= of a node as it is shown."""
    return ",".join(map(str, resources))


def node_spec(node: NodeConf, *, is_special_first: bool = False) -> NodeSpec:
    """Return the model's form of a configured node."""
    # CPUs that count cores: each core is one CPU, though it may have several threads.
    threads = min(
        node.threads_per_core, max(1, node.cpus // max(1, node.sockets * node.cores_per_socket))
    )
    return NodeSpec(
        name=node.name,
        hostname=node.hostname,
        addr=node.address,
        port=node.port,
        cpus=node.cpus,
        boards=node.boards,
        sockets=node.sockets,
        cores_per_socket=node.cores_per_socket,
        threads_per_core=threads,
        real_memory_mib=node.real_memory_mib,
        tmp_disk_mib=node.tmp_disk_mib,
        core_spec_count=node.core_spec_count,
        cpu_spec_list=",".join(map(str, node.cpu_spec_list)),
        mem_spec_limit_mib=node.mem_spec_limit_mib,
        weight=node.weight,
        features=node.features,
        gres=node_gres(node.gres),
        gres_text=gres_text(node.gres),
        state=node.state,
        reason=node.reason,
        topology=node.topology,
        bcast_addr=node.bcast_address,
        restricted_cores_per_gpu=node.restricted_cores_per_gpu,
        is_special_first=is_special_first,
        suspend_time_s=node.suspend_time_s,
        cpu_bind=node.cpu_bind,
    )


def _mib(value: int) -> int:
    return 0 if value == NO_VAL else value


def _partition(line: PartitionConf, node_ids: dict[str, int], rule: str) -> Partition:
    return Partition(
        name=line.name,
        node_ids=tuple(node_ids[name] for name in line.node_names),
        nodes_text=line.nodes,
        is_default=line.default,
        state=line.state,
        max_time_min=line.max_time,
        default_time_min=line.default_time,
        min_nodes=line.min_nodes,
        max_nodes=line.max_nodes,
        max_cpus_per_node=line.max_cpus_per_node,
        max_cpus_per_socket=line.max_cpus_per_socket,
        def_mem_per_cpu_mib=_mib(line.def_mem_per_cpu),
        def_mem_per_node_mib=_mib(line.def_mem_per_node),
        def_mem_per_gpu_mib=_mib(line.def_mem_per_gpu),
        def_cpus_per_gpu=_mib(line.def_cpu_per_gpu),
        max_mem_per_cpu_mib=_mib(line.max_mem_per_cpu),
        max_mem_per_node_mib=_mib(line.max_mem_per_node),
        allow_groups=line.allow_groups,
        allow_accounts=line.allow_accounts,
        deny_accounts=line.deny_accounts,
        allow_qos=line.allow_qos,
        deny_qos=line.deny_qos,
        alloc_nodes=line.alloc_nodes,
        alternate=line.alternate,
        disable_root_jobs=line.disable_root_jobs,
        root_only=line.root_only,
        req_resv=line.req_resv,
        hidden=line.hidden,
        lln=line.lln,
        exclusive=line.exclusive,
        oversubscribe=line.over_subscribe,
        over_time_limit_min=line.over_time_limit,
        grace_time_s=line.grace_time,
        preempt_mode=",".join(line.preempt_mode),
        priority_tier=line.priority_tier,
        priority_job_factor=line.priority_job_factor,
        qos=line.qos,
        select_type_parameters=",".join(line.select_type_parameters),
        resume_timeout_s=line.resume_timeout,
        suspend_time_s=line.suspend_time,
        suspend_timeout_s=line.suspend_timeout,
        power_down_on_idle=line.power_down_on_idle,
        topology=line.topology,
        tres_billing_weights=line.tres_billing_weights,
        billing_rule=rule,
        cpu_bind=line.cpu_bind,
        inherited=tuple(MODEL_FIELDS[attribute] for attribute in line.inherited),
    )


def _topology(line: TopologyConf, node_ids: dict[str, int]) -> Topology:
    return Topology(
        name=line.name,
        kind=line.kind,
        switches=tuple(
            Switch(
                switch.name,
                switch.level,
                tuple(node_ids[name] for name in switch.node_names),
                switch.children,
                switch.parent,
                switch.link_speed,
            )
            for switch in line.switches
        ),
        blocks=tuple(
            Block(block.name, tuple(node_ids[name] for name in block.node_names))
            for block in line.blocks
        ),
        block_sizes=line.block_sizes,
        is_default=line.is_default,
        toruses=tuple(_torus(torus, node_ids) for torus in line.toruses),
    )


def _torus(line: TorusConf, node_ids: dict[str, int]) -> Torus:
    return Torus(
        line.name,
        line.dims,
        tuple(
            Region(region.anchor, region.dims, tuple(node_ids[name] for name in region.node_names))
            for region in line.regions
        ),
        tuple(Placement(*placement) for placement in line.placements),
    )
