"""This node as it is configured, and what one job has of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.acct_gather_conf import AcctGatherConf, parse_acct_gather_conf
from pyslurm_ng.conf.cgroup_conf import CgroupConf
from pyslurm_ng.conf.namespaces import Namespaces
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.d.host import binding, gpu_names, gres
from pyslurm_ng.d.host.cgroup import Tree
from pyslurm_ng.d.spec import environment
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.node import NodeGres
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import PluginsSpec


class SpecError(ValueError):
    """The step cannot run as asked for; one line for the user."""


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """This node as the configuration and the host make it."""

    node_name: str
    host_name: str
    spool: str
    conf: SlurmConf
    cgroup_conf: CgroupConf
    devices: tuple[NodeGres, ...]
    tree: Tree | None
    host: binding.HostCores
    memory_mib: int  # RealMemory, or the host's where the node's line does not say it
    plugins: PluginsSpec | None = None  # of plugstack.conf
    namespaces: Namespaces | None = None
    oci: Mapping[str, Any] | None = None  # oci.conf by key
    gather: AcctGatherConf = field(default_factory=lambda: parse_acct_gather_conf(""))

    def uses(self, plugin: str) -> bool:
        """Whether TaskPlugin names a plugin."""
        return plugin in self.conf.task_plugin

    @property
    def confines_devices(self) -> bool:
        """Whether tasks can open only their own devices, which are then counted from 0."""
        return (
            self.tree is not None
            and self.uses("task/cgroup")
            and self.cgroup_conf.constrain_devices
        )


@dataclass(frozen=True, slots=True)
class Account:
    """A user as the node's user database knows it."""

    groups: tuple[int, ...]
    home: str = "/"
    shell: str = ""


def node_settings(setup: NodeSetup, credential: nm.JobCredential) -> environment.NodeSettings:
    """Return what of this node goes into environments."""
    conf = setup.conf
    per_cpu, per_node = conf.def_mem_per_cpu, conf.def_mem_per_node
    for partition in conf.partitions:
        if partition.name == credential.partition:
            own_cpu, own_node = (
                _amount(partition.def_mem_per_cpu),
                _amount(partition.def_mem_per_node),
            )
            if own_cpu or own_node:
                per_cpu, per_node = own_cpu, own_node
    return environment.NodeSettings(
        node_name=setup.node_name,
        host_name=setup.host_name,
        conf_path=conf.path,
        oom_kill_step=oom_kill_step(setup, credential.request.oom_kill_step),
        mem_per_cpu_mib=_amount(per_cpu),
        mem_per_node_mib=_amount(per_node),
        starts_hydra=not has_option(conf.mpi_params, "disable_slurm_hydra_bootstrap"),
    )


def _amount(value: int) -> int:
    return 0 if value >= NO_VAL else value


def alloc_of(nodes: Sequence[str], allocs: Sequence[NodeAlloc], name: str) -> NodeAlloc | None:
    """Return the allocation on one node; None if the node is not among them."""
    return allocs[nodes.index(name)] if name in nodes else None


def gpu_view(
    setup: NodeSetup, credential: nm.JobCredential, seen: Sequence[int] | None = None
) -> environment.GpuView:
    """Return the GPUs of a job here, as the step or, with `seen`, one task sees them."""
    job_alloc = alloc_of(credential.nodes, credential.allocs, setup.node_name)
    step_alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    job = gres.indexes(job_alloc.gres) if job_alloc is not None else []
    step = gres.indexes(step_alloc.gres) if step_alloc is not None else []
    allocs = step_alloc.gres if step_alloc is not None else ()
    step = step or gres.in_parts(allocs)
    chosen = step if seen is None else list(seen)
    return environment.GpuView(
        job,
        chosen,
        gres.visible(step, chosen, setup.confines_devices),
        gpu_names.names_of(setup.devices, chosen),
        job_alloc is not None and bool(gres.in_parts(job_alloc.gres)),
        sum(gres.count for gres in allocs if gres.name == "shard"),
        gres.mps_percentage(setup.devices, allocs),
        gpu_names.variables_of(setup.devices, chosen or step or job),
    )


def oom_kill_step(setup: NodeSetup, *asked: int) -> bool:
    """Return the first of the wishes that is one (0 or 1), else what the configuration says."""
    for wish in asked:
        if wish in (0, 1):
            return bool(wish)
    return any(word.lower() == "oomkillstep" for word in setup.conf.task_plugin_param)
