"""Specialised cores: where slurmd stays."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.host.binding import HostCores
from pyslurm_ng.d.host.own_cores import own_cpus

HOST = HostCores(tuple((core, core + 8) for core in range(8)), 4)


def kept(words: str, host: HostCores = HOST, params: tuple[str, ...] = ()) -> tuple[int, ...]:
    conf = parse_slurm_conf(
        "ClusterName=demo\nSlurmctldHost=ctl\n"
        f"NodeName=n Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 {words}\n"
        "PartitionName=main Nodes=n\n"
    )
    return own_cpus(conf.nodes[0], host, params, is_first=False)


@pytest.mark.parametrize(
    ("words", "cpus"),
    [
        ("", ()),
        ("CoreSpecCount=1", (7, 15)),
        ("CoreSpecCount=2", (3, 7, 11, 15)),
        ("CpuSpecList=0,1", (0, 8)),  # abstract CPUs: the two threads of the first core
    ],
)
def test_slurmd_stays_on_specialised_cores(words: str, cpus: tuple[int, ...]) -> None:
    """All threads of them, by the host's numbers."""
    assert kept(words) == cpus


def test_slurmd_may_leave_special_cores() -> None:
    """TaskPluginParam=SlurmdOffSpec."""
    cpus = kept("CoreSpecCount=2", params=("SlurmdOffSpec",))
    assert cpus == (0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14)


def test_a_host_without_these_cores_binds_nothing() -> None:
    """A node may say that it has more cores than its host."""
    assert kept("CoreSpecCount=1", HostCores(((0,), (1,)), 2)) == ()
