"""The errors of a whole configuration, for ``slurmctld --check`` and ``scontrol check``."""

from __future__ import annotations

import os

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.conf import (
    acct_gather_conf,
    burst_buffer_conf,
    cgroup_conf,
    gres_conf,
    namespaces,
    oci_conf,
    slurmdbd_conf,
    topology_conf,
    topology_yaml,
)
from pyslurm_ng.conf.effects.effect import refusals
from pyslurm_ng.conf.effects.other_files import NOT_READ
from pyslurm_ng.conf.lexer import ConfError, read_conf
from pyslurm_ng.conf.on_host import (
    missing_authentication,
    missing_groups,
    missing_programs,
    missing_scripts,
    missing_users,
    parameters,
)
from pyslurm_ng.conf.plugstack import read_plugstack, stack_path
from pyslurm_ng.conf.slurm_conf import (
    PARAMETER_TABLE,
    SlurmConf,
    read_slurm_conf,
)

_WITH_FILE = ("topology/tree", "topology/block", "topology/ring")  # TopologyPlugin


def check(path: str) -> list[str]:
    """Return a line for each problem of a slurm.conf and of the files beside it; [] if all is well.

    A file called slurmdbd.conf, cgroup.conf, gres.conf or topology.conf is checked by itself, as
    far as that goes without a slurm.conf.
    """
    return [str(error) for error in _errors(path)]


def check_here(path: str) -> tuple[list[str], list[str]]:
    """Return the problems of a file, and warnings if there are no problems.

    The problems are those of `check`, and users that this host does not have. The warnings name
    keys and words without effect, and what else this host lacks: a program or script that a key
    needs, munge or slurm.key.
    """
    name = os.path.basename(path)
    is_slurm = not name.startswith(("acct_gather", "cgroup", "gres", "slurmdbd", "topology"))
    problems = check(path)
    if is_slurm or name.startswith("slurmdbd"):
        problems += [str(error) for error in missing_users(path)]
    beside = os.path.join(os.path.dirname(path), "slurmdbd.conf")
    if is_slurm and os.access(beside, os.R_OK):
        problems += [str(error) for error in missing_users(beside)]
    if problems:
        return problems, []
    warnings = check_warnings(path)
    conf = read_slurm_conf(path)[0] if is_slurm else None
    if conf is not None:
        warnings += missing_authentication(conf.auth_type, os.path.dirname(path) or ".")
        warnings += missing_groups(path) + missing_programs(path) + missing_scripts(path)
    return [], warnings


def check_warnings(path: str) -> list[str]:
    """Return a line for each key and word that is accepted but has no effect.

    `check` must have found nothing wrong with the configuration. As there, each file may be checked
    by itself.
    """
    name = os.path.basename(path)
    if name.startswith("slurmdbd"):
        return list(slurmdbd_conf.load_slurmdbd_conf(path, is_private=False).warnings)
    if name.startswith("acct_gather"):
        return list(acct_gather_conf.load_acct_gather_conf(path).warnings)
    if name.startswith("cgroup"):
        return list(cgroup_conf.load_cgroup_conf(path).warnings)
    if name.startswith("gres"):
        return list(gres_conf.load_gres_conf(path, _named_gres(path)).warnings)
    if name.startswith("topology"):
        is_yaml = name.endswith(".yaml")
        return [] if is_yaml else list(topology_conf.load_topology_conf(path).warnings)
    conf, _ = read_slurm_conf(path)
    return [] if conf is None else list(conf.warnings) + neighbour_warnings(conf)


def neighbour_warnings(conf: SlurmConf) -> list[str]:
    """Return the keys without effect in the files beside a slurm.conf."""
    directory = os.path.dirname(conf.path) or "."
    names = tuple(node.name for node in conf.nodes)
    lines = node_warnings(conf)
    topologies = topologies_of(conf, directory)
    for topology in topologies:
        placed_names = {node.name for node in conf.nodes if f"{topology.name}:" in node.topology}
        lines += topology_conf.gaps(
            topology, tuple(name for name in names if name not in placed_names)
        )
    lines += _unknown_units(conf, topologies)
    stack = read_plugstack(stack_path(conf.path, conf.plugstack_config))
    lines += [f"{file}:{number}: {word}: {text}" for file, number, word, text in stack.left_out]
    if conf.namespace_type in namespaces.FILE_OF:
        own = os.path.join(directory, namespaces.FILE_OF[conf.namespace_type])
        known = namespaces.load_namespaces(own, "%n", "%h")  # names of nodes stay patterns
        lines += namespaces.misplaced(own, known, conf.slurmd_spool_dir) if known else []
    for name, why in NOT_READ.items():
        full = os.path.join(directory, name)
        if os.path.exists(full):
            lines.append(f"{full}: is not read by pyslurm-ng: {why}")
    return lines


def _unknown_units(
    conf: SlurmConf, topologies: tuple[topology_conf.TopologyConf, ...]
) -> list[str]:
    """Return a line for each Topology= of a node without effect: it names no unit."""
    units = {
        topology.name: {switch.name for switch in topology.switches}
        | {block.name for block in topology.blocks}
        | {torus.name for torus in topology.toruses}
        for topology in topologies
    }
    names: dict[tuple[str, int, str], list[str]] = {}
    for node in conf.nodes:
        for pair in node.topology.split(",") if node.topology else ():
            name, _, path = pair.partition(":")
            if path.partition(":")[0] not in units.get(name, ()):
                names.setdefault((node.file, node.line, pair), []).append(node.name)
    return [
        f"{file}:{line}: Topology={pair} of {fold(node_names)}: "
        "no topology has such a switch, block, ring or torus"
        for (file, line, pair), node_names in names.items()
    ]


