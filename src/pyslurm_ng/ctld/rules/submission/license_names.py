"""Names of licences: NAME is this cluster's own, NAME@SERVER another server's."""

from __future__ import annotations

import re

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.license_server import is_remote

_NAME = re.compile(r"[^,|:=]+(?=[,|:=]|$)")


def full_names(cluster: Cluster, text: str, conf: SlurmConf) -> str:
    """Return what `--licenses` asks for with servers filled in, where RemoteFuzzyMatch lets users
    leave them out: a name of no local licence, and of just one server's."""
    if not text or not has_option(conf.license_parameters, "RemoteFuzzyMatch"):
        return text
    servers: dict[str, list[str]] = {}
    for full in filter(is_remote, cluster.licenses):
        servers.setdefault(full.partition("@")[0], []).append(full)

    def full_name(found: re.Match[str]) -> str:
        name = found[0]
        known = servers.get(name, [])
        return known[0] if name not in cluster.licenses and len(known) == 1 else name

    return _NAME.sub(full_name, text)
