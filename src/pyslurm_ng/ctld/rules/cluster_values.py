"""What a partition has from the cluster's keys: memory of jobs, and CPUs for each GPU."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model.partition import Partition

# Attribute of the configuration -> field of the partition.
MODEL_FIELDS = {
    "def_mem_per_cpu": "def_mem_per_cpu_mib",
    "def_mem_per_node": "def_mem_per_node_mib",
    "def_mem_per_gpu": "def_mem_per_gpu_mib",
    "def_cpu_per_gpu": "def_cpus_per_gpu",
    "max_mem_per_cpu": "max_mem_per_cpu_mib",
    "max_mem_per_node": "max_mem_per_node_mib",
}
# A partition has one default of memory, beside that of GPUs, and one limit: a new one replaces all
# of its group.
MEMORY_GROUPS = (
    ("def_mem_per_cpu_mib", "def_mem_per_node_mib"),
    ("max_mem_per_cpu_mib", "max_mem_per_node_mib"),
)
MEMORY_FIELDS = frozenset((*MEMORY_GROUPS[0], *MEMORY_GROUPS[1], "def_mem_per_gpu_mib"))


def cluster_values(conf: SlurmConf) -> dict[str, int]:
    """Return the cluster's value of each field that partitions inherit."""
    values = {name: getattr(conf, attribute) for attribute, name in MODEL_FIELDS.items()}
    return {name: 0 if value == NO_VAL else value for name, value in values.items()}


def with_cluster_values(partition: Partition, conf: SlurmConf, names: tuple[str, ...]) -> Partition:
    """Return a partition that has the cluster's values of the named fields, and no own ones."""
    values = cluster_values(conf)
    fields: dict[str, Any] = {name: values[name] for name in names}
    return replace(partition, inherited=names, **fields)
