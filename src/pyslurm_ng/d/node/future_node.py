"""A host that becomes a FUTURE node of slurm.conf: what `slurmd -F` asks slurmctld for."""

from __future__ import annotations

import os
from dataclasses import replace

from pyslurm_ng.conf.quick import quick
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.wire.client import QUICK_KEYS, Client, SlurmError


def take_node(conf_path: str, feature: str, host_name: str = "") -> str:
    """Return the name of the node that this host is from now on.

    Args:
        host_name: what this host is called where several slurmds stand for several hosts.

    Raises:
        BadSetup: slurmctld does not answer, or has no such node.
    """
    host = sensors.host_facts()
    try:
        values = quick(conf_path, QUICK_KEYS)
    except OSError as error:
        raise BadSetup([f"{error.filename or conf_path}: {error.strerror}"]) from None
    request = {
        "hostname": host_name or host.hostname,
        "address": _own_address(values) or host.hostname,
        "sockets": host.sockets,
        "cores_per_socket": host.cores_per_socket,
        "threads_per_core": host.threads_per_core,
        "feature": feature,
    }
    try:
        return str(Client(values).change("TakeFutureNode", request)["name"])
    except SlurmError as error:
        raise BadSetup([f"-F: {error.text}"]) from None


def with_own_host(conf: SlurmConf, name: str, host_name: str) -> SlurmConf:
    """Return the configuration with this host as the address of the node that it has become."""
    host = host_name or os.uname().nodename.partition(".")[0]
    controllers = [
        conf.slurmctld_addr,
        *(ctld.address or ctld.name for ctld in conf.slurmctld_host),
    ]
    address = sensors.own_address([name for name in controllers if name]) or host
    nodes = tuple(
        node._replace(hostname=host, address=address) if node.name == name else node
        for node in conf.nodes
    )
    return replace(conf, nodes=nodes)


def _own_address(values: dict[str, str]) -> str:
    from pyslurm_ng.wire.daemon_link import controller_hosts

    folded = {key.lower(): value for key, value in values.items()}
    hosts = [address for _, address in controller_hosts(folded.get("slurmctldhost", ""))]
    return sensors.own_address(hosts)
