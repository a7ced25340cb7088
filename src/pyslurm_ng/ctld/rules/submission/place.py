"""Where a job may run: partitions, nodes, features, generic resources, licences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL, REQ_HOLD, REQ_MEM_SET, REQ_NODES_SET, REQ_OVERCOMMIT
from pyslurm_ng.base.request_words import samples_too_rarely
from pyslurm_ng.base.tres import Gres, MixedTypesError, TresError, parse_gres
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option, option_int
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submission.account import Standing
from pyslurm_ng.ctld.rules.submission.feasible import (
    feasible,
    feasible_inside,
    least_mem_mib,
    size_of,
)
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.license_server import is_remote, license_counts
from pyslurm_ng.model.node import is_part
from pyslurm_ng.model.partition import Partition, opened
from pyslurm_ng.model.sizes import (
    job_sizes,
    mem_of_node_mib,
    memory_amounts,
    node_sizes,
    total,
    wants_gpus,
)
from pyslurm_ng.sched.cons_tres.layout import LayoutError, parse_distribution
from pyslurm_ng.sched.demand.demand import limit_in
from pyslurm_ng.sched.frame.answers import answers
from pyslurm_ng.sched.frame.policy import selection
from pyslurm_ng.sched.request import extra, features
from pyslurm_ng.sched.request.need import Selection, node_ids

_MOST_MEM_MIB = 1 << 42
"""For all nodes of a job: 4 EiB, still below 2**63 times what a node has of anything."""
_MOST_CPUS = 65535
"""Of one task; MaxMemPerCPU makes more CPUs of more memory."""
_MOST_KINDS = 64
"""Of generic resources and their types that one job names; each is looked at on each node."""
_CLOSED = ("DRAIN", "INACTIVE")
"""States of partitions that take no new jobs."""
_MAX_SWITCH_WAIT_S = 300
_MAX_COUNT = 1 << 22  # tasks or nodes beyond it fit no cluster and no record
_LICENSE_NAME = re.compile(r"[^,|:=]+(?=[,|:=]|$)")
"""NAME is this cluster's own, NAME@SERVER another server's."""


# What the request names -----------------------------------------------------------------------


def check_names(
    cluster: Cluster, request: JobRequest, conf: SlurmConf
) -> tuple[Partition, ...] | Reject:
    """Refuse names that do not exist and counts out of range; return the partitions wanted."""
    partitions = _partitions(cluster, request)
    if isinstance(partitions, Reject):
        return partitions
    refusal = (
        _check_counts(request)
        or _check_sampling(request, partitions[0], conf)
        or _check_nodes(cluster, request)
        or _check_features(cluster, request, conf)
        or _check_gres(request, conf)
        or _check_licenses(cluster, request, conf)
    )
    return refusal or partitions


def _partitions(cluster: Cluster, request: JobRequest) -> tuple[Partition, ...] | Reject:
    reservation = cluster.reservations.get(request.reservation)
    if not request.partition and reservation is not None:
        own = cluster.partitions.get(reservation.partition)
        if own is not None:
            return (own,)
    if not request.partition:
        default = cluster.default_partition()
        if default is None:
            return Reject(Errno.ESLURM_DEFAULT_PARTITION_NOT_SET)
        return (in_use(cluster, default),)
    partitions: dict[str, Partition] = {}
    for name in [*filter(None, request.partition.split(","))] or ["(null)"]:
        partition = cluster.partitions.get(name)
        if partition is None:
            detail = f"invalid partition specified: {name}"
            return Reject(Errno.ESLURM_INVALID_PARTITION_NAME, detail)
        partition = in_use(cluster, partition)
        partitions[partition.name] = partition
    return tuple(partitions.values())


def in_use(cluster: Cluster, partition: Partition) -> Partition:
    """Return a partition, or where it takes no jobs the one that its Alternate leads to.

    Where all of them take none it is the partition itself, for the refusal to name.
    """
    passed: set[str] = set()
    current: Partition | None = partition
    while current is not None and current.name not in passed:
        if current.state not in _CLOSED:
            return current
        passed.add(current.name)
        current = cluster.partitions.get(current.alternate)
    return partition


def by_tier(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return a job's partitions as it keeps and shows them: those of higher tiers first."""
    return tuple(sorted(partitions, key=lambda partition: -partition.priority_tier))


