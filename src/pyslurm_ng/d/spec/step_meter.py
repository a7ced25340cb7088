"""What a supervisor is told for GPU use and energy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.conf.values import has_option
from pyslurm_ng.d.host import gres as host_gres
from pyslurm_ng.d.host.gpu_names import number_of_file
from pyslurm_ng.d.meter import snapshot
from pyslurm_ng.d.spec.node_setup import NodeSetup, alloc_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.d.spool import step_contract as sc
    from pyslurm_ng.wire import node_messages as nm


def energy_sources(conf: SlurmConf) -> list[str]:
    """Return the sources of energy that AcctGatherEnergyType names: `rapl`, `gpu`."""
    words = [word.rpartition("/")[2].lower() for word in conf.acct_gather_energy_type]
    return [word for word in words if word not in ("", "none")]


def traffic_tres(conf: SlurmConf) -> list[tuple[str, str]]:
    """Return which TRES of a network and file system are counted, and where a snapshot has them."""
    plugins = [(name, "network", "ic") for name in conf.acct_gather_interconnect_type]
    plugins.append((conf.acct_gather_filesystem_type, "filesystem", "fs"))
    names = [
        (f"{kind}/{plugin.rpartition('/')[2]}", part)
        for plugin, part, kind in plugins
        if plugin.rpartition("/")[2] not in ("", "none")
    ]
    return [(name, part) for name, part in names if name in conf.tracked_tres()]


def measures_gpus(conf: SlurmConf) -> bool:
    """Return whether JobAcctGatherType and JobAcctGatherParams let GPU use be measured."""
    gathers = bool(conf.job_acct_gather_type) and not conf.job_acct_gather_type.endswith("/none")
    return gathers and not has_option(conf.job_acct_gather_params, "DisableGPUAcct")


def gpu_numbers(files: Iterable[str]) -> list[int]:
    """Return the numbers of NVIDIA's device files; of a slice that of its GPU."""
    numbers = [number_of_file(names.partition(",")[0]) for names in files]
    return [number for number in numbers if number >= 0]


def meter_spec(setup: NodeSetup, credential: nm.JobCredential) -> sc.MeterSpec | None:
    """Return what of the meter's file is a step's own; None if nothing is."""
    alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    indexes = (
        set(host_gres.indexes(alloc.gres) or host_gres.in_parts(alloc.gres)) if alloc else set()
    )
    files = [
        path
        for gres in setup.devices
        if gres.name == "gpu"
        for number, path in enumerate(gres.files, gres.first_index)
        if number in indexes
    ]
    gpus = sorted(set(gpu_numbers(files)))
    sources = energy_sources(setup.conf)
    gpu_energy, uses = "gpu" in sources and bool(gpus), measures_gpus(setup.conf)
    node_energy = any(source != "gpu" for source in sources)
    traffic = traffic_tres(setup.conf)
    if not (gpu_energy or node_energy or traffic or (gpus and uses)):
        return None
    return {
        "path": f"{setup.spool}/{snapshot.FILE}",
        "gpus": gpus,
        "gpu_use": bool(gpus) and uses,
        "node_energy": node_energy,
        "gpu_energy": gpu_energy,
        "traffic": traffic,
    }
