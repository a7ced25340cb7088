"""`scontrol update` of one setting leaves all others as they were, whatever came before."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import msgspec
import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.ctld.rules.update.update_partition import update_partition
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.wire.query_messages import UpdateJob, UpdateNodes, UpdatePartition
from tests.world.callers import ROOT
from tests.world.reservations import ReservationSite
from tests.world.site import Site

Settings = dict[str, tuple[str, str]]
"""Setting -> a value, and the fields that it may change."""
SEEDS = range(4)

OF_JOBS: Settings = {
    "comment": ("new", "comment"),
    "admincomment": ("new", "admin_comment"),
    "extra": ("new", "extra"),
    "jobname": ("new", "name"),
    "timelimit": ("90", "time_limit_min"),
    "timemin": ("5", "time_min_min"),
    "nice": ("7", "nice priority"),
    "licenses": ("ansys:1", "licenses"),
    "features": ("gpunode", "constraint"),
    "minmemorynode": ("600", "mem_per_node_mib mem_per_cpu_mib flags"),
    "minmemorycpu": ("50", "mem_per_node_mib mem_per_cpu_mib flags"),
    "numnodes": ("1-2", "nodes_min nodes_max flags"),
    "numtasks": ("2", "ntasks flags"),
    "cpuspertask": ("1", "cpus_per_task"),
    "reqnodelist": ("n1", "node_list"),
    "excnodelist": ("n4", "exclude"),
    "requeue": ("0", "flags"),
    "contiguous": ("yes", "flags"),
    "oversubscribe": ("yes", "flags"),
    "mailtype": ("BEGIN", "mail_type"),
    "mailuser": ("bob", "mail_user"),
    "stdout": ("/tmp/o", "std_out"),
    "stdin": ("/tmp/i", "std_in"),
    "stderr": ("/tmp/e", "std_err"),
    "workdir": ("/tmp", "work_dir"),
    "switches": ("2@00:00:20", "switches switches_wait_s"),
    "delayboot": ("5", "delay_boot_min"),
    "qos": ("late", "qos priority"),
}
OF_RESERVATIONS: Settings = {
    "comment": ("new", "comment"),
    "users": ("bob", "users"),
    "users_": ("alice", "users"),
    "accounts": ("physics", "accounts"),
    "duration": ("90", "end_us first_end_us later"),
    "flags": ("MAINT,DAILY,SPEC_NODES", "flags later"),
    "nodes": ("n3,n4", "node_ids core_masks flags"),
    "licenses": ("ansys:1", "licenses tres"),
    "maxstartdelay": ("30", "max_start_delay_s"),
    "partitionname": ("main", "partition"),
}
OF_PARTITIONS: Settings = {
    "maxtime": ("100", "max_time_min"),
    "defaulttime": ("50", "default_time_min"),
    "state": ("DRAIN", "state"),
    "priorityjobfactor": ("3", "priority_job_factor"),
    "prioritytier": ("4", "priority_tier"),
    "maxnodes": ("3", "max_nodes"),
    "minnodes": ("2", "min_nodes"),
    "allowgroups": ("root", "allow_groups"),
    "allowaccounts": ("physics", "allow_accounts"),
    "denyaccounts": ("chem", "deny_accounts"),
    "hidden": ("yes", "hidden is_hidden"),
    "rootonly": ("yes", "root_only"),
    "gracetime": ("30", "grace_time_s"),
    "defmempercpu": ("50", "def_mem_per_cpu_mib def_mem_per_node_mib"),
    "maxcpuspernode": ("4", "max_cpus_per_node"),
    "lln": ("yes", "lln"),
    "overtimelimit": ("5", "over_time_limit_min"),
    "tresbillingweights": ("CPU=2", "tres_billing_weights"),
}
OF_NODES: Settings = {
    "comment": ("new", "comment"),
    "extra": ("new", "extra"),
    "weight": ("5", "weight spec"),
    "reason": ("new", "reason reason_uid reason_us"),
    "availablefeatures": ("gpunode,ib,x", "features features_active spec"),
    "instanceid": ("i", "instance_id facts"),
}

Values = dict[str, object]


def fields_of(*records: object) -> Values:
    """Return the fields of records by name, copied; a later record's are told by its type."""
    values: Values = {}
    for record in records:
        names: tuple[str, ...] = record.__struct_fields__  # type: ignore[attr-defined]
        for name in names:
            key = name if name not in values else f"{type(record).__name__}.{name}"
            values[key] = copy.deepcopy(getattr(record, name))
    return values


