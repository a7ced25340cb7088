"""A node that slurm.conf does not have: what `slurmd -Z` tells of it."""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng.conf.lexer import parse_words
from pyslurm_ng.conf.node_lines import NodeConf, build_nodes
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.node.bad_setup import BadSetup

_HARDWARE_KEYS = frozenset(
    ("boards", "cpus", "corespersocket", "procs", "sockets", "socketsperboard", "threadspercore")
)


def with_dynamic_node(conf: SlurmConf, name: str, own_keys: str) -> tuple[str, SlurmConf]:
    """Return the line of a node that slurm.conf does not have, and the configuration with it.

    Args:
        own_keys: what --conf says; the hardware is this host's unless it says otherwise.

    Raises:
        BadSetup: slurm.conf has the node, or --conf cannot be read.
    """
    if any(node.name == name for node in conf.nodes):
        raise BadSetup([f"-Z: {conf.path} has NodeName={name}; start its slurmd without -Z"])
    own_lines = parse_words(own_keys, "--conf").lines
    own_names = {entry.key.lower() for entries in own_lines for entry in entries}
    if "nodename" in own_names:
        raise BadSetup(["--conf: NodeName: the name of a node is given by -N"])
    host = sensors.host_facts(conf.tmp_fs)
    words = [f"NodeName={name}"]
    if not own_names & _HARDWARE_KEYS:
        words.append(sensors.hardware_words(host))
    if "realmemory" not in own_names:
        words.append(f"RealMemory={host.real_memory_mib}")
    if "nodehostname" not in own_names:
        words.append(f"NodeHostname={host.hostname}")
    if "nodeaddr" not in own_names:
        words.append(f"NodeAddr={sensors.own_address(_controllers(conf)) or host.hostname}")
    line = " ".join([*words, own_keys]).strip()
    text = parse_words(line, "--conf")
    nodes: tuple[NodeConf, ...] = ()
    if not text.errors:
        nodes = build_nodes(text, text.lines, conf.slurmd_port, conf.gres_types)
    if text.errors:
        raise BadSetup([str(error) for error in text.errors])
    return line, replace(conf, nodes=(*conf.nodes, *nodes))


def _controllers(conf: SlurmConf) -> list[str]:
    names = [conf.slurmctld_addr, *(host.address or host.name for host in conf.slurmctld_host)]
    return [name for name in names if name]
