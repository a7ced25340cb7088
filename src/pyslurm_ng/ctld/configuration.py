"""Everything the controller knows from files: slurm.conf and its neighbours, read as one."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from pyslurm_ng.conf import acct_gather_conf
from pyslurm_ng.conf.acct_gather_conf import AcctGatherConf
from pyslurm_ng.conf.cgroup_conf import CgroupConf, load_cgroup_conf, parse_cgroup_conf
from pyslurm_ng.conf.check import check, check_warnings, topologies_of
from pyslurm_ng.conf.on_host import missing_groups, missing_users
from pyslurm_ng.conf.slurm_conf import SlurmConf, load_slurm_conf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.sched.frame.policy import Policy, policy


class BadConfiguration(Exception):
    """The files cannot be used; `lines` name every problem."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines[0] if lines else "bad configuration")
        self.lines = lines

    @property
    def is_network(self) -> bool:
        """Whether nothing but topology.yaml is wrong, of which Slurm has words of its own."""
        return all("/topology.yaml:" in line for line in self.lines)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One consistent reading of the files; replaced whole by a reconfigure.

    `warnings` are for the log: keys and words without effect.
    """

    conf: SlurmConf
    policy: Policy
    topologies: tuple[TopologyConf, ...]
    cgroup: CgroupConf
    gather: AcctGatherConf
    service_uid: int
    warnings: tuple[str, ...]

    @property
    def directory(self) -> str:
        """Where slurm.conf and slurm.key lie."""
        return os.path.dirname(self.conf.path) or "."

    def host_index(self, host: str) -> int:
        """Return the place of a host among the controllers, -1 when it is none of them."""
        short = host.partition(".")[0]
        for index, controller in enumerate(self.conf.slurmctld_host):
            if controller.name in (host, short, "localhost"):
                return index
        return -1


def load_configuration(path: str) -> Configuration:
    """Read and check slurm.conf and the files beside it.

    Raises:
        BadConfiguration: with every problem of every file.
    """
    problems = check(path) or [str(error) for error in missing_users(path)]
    if problems:
        raise BadConfiguration(problems)
    conf = load_slurm_conf(path)
    directory = os.path.dirname(path) or "."
    cgroup_path = os.path.join(directory, "cgroup.conf")
    has_cgroup = os.path.exists(cgroup_path)
    cgroup = load_cgroup_conf(cgroup_path) if has_cgroup else parse_cgroup_conf("")
    return Configuration(
        conf=conf,
        policy=policy(conf),
        topologies=topologies_of(conf, directory),
        cgroup=cgroup,
        gather=_gather_beside(conf),
        service_uid=_uid_of(conf.slurm_user),
        warnings=(*check_warnings(path), *missing_groups(path)),
    )


def _gather_beside(conf: SlurmConf) -> AcctGatherConf:
    """Return acct_gather.conf, as if empty where only slurmd may read it."""
    path = acct_gather_conf.path_beside(conf)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return acct_gather_conf.parse_acct_gather_conf("", path)
    return acct_gather_conf.beside(conf)


def _uid_of(user: str) -> int:
    return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