def check_all(
    seed: int, settings: Settings, change: Callable[[str, str], object], read: Callable[[], Values]
) -> None:
    """Make all changes in an order of chance; each changes what it names and nothing else."""
    names = sorted(settings)
    random.Random(seed).shuffle(names)
    has_changed = False
    for name in names:
        value, allowed = settings[name]
        before = read()
        outcome = change(name, value)
        assert not isinstance(outcome, Reject), (name, outcome)
        after = read()
        changed = {key.rpartition(".")[2] for key in after if after[key] != before[key]}
        changed.discard("inherited")  # what a partition still has of the DEFAULT one
        assert changed <= set(allowed.split()), (name, names)
        has_changed = has_changed or bool(changed)
    assert has_changed


@pytest.mark.parametrize("seed", SEEDS)
def test_one_setting_of_a_job(seed: int) -> None:
    site = Site("Licenses=matlab:4,ansys:2\nAccountingStorageEnforce=associations,qos")
    site.account()
    job = site.job(
        begin_us=site.now_us + 10**9, ntasks=2, licenses="matlab:1", comment="old",
        mem_per_node_mib=100, extra="old", nice=3, exclude="n3", std_out="/tmp/old",
    )  # fmt: skip

    def change(name: str, value: str) -> object:
        message = UpdateJob(bytes(16), {name: value}, [str(job.job_id)])
        decision = update_job(site.cluster, message, site.context(ROOT))
        assert isinstance(decision, Decision), (name, decision)
        site.apply(decision.events)
        return decision

    def read() -> Values:
        values = fields_of(whole_request(job.request))
        own = {name: getattr(job, name) for name in ("account", "partition", "qos", "priority",
               "time_limit_min", "begin_us", "eligible_us", "dependencies", "comment")}  # fmt: skip
        return values | {f"job.{name}": value for name, value in own.items()}

    check_all(seed, OF_JOBS, change, read)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_setting_of_a_reservation(seed: int) -> None:
    site = ReservationSite("Licenses=matlab:4,ansys:2")
    site.make(
        starttime=site.now_us + 10**12, nodes="n1,n2", users="alice", comment="old",
        licenses="matlab:2", flags="DAILY", maxstartdelay=10,
    )  # fmt: skip
    check_all(
        seed,
        OF_RESERVATIONS,
        lambda name, value: site.reserve("r", create=False, **{name: value}),  # type: ignore[arg-type]
        lambda: fields_of(site.cluster.reservations["r"]),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_one_setting_of_a_partition(seed: int) -> None:
    site = Site()

    def change(name: str, value: str) -> object:
        request = UpdatePartition(bytes(16), "main", {name: value})
        decision = update_partition(site.cluster, request, site.context(ROOT))
        if isinstance(decision, Decision):
            site.apply(decision.events)
        return decision

    check_all(seed, OF_PARTITIONS, change, lambda: fields_of(site.cluster.partitions["main"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_setting_of_a_node(seed: int) -> None:
    site = Site()
    node_id = site.cluster.node_index.by_name["n1"]

    def change(name: str, value: str) -> object:
        request = UpdateNodes(bytes(16), "n1", {name: value})
        decision = update_nodes(site.cluster, request, site.context(ROOT))
        if isinstance(decision, Decision):
            site.apply(decision.events)
        return decision

    def read() -> Values:
        node = site.cluster.node(node_id)
        return fields_of(node) | {"State.of": msgspec.to_builtins(node.state)}

    check_all(seed, OF_NODES, change, read)
