"""Partitions."""

from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import INFINITE, NO_VAL

from .assoc import Qos

# The limits of a partition that flags of a QOS lift for its jobs, with values that do not limit.
_LIFTS = {
    "PartitionMaxNodes": ("max_nodes", INFINITE),
    "PartitionMinNodes": ("min_nodes", 0),
    "PartitionTimeLimit": ("max_time_min", INFINITE),
}


class Partition(Struct, array_like=True, frozen=True, gc=False):
    """A partition; `scontrol update` replaces it whole. Limits of INFINITE do not limit."""

    name: str
    node_ids: tuple[int, ...] = ()
    nodes_text: str = ""
    is_default: bool = False
    state: str = "UP"  # UP DOWN DRAIN INACTIVE
    max_time_min: int = INFINITE
    default_time_min: int = NO_VAL
    min_nodes: int = 0
    max_nodes: int = INFINITE
    max_cpus_per_node: int = INFINITE
    max_cpus_per_socket: int = INFINITE
    def_mem_per_cpu_mib: int = 0
    def_mem_per_node_mib: int = 0
    def_mem_per_gpu_mib: int = 0
    def_cpus_per_gpu: int = 0
    max_mem_per_cpu_mib: int = 0
    max_mem_per_node_mib: int = 0
    allow_groups: tuple[str, ...] = ()
    allow_accounts: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()
    alloc_nodes: str = ""
    alternate: str = ""
    disable_root_jobs: bool = False
    root_only: bool = False
    req_resv: bool = False
    hidden: bool = False
    lln: bool = False
    exclusive: str = "NO"  # NO NODE USER TOPO
    oversubscribe: str = "NO"  # NO YES:n FORCE:n EXCLUSIVE
    over_time_limit_min: int = NO_VAL
    grace_time_s: int = 0
    preempt_mode: str = ""  # empty: the cluster's
    priority_tier: int = 1
    priority_job_factor: int = 1
    qos: str = ""
    select_type_parameters: str = ""
    tres_billing_weights: str = ""
    job_defaults: str = ""
    resume_timeout_s: int = NO_VAL
    suspend_time_s: int = NO_VAL
    suspend_timeout_s: int = NO_VAL
    power_down_on_idle: bool = False
    topology: str = ""
    cpu_bind: str = ""
    billing_rule: str = ""  # MAX_TRES or MAX_TRES_GRES, from PriorityFlags; empty: the sum
    inherited: tuple[str, ...] = ()  # fields that have the cluster's values, and are not shown

    @property
    def billing_terms(self) -> str:
        """How jobs are billed, for `amounts.billing`: a rule unless it is the sum, then weights."""
        weights = self.tres_billing_weights
        return f"{self.billing_rule};{weights}" if self.billing_rule and weights else weights

    def admits_account(self, account: str) -> bool:
        """Return whether jobs of an account may run here."""
        return _admits(account, self.allow_accounts, self.deny_accounts)

    def admits_qos(self, qos: str) -> bool:
        """Return whether jobs of a QOS may run here."""
        return _admits(qos, self.allow_qos, self.deny_qos)


def _admits(name: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> bool:
    """As in Slurm, a list of denied accounts or QOS has no effect beside one of allowed ones."""
    return name in allowed if allowed else name not in denied


def opened(partition: Partition, qos: Qos | None) -> Partition:
    """Return a partition as jobs of a QOS see it: without the limits that the QOS lifts."""
    if qos is None or not opens(qos):
        return partition
    return _opened(partition, qos.flags)


def opens(qos: Qos) -> bool:
    """Return whether a QOS lifts any limit of partitions."""
    return bool(qos.flags) and not _LIFTS.keys().isdisjoint(qos.flags)


@lru_cache(maxsize=256)
def _opened(partition: Partition, flags: tuple[str, ...]) -> Partition:
    fields: dict[str, Any] = dict(_LIFTS[flag] for flag in flags if flag in _LIFTS)
    if partition.default_time_min == NO_VAL:
        fields["default_time_min"] = partition.max_time_min  # of jobs that ask for none
    return replace(partition, **fields)