def node_warnings(conf: SlurmConf) -> list[str]:
    """Return the keys without effect in the files that slurmd obeys: cgroup.conf and gres.conf."""
    directory = os.path.dirname(conf.path) or "."
    lines: list[str] = []
    cgroup, gres = os.path.join(directory, "cgroup.conf"), os.path.join(directory, "gres.conf")
    if os.path.exists(cgroup):
        lines += cgroup_conf.load_cgroup_conf(cgroup).warnings
    if os.path.exists(gres):
        lines += gres_conf.load_gres_conf(gres, conf.gres_types, conf.nodes).warnings
    oci = os.path.join(directory, "oci.conf")
    if os.path.exists(oci):
        lines += oci_conf.load_oci_conf(oci)[1]
    gather = os.path.join(directory, acct_gather_conf.FILE)
    if os.access(gather, os.R_OK):
        lines += acct_gather_conf.load_acct_gather_conf(gather).warnings
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
    if name.startswith("acct_gather"):
        return acct_gather_conf.file_errors(path, None)
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
        errors = _refused(path)
        stack = read_plugstack(stack_path(path, conf.plugstack_config))
        errors += [ConfError(*problem) for problem in stack.problems]
    return errors + _neighbours(path, conf)


def _refused(path: str) -> list[ConfError]:
    """Return an error for each key whose promise is not kept here.

    `read_slurm_conf` does not refuse such keys, because the simulator takes a site's file as it is.
    """
    return [
        error
        for entry, key, value in parameters(path)
        for error in refusals(PARAMETER_TABLE.section, key, entry, value)
    ]


def _named_gres(path: str) -> tuple[str, ...]:
    """Return the resources that a gres.conf names. Without a slurm.conf all of them are allowed."""
    names = {
        entry.value
        for line in read_conf(path).lines
        for entry in line
        if entry.key.lower() == "name"
    }
    return tuple(sorted(names))


def _neighbours(path: str, conf: SlurmConf | None) -> list[ConfError]:
    """Return the errors of the files beside a slurm.conf, compared with it if it could be read."""
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
    problems: list[ConfError] = []
    if os.path.exists(yaml):  # it takes the place of topology.conf and TopologyPlugin
        problems = topology_yaml.file_errors(yaml, names)
    elif os.path.exists(topology):
        problems = topology_conf.file_errors(topology, names)
        problems += _topology_kind(topology, conf)
    elif conf is not None and conf.topology_plugin in _WITH_FILE:
        problem = f"TopologyPlugin={conf.topology_plugin} needs this file"
        problems = [ConfError(topology, 0, "", problem)]
    errors += problems or _topology_errors(yaml, conf)
    if os.path.exists(cgroup):
        errors += cgroup_conf.file_errors(cgroup)
    if conf is not None and conf.namespace_type in namespaces.FILE_OF:
        own = os.path.join(directory, namespaces.FILE_OF[conf.namespace_type])
        if os.path.exists(own):
            errors += namespaces.file_errors(own)
        else:
            problem = f"NamespaceType={conf.namespace_type} needs this file"
            errors.append(ConfError(own, 0, "", problem))
    oci = os.path.join(directory, "oci.conf")
    if os.path.exists(oci):
        errors += oci_conf.file_errors(oci)
    errors += burst_buffer_conf.file_errors(directory)
    errors += acct_gather_conf.file_errors(os.path.join(directory, acct_gather_conf.FILE), conf)
    if os.access(slurmdbd, os.R_OK):  # it is checked only for its owner
        errors += slurmdbd_conf.file_errors(slurmdbd)
    return errors


def _topology_errors(yaml: str, conf: SlurmConf | None) -> list[ConfError]:
    """Return an error for each partition whose Topology= does not exist.

    Without topology.yaml there is only one topology.
    """
    known = [topology_conf.ONLY_NAME]
    if os.path.exists(yaml):
        known = [topology.name for topology in topology_yaml.load_topology_yaml(yaml)]
    return [
        ConfError(
            partition.file,
            partition.line,
            "Topology",
            f"partition {partition.name}: {yaml} has no {partition.topology}",
        )
        for partition in (conf.partitions if conf is not None else ())
        if partition.topology and partition.topology not in known
    ]


def _topology_kind(path: str, conf: SlurmConf | None) -> list[ConfError]:
    """Return an error if TopologyPlugin wants switches and the file has blocks, or the reverse."""
    if conf is None or conf.topology_plugin == "topology/flat":
        return []
    plugin_kind = conf.topology_plugin.partition("/")[2]
    if topology_conf.file_errors(path, None):
        return []
    topology = topology_conf.load_topology_conf(path)
    kind = topology.kind
    if kind == plugin_kind:
        return []
    content = "is empty" if kind == "flat" else f"describes a {kind}"
    problem = f"{content}, but TopologyPlugin={conf.topology_plugin}"
    if kind == "flat":
        problem += "; describe the network in it, or set topology/flat"
    return [ConfError(path, topology.line, "", problem)]