def switches_wait_s(conf: SlurmConf, asked_s: int) -> int:
    """Return for how long a job may wait for few leaf switches, at most max_switch_wait."""
    longest_s = option_int(conf.scheduler_parameters, "max_switch_wait", _MAX_SWITCH_WAIT_S)
    return min(asked_s, longest_s)


def _check_counts(request: JobRequest) -> Reject | None:
    if request.flags & REQ_NODES_SET and not request.nodes_min:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if request.nodes_max and request.nodes_max < request.nodes_min:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if request.node_sizes:
        try:
            sizes = node_sizes(request.node_sizes)
        except ValueError:
            return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
        ends = min(part[0] for part in sizes), max(part[-1] for part in sizes)
        if ends != (request.nodes_min, request.nodes_max):
            return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if not 0 <= request.nodes_min <= _MAX_COUNT or not 0 <= request.nodes_max <= _MAX_COUNT:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if not 0 <= request.ntasks <= _MAX_COUNT * 1024 or not 0 <= request.ntasks_per_node <= 65535:
        return Reject(Errno.ESLURM_BAD_TASK_COUNT)
    if not 0 <= request.cpus_per_task <= 65535 or not 0 <= request.mincpus <= 65535:
        return Reject(Errno.ESLURM_INVALID_CPU_COUNT)
    try:
        parse_distribution(request.distribution, request.plane_size)
    except LayoutError as error:
        return Reject(Errno.ESLURM_BAD_DIST, f"distribution: {error}")
    amounts = (request.mem_per_node_mib, request.mem_per_cpu_mib, request.mem_per_gpu_mib)
    if any(not 0 <= amount < 1 << 53 for amount in amounts) or sum(map(bool, amounts)) > 1:
        return Reject(Errno.ESLURM_INVALID_TASK_MEMORY)
    return None


def _check_sampling(request: JobRequest, partition: Partition, conf: SlurmConf) -> Reject | None:
    """Refuse to sample a job's memory less often than its limit is watched."""
    has_limit = any(memory_amounts(request, partition)[:3])
    if has_limit and samples_too_rarely(request.acctg_freq, conf.job_acct_gather_frequency):
        return Reject(Errno.ESLURMD_INVALID_ACCT_FREQ)
    return None


def check_memory(request: JobRequest, partition: Partition) -> Reject | None:
    """Refuse memory that, with the CPUs, GPUs or nodes asked for, is no number of 64 bits."""
    if not (any(memory_amounts(request, partition)[:3]) or wants_gpus(request)):
        return None
    sizes = job_sizes(request, partition)
    for field, amount, count in (
        ("mem_per_node_mib", sizes.mem_per_node_mib, sizes.nodes_min),
        ("mem_per_cpu_mib", sizes.mem_per_cpu_mib, sizes.cpus),
        ("mem_per_gpu_mib", sizes.mem_per_gpu_mib, max(sizes.cpus, total(request.gpus))),
    ):
        if amount * max(count, sizes.nodes_min) > _MOST_MEM_MIB or sizes.cpus_per_task > _MOST_CPUS:
            text = f"{field}: {amount} MiB, {count} times, are more than can be counted"
            return Reject(Errno.ESLURM_INVALID_TASK_MEMORY, text)
    return None


def _check_nodes(cluster: Cluster, request: JobRequest) -> Reject | None:
    for text in (request.node_list, request.exclude):
        if not text:
            continue
        try:
            names = hostlist.expand_of_user(text, len(cluster.node_index.by_name))
        except hostlist.HostlistError:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        if not cluster.node_index.by_name.keys() >= set(names):
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    return None


def _check_features(cluster: Cluster, request: JobRequest, conf: SlurmConf) -> Reject | None:
    words = conf.scheduler_parameters
    for text, option, error in (
        (request.constraint, "ignore_constraint_validation", Errno.ESLURM_INVALID_FEATURE),
        (request.prefer, "ignore_prefer_validation", Errno.ESLURM_INVALID_PREFER),
    ):
        if not text:
            continue
        try:
            features.ways(text)
        except features.FeatureError:
            return Reject(error)
        known = _known_features(cluster)
        is_known = all(name in known for name in features.names(text))
        if not is_known and not has_option(words, option):
            return Reject(error)
    return _check_batch_features(request)


