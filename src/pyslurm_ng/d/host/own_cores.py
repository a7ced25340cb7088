"""The CPUs that slurmd itself keeps to where some are specialised; jobs are kept off them.

CoreSpecCount and CpuSpecList name them. slurmd and the programs it runs (Prolog, Epilog, health
check) stay there, or with TaskPluginParam=SlurmdOffSpec on all others; supervisors and tasks do
not.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.d.host.binding import CpuIds, HostCores
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.sched.cons_tres.cores import usable_cores


def own_cpus(
    line: NodeConf, host: HostCores, task_plugin_params: Sequence[str], *, is_first: bool
) -> CpuIds:
    """Return the CPUs of the host that slurmd keeps to; () where none are specialised.

    Args:
        is_first: SchedulerParameters=spec_cores_first: the lowest cores of the sockets.
    """
    if not line.core_spec_count and not line.cpu_spec_list:
        return ()
    cores = max(1, line.sockets * line.cores_per_socket)
    spec = NodeSpec(
        name=line.name,
        cpus=line.cpus,
        sockets=line.sockets,
        cores_per_socket=line.cores_per_socket,
        # CPUs that count cores: each core is one CPU, though it may have several threads.
        threads_per_core=min(line.threads_per_core, max(1, line.cpus // cores)),
        core_spec_count=line.core_spec_count,
        cpu_spec_list=",".join(map(str, line.cpu_spec_list)),
        is_special_first=is_first,
    )
    usable = usable_cores(spec)
    is_off = any(word.lower() == "slurmdoffspec" for word in task_plugin_params)
    own = usable if is_off else usable ^ ((1 << cores) - 1)
    # A node that pretends to have more than its host has no such CPUs.
    return host.of_mask(own) or ()
