"""All that is wrong with a configuration, for ``slurmctld --check`` and ``scontrol check``."""

from __future__ import annotations

import os

from pyslurm_ng.conf import (
    cgroup_conf,
    gres_conf,
    plugins,
    slurmdbd_conf,
    topology_conf,
    topology_yaml,
)
from pyslurm_ng.conf.lexer import ConfError, read_conf
from pyslurm_ng.conf.slurm_conf import SlurmConf, read_slurm_conf

# Read by Slurm from the same directory, not by us yet; their presence is worth a word.
_NOT_READ = (
    "acct_gather.conf",
    "burst_buffer.conf",
    "helpers.conf",
    "job_container.conf",
    "mpi.conf",
    "namespace.yaml",
    "oci.conf",
    "plugstack.conf",
    "resources.yaml",
)


def check(path: str) -> list[str]:
    """Return one line for each problem of a slurm.conf and of the files beside it; none is fine.

    A file called slurmdbd.conf, cgroup.conf, gres.conf or topology.conf is checked by itself, as
    far as that goes without a slurm.conf.
    """
    return [str(error) for error in _errors(path)]


def check_warnings(path: str) -> list[str]:
    """Return what is accepted but has no effect: unknown words, keys of the past and of the future.

    Only for a configuration that `check` finds nothing wrong with.
    """
    conf, _ = read_slurm_conf(path)
    if conf is None:
        return []
    lines = list(conf.warnings)
    if conf.unsupported:
        lines.append(f"{path}: accepted without effect yet: {', '.join(conf.unsupported)}")
    directory = os.path.dirname(path) or "."
    names = tuple(node.name for node in conf.nodes)
    for topology in topologies_of(conf, directory):
        lines += topology_conf.gaps(topology, names)
    for name in _NOT_READ:
        full = os.path.join(directory, name)
        if os.path.exists(full):
            lines.append(f"{full}: is not read by this version")
    return lines


def topologies_of(conf: SlurmConf, directory: str) -> tuple[topology_conf.TopologyConf, ...]:
    """Return the networks that the files beside slurm.conf describe; `check` found them right."""
    names = tuple(node.name for node in conf.nodes)
    yaml_path = os.path.join(directory, "topology.yaml")
    if os.path.exists(yaml_path):
        return topology_yaml.load_topology_yaml(yaml_path, names)
    path = os.path.join(directory, "topology.conf")
    if conf.topology_plugin == "topology/flat" or not os.path.exists(path):
        return ()
    return (topology_conf.load_topology_conf(path, names),)


def _errors(path: str) -> list[ConfError]:
    name = os.path.basename(path)
    if name.startswith("slurmdbd"):
        return slurmdbd_conf.file_errors(path, is_private=False)
    if name.startswith("cgroup"):
        return cgroup_conf.file_errors(path)
    if name.startswith("topology") and name.endswith(".yaml"):
        return topology_yaml.file_errors(path, None)
    if name.startswith("topology"):
        return topology_conf.file_errors(path, None)
    if name.startswith("gres"):
        return gres_conf.file_errors(path, _named_gres(path), ())
    conf, errors = read_slurm_conf(path)
    if conf is not None:
        stack = conf.plugstack_config or "plugstack.conf"
        errors = plugins.plugin_errors(read_conf(path).lines)
        errors += plugins.spank_errors(os.path.join(os.path.dirname(path), stack))
    return errors + _neighbours(path, conf)


def _named_gres(path: str) -> tuple[str, ...]:
    """Return the resources a gres.conf names: without a slurm.conf, all of them are allowed."""
    names = {
        entry.value
        for line in read_conf(path).lines
        for entry in line
        if entry.key.lower() == "name"
    }
    return tuple(sorted(names))


def _neighbours(path: str, conf: SlurmConf | None) -> list[ConfError]:
    """Check the files beside a slurm.conf, against it if it could be read."""
    directory = os.path.dirname(path) or "."
    gres = os.path.join(directory, "gres.conf")
    topology = os.path.join(directory, "topology.conf")
    yaml = os.path.join(directory, "topology.yaml")
    cgroup = os.path.join(directory, "cgroup.conf")
    slurmdbd = os.path.join(directory, "slurmdbd.conf")
    errors: list[ConfError] = []
    if os.path.exists(gres):
        types = _named_gres(gres) if conf is None else conf.gres_types
        errors += gres_conf.file_errors(gres, types, () if conf is None else conf.nodes)
    names = None if conf is None else tuple(node.name for node in conf.nodes)
    found: list[ConfError] = []
    if os.path.exists(yaml):  # it takes the place of topology.conf and TopologyPlugin
        found = topology_yaml.file_errors(yaml, names)
    elif os.path.exists(topology):
        found = topology_conf.file_errors(topology, names)
        found += _topology_kind(topology, conf)
    elif conf is not None and conf.topology_plugin in ("topology/tree", "topology/block"):
        problem = f"TopologyPlugin={conf.topology_plugin} needs this file"
        found = [ConfError(topology, 0, "", problem)]
    errors += found or _chosen(path, yaml, conf)
    if os.path.exists(cgroup):
        errors += cgroup_conf.file_errors(cgroup)
    if os.access(slurmdbd, os.R_OK):  # only its owner can, and only for them is it checked
        errors += slurmdbd_conf.file_errors(slurmdbd)
    return errors


def _chosen(path: str, yaml: str, conf: SlurmConf | None) -> list[ConfError]:
    """Partitions may name only topologies that there are: without topology.yaml just one."""
    known = [topology_conf.ONLY_NAME]
    if os.path.exists(yaml):
        known = [topology.name for topology in topology_yaml.load_topology_yaml(yaml)]
    return [
        ConfError(
            path, 0, "Topology", f"partition {partition.name}: {yaml} has no {partition.topology}"
        )
        for partition in (conf.partitions if conf is not None else ())
        if partition.topology and partition.topology not in known
    ]


def _topology_kind(path: str, conf: SlurmConf | None) -> list[ConfError]:
    """A file of switches serves topology/tree only, one of blocks topology/block."""
    if conf is None or conf.topology_plugin == "topology/flat":
        return []
    wanted = conf.topology_plugin.partition("/")[2]
    if topology_conf.file_errors(path, None):
        return []
    kind = topology_conf.load_topology_conf(path).kind
    if kind == wanted:
        return []
    return [
        ConfError(path, 0, "", f"describes a {kind}, but TopologyPlugin={conf.topology_plugin}")
    ]