def _check_batch_features(request: JobRequest) -> Reject | None:
    """Refuse --batch but for features that --constraint names: no other node might be there."""
    if not request.batch_features:
        return None
    try:
        features.ways(request.batch_features)
    except features.FeatureError:
        return Reject(Errno.ESLURM_BATCH_CONSTRAINT)
    named = set(features.names(request.constraint)) if request.constraint else set()
    if not named.issuperset(features.names(request.batch_features)):
        return Reject(Errno.ESLURM_BATCH_CONSTRAINT)
    return None


def node_extra(text: str, conf: SlurmConf) -> str | Reject:
    """Return what `--extra` demands of nodes: nothing unless extra_constraints makes it do so."""
    if not text or not has_option(conf.scheduler_parameters, "extra_constraints"):
        return ""
    try:
        extra.parse(text)
    except extra.ExtraError as error:
        return Reject(Errno.ESLURM_INVALID_FEATURE, f"--extra={text}: {error}")
    return text


def _known_features(cluster: Cluster) -> frozenset[str]:
    kept = answers(cluster)
    known = kept.get("features")
    if known is None:
        known = frozenset(
            name
            for node in cluster.living_nodes()
            for name in (*node.features, *node.features_active)
        )
        kept["features"] = known
    assert isinstance(known, frozenset)
    return known


def requested_resources(request: JobRequest) -> list[Gres]:
    """Return every generic resource a request names.

    Raises:
        TresError: one of the texts cannot be read.
    """
    resources = [
        gres for text in (request.gres, request.tres_per_task) for gres in parse_gres(text)
    ]
    for text in (
        request.gpus,
        request.gpus_per_node,
        request.gpus_per_socket,
        request.gpus_per_task,
    ):
        for part in text.split(",") if text else ():
            kind, _, count = part.rpartition(":")
            if not (count.isascii() and count.isdigit() and len(count) < 10):
                raise TresError(f"{part}: expected [type:]count")
            resources.append(Gres("gpu", kind, int(count)))
    if len(resources) > _MOST_KINDS:
        raise TresError(f"at most {_MOST_KINDS} kinds of generic resources are allowed")
    return resources


def _check_gres(request: JobRequest, conf: SlurmConf) -> Reject | None:
    if request.gres.endswith(","):
        return Reject(Errno.ESLURM_INVALID_TRES)  # the last name is empty
    try:
        resources = requested_resources(request)
    except MixedTypesError:
        return Reject(Errno.ESLURM_INVALID_GRES_TYPE)
    except TresError:
        return Reject(Errno.ESLURM_INVALID_GRES)
    if any(resource.amount and resource.name not in conf.gres_types for resource in resources):
        return Reject(Errno.ESLURM_INVALID_GRES)
    names = {resource.name for resource in resources}
    if any(map(is_part, names)) and (len(names & {"gpu", "mps", "shard"}) > 1):
        return Reject(Errno.ESLURM_INVALID_GRES)  # a GPU is had whole or in parts of one name
    if "mps" in names and request.nodes_min > 1:
        return Reject(Errno.ESLURM_INVALID_GRES)  # its server serves one node
    if total(request.gpus) and _gpus_contradict(request):
        return Reject(Errno.ESLURM_INVALID_GRES)
    if request.gpus_per_node and any(gres.name == "gpu" for gres in parse_gres(request.gres)):
        return Reject(Errno.ESLURM_INVALID_GRES)
    return None


