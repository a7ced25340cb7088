"""slurm.conf -> the event that tells the Cluster of its nodes and partitions."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.conf.node_loss import policy
from pyslurm_ng.conf.slurm_conf import PartitionConf, SlurmConf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.ends import lost_runs, node_loss
from pyslurm_ng.ctld.rules.ends.requeue import again
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import RUNS_EPILOG, RUNS_PROLOG, Cluster, remote_licenses
from pyslurm_ng.model.node import DownNode, NodeGres, NodeSpec, with_parts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.topology import Block, Switch, Topology

_NODE_REMOVED = "Node removed from the configuration"


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
    gone = tuple(node.node_id for node in cluster.living_nodes() if node.spec.name not in named)
    if any(cluster.node_index.use[node_id].allocs for node_id in gone):
        events += node_loss.nodes_down(
            cluster,
            gone,
            _NODE_REMOVED,
            now_us,
            rules=again(conf),
            policy=policy(conf),
        )
    events += lost_runs.configured(cluster, conf, gone, now_us)
    node_ids = _future_ids(cluster, conf)
    partitions = [_partition(item, node_ids, billing_rule(conf)) for item in conf.partitions]
    if keep_partitions and cluster.partitions:
        partitions = _merge(cluster, conf, partitions)
    is_special_first = has_option(conf.scheduler_parameters, "spec_cores_first")
    events.append(
        ev.ConfigLoaded(
            time_us=now_us,
            cluster_name=conf.cluster_name,
            nodes=tuple(node_spec(node, is_special_first=is_special_first) for node in conf.nodes),
            partitions=tuple(partitions),
            down_nodes=tuple(
                DownNode(line.node_names, line.state, line.reason) for line in conf.down_nodes
            ),
            licenses=(*conf.licenses, *remote_licenses(cluster)),
            conf_hash=conf.text_hash,
            first_job_id=conf.first_job_id,
            max_job_id=conf.max_job_id,
            topologies=tuple(_topology(item, node_ids) for item in topologies),
            programs=_programs(conf),
        )
    )
    return events


def _programs(conf: SlurmConf) -> int:
    """Return RUNS_* bits for what the controller itself runs for every job."""
    programs = RUNS_PROLOG if conf.prolog_slurmctld else 0
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


def node_spec(node: NodeConf, *, is_special_first: bool = False) -> NodeSpec:
    """Return the model's form of a configured node."""
    gres = []
    next_index: dict[str, int] = {}
    for item in node.gres:
        first = next_index.get(item.name, 0)
        next_index[item.name] = first + item.amount
        flags = "" if item.is_consumed else "no_consume"
        gres.append(
            NodeGres(item.name, item.type_name, item.amount, flags=flags, first_index=first)
        )
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
        gres=with_parts(gres),
        gres_text=",".join(str(item) for item in node.gres),
        state=node.state,
        reason=node.reason,
        topology=node.topology,
        bcast_addr=node.bcast_address,
        restricted_cores_per_gpu=node.restricted_cores_per_gpu,
        is_special_first=is_special_first,
    )


def _mib(value: int) -> int:
    return 0 if value == NO_VAL else value


def _partition(item: PartitionConf, node_ids: dict[str, int], rule: str) -> Partition:
    return Partition(
        name=item.name,
        node_ids=tuple(node_ids[name] for name in item.node_names),
        nodes_text=item.nodes,
        is_default=item.default,
        state=item.state,
        max_time_min=item.max_time,
        default_time_min=item.default_time,
        min_nodes=item.min_nodes,
        max_nodes=item.max_nodes,
        max_cpus_per_node=item.max_cpus_per_node,
        max_cpus_per_socket=item.max_cpus_per_socket,
        def_mem_per_cpu_mib=_mib(item.def_mem_per_cpu),
        def_mem_per_node_mib=_mib(item.def_mem_per_node),
        def_mem_per_gpu_mib=_mib(item.def_mem_per_gpu),
        def_cpus_per_gpu=_mib(item.def_cpu_per_gpu),
        max_mem_per_cpu_mib=_mib(item.max_mem_per_cpu),
        max_mem_per_node_mib=_mib(item.max_mem_per_node),
        allow_groups=item.allow_groups,
        allow_accounts=item.allow_accounts,
        deny_accounts=item.deny_accounts,
        allow_qos=item.allow_qos,
        deny_qos=item.deny_qos,
        alloc_nodes=item.alloc_nodes,
        alternate=item.alternate,
        disable_root_jobs=item.disable_root_jobs,
        root_only=item.root_only,
        req_resv=item.req_resv,
        hidden=item.hidden,
        lln=item.lln,
        exclusive=item.exclusive,
        oversubscribe=item.over_subscribe,
        over_time_limit_min=item.over_time_limit,
        grace_time_s=item.grace_time,
        preempt_mode=",".join(item.preempt_mode),
        priority_tier=item.priority_tier,
        priority_job_factor=item.priority_job_factor,
        qos=item.qos,
        select_type_parameters=",".join(item.select_type_parameters),
        resume_timeout_s=item.resume_timeout,
        suspend_time_s=item.suspend_time,
        suspend_timeout_s=item.suspend_timeout,
        power_down_on_idle=item.power_down_on_idle,
        topology=item.topology,
        tres_billing_weights=item.tres_billing_weights,
        billing_rule=rule,
    )


def _topology(item: TopologyConf, node_ids: dict[str, int]) -> Topology:
    return Topology(
        name=item.name,
        kind=item.kind,
        switches=tuple(
            Switch(
                switch.name,
                switch.level,
                tuple(node_ids[name] for name in switch.node_names),
                switch.children,
                switch.parent,
                switch.link_speed,
            )
            for switch in item.switches
        ),
        blocks=tuple(
            Block(block.name, tuple(node_ids[name] for name in block.node_names))
            for block in item.blocks
        ),
        block_sizes=item.block_sizes,
        is_default=item.is_default,
    )