def _gpus_contradict(request: JobRequest) -> bool:
    """Return whether the GPUs of the job are not what its nodes or tasks add up to."""
    whole = total(request.gpus)
    per_node = total(request.gpus_per_node)
    per_node += sum(gres.amount for gres in parse_gres(request.gres) if gres.name == "gpu")
    if whole < request.nodes_min:
        return True
    if per_node and (whole % per_node or whole // per_node < request.nodes_min):
        return True
    if per_node and request.nodes_max and whole // per_node > request.nodes_max:
        return True
    per_task = total(request.gpus_per_task)
    if per_task and request.ntasks:
        return per_task * request.ntasks != whole
    return bool(per_task and whole % per_task)


def full_license_names(cluster: Cluster, text: str, conf: SlurmConf) -> str:
    """Return what `--licenses` asks for with servers filled in, where RemoteFuzzyMatch lets users
    leave them out: a name of no local licence, and of just one server's."""
    if not text or not has_option(conf.license_parameters, "RemoteFuzzyMatch"):
        return text
    servers: dict[str, list[str]] = {}
    for full in filter(is_remote, cluster.licenses):
        servers.setdefault(full.partition("@")[0], []).append(full)

    def full_name(match: re.Match[str]) -> str:
        name = match[0]
        known = servers.get(name, [])
        return known[0] if name not in cluster.licenses and len(known) == 1 else name

    return _LICENSE_NAME.sub(full_name, text)


def with_full_license_names(cluster: Cluster, request: JobRequest, conf: SlurmConf) -> JobRequest:
    """Return a request whose licences have full names, see `full_license_names`."""
    licenses = full_license_names(cluster, request.licenses, conf)
    if licenses == request.licenses:
        return request
    return msgspec.structs.replace(request, licenses=licenses)


def _check_licenses(cluster: Cluster, request: JobRequest, conf: SlurmConf) -> Reject | None:
    may_wait = has_option(conf.scheduler_parameters, "allow_zero_lic")
    return license_refusal(cluster, request.licenses, may_wait=may_wait)


def license_refusal(cluster: Cluster, text: str, *, may_wait: bool) -> Reject | None:
    """Return why a job cannot have licences; with `may_wait` it may ask for more than there are."""
    if "|" in text and "," in text:
        return Reject(Errno.ESLURM_INVALID_LICENSES, "names are joined by , or by |, not by both")
    together: dict[str, int] = {}
    try:
        counts = license_counts(text.replace("|", ","))
    except ValueError:
        return Reject(Errno.ESLURM_INVALID_LICENSES)
    for name, count in counts:
        most = cluster.licenses.get(name)
        if most is None and is_remote(name):
            detail = f"licence {name}: sacctmgr show resource withclusters says what there is"
            return Reject(Errno.ESLURM_INVALID_LICENSES, detail)
        before = 0 if "|" in text else together.get(name, 0)
        together[name] = before + count
        if count < 0 or most is None or (together[name] > most and not may_wait):
            return Reject(Errno.ESLURM_INVALID_LICENSES)
    return None


_NO_SUCH_NODES = frozenset(
    (
        Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE,
        Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE,
    )
)


# What the partitions allow --------------------------------------------------------------------


def check_partitions(
    cluster: Cluster,
    request: JobRequest,
    partitions: Sequence[Partition],
    standing: Standing,
    time_limit_min: int,
    context: Context,
) -> tuple[Partition, ...] | Reject:
    """Return the partitions a request may wait in, or why none is left.

    EnforcePartLimits: with ALL each partition named has to allow it, with ANY one of them, and
    with NO limits only make it wait; access counts always. What nodes there are is no limit: one
    partition has to have those that it needs.
    """
    enforce = context.conf.enforce_part_limits
    chosen = selection(context.conf)
    judged = as_judged(request, context.conf)
    allowed: list[Partition] = []
    last: Reject | None = None
    for named in partitions:
        partition = opened(named, standing.qos_record)
        refusal = check_access(partition, request, context)
        if refusal is None and partition.max_time_min < request.time_min_min < NO_VAL:
            refusal = Reject(Errno.ESLURM_INVALID_TIME_MIN_LIMIT)
        if refusal is None and enforce != "NO":
            refusal = _check_limits(
                cluster, partition, request, standing, time_limit_min
            ) or _check_memory(cluster, partition, request, chosen)
        is_limit = refusal is not None and refusal.code != Errno.ESLURM_PARTITION_NOT_AVAIL
        if enforce == "ALL" and is_limit:
            assert refusal is not None
            return refusal
        if refusal is None:
            refusal = feasible(cluster, judged, partition, chosen)
            if request.flags & REQ_HOLD and refusal is not None and refusal.code in _NO_SUCH_NODES:
                refusal = None  # before it is released nodes may come: so does Slurm 22.05
        if refusal is None:
            refusal = feasible_inside(cluster, judged, partition, chosen)
        if refusal is None:
            allowed.append(named)
        else:
            last = refusal
    if not allowed:
        assert last is not None
        return last
    return by_tier(allowed)


def as_judged(request: JobRequest, conf: SlurmConf) -> JobRequest:
    """Return a request as it is judged: ignore_constraint_validation leaves out its constraint."""
    if has_option(conf.scheduler_parameters, "ignore_constraint_validation"):
        return msgspec.structs.replace(request, constraint="")
    return request


def hidden_partitions(cluster: Cluster, caller: Caller) -> tuple[str, ...]:
    """Return the partitions that a user may never use."""
    groups = {*caller.groups, caller.group_name}
    return tuple(
        partition.name
        for partition in cluster.partitions.values()
        if caller.uid != 0
        and (
            partition.root_only
            or (partition.allow_groups and not groups & set(partition.allow_groups))
        )
    )


def check_access(partition: Partition, request: JobRequest, context: Context) -> Reject | None:
    """Return why a user may not submit to a partition."""
    caller = context.caller
    if partition.state in _CLOSED:
        return Reject(Errno.ESLURM_PARTITION_NOT_AVAIL)
    if partition.root_only and caller.uid != 0:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if caller.uid == 0 and partition.disable_root_jobs:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if partition.req_resv and not request.reservation:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    groups = partition.allow_groups
    if groups and caller.uid != 0 and not set(groups) & {*caller.groups, caller.group_name}:
        return Reject(Errno.ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP)
    if partition.alloc_nodes and request.alloc_node:
        try:
            hosts = hostlist.expand(partition.alloc_nodes)
        except hostlist.HostlistError:
            hosts = []
        if request.alloc_node not in hosts:
            return Reject(Errno.ESLURM_ACCESS_DENIED)
    return None


def _check_limits(
    cluster: Cluster,
    partition: Partition,
    request: JobRequest,
    standing: Standing,
    time_limit_min: int,
) -> Reject | None:
    """What EnforcePartLimits refuses at once instead of letting it wait."""
    if not partition.admits_account(standing.account):
        return Reject(Errno.ESLURM_INVALID_ACCOUNT)
    if not partition.admits_qos(standing.qos):
        return Reject(Errno.ESLURM_INVALID_QOS)
    sizes = job_sizes(request, None)
    nodes, cpus = size_of(cluster, partition)
    if sizes.nodes_min > min(nodes, partition.max_nodes):
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if request.nodes_max and request.nodes_max < partition.min_nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if sizes.cpus > cpus and not request.flags & REQ_OVERCOMMIT:
        return Reject(Errno.ESLURM_TOO_MANY_REQUESTED_CPUS)
    if limit_in(request, time_limit_min, partition) > partition.max_time_min:
        return Reject(Errno.ESLURM_INVALID_TIME_LIMIT)
    ids = node_ids(request.node_list, cluster.node_index.by_name)
    if not ids.issubset(partition.node_ids):
        return Reject(Errno.ESLURM_REQUESTED_NODES_NOT_IN_PARTITION)
    return None


def _check_memory(
    cluster: Cluster, partition: Partition, request: JobRequest, chosen: Selection
) -> Reject | None:
    """Refuse more memory of a node than MaxMemPerNode; without any default that is all of it."""
    most = partition.max_mem_per_node_mib
    if not most:
        return None
    sizes = job_sizes(request, partition)
    if mem_of_node_mib(request, sizes) > most:
        return Reject(Errno.ESLURM_INVALID_TASK_MEMORY)
    if not sizes.mem_whole_node or least_mem_mib(cluster, partition) <= most:
        return None
    if request.flags & REQ_MEM_SET:
        return Reject(Errno.ESLURM_INVALID_TASK_MEMORY)
    return Reject(Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE) if chosen.with_memory else None
