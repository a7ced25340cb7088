"""When HealthCheckProgram runs."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.d.node.health import first_pause_s, is_due_in

CONF = """
ClusterName=c
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
NodeName=n[1-4] CPUs=4
PartitionName=main Nodes=ALL Default=YES
HealthCheckProgram=/bin/true
HealthCheckInterval=60
"""


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (("ANY",), "IDLE MIXED ALLOC"),
        ((), "IDLE MIXED ALLOC"),
        (("CYCLE",), "IDLE MIXED ALLOC"),
        (("IDLE",), "IDLE"),
        (("IDLE", "MIXED", "CYCLE"), "IDLE MIXED"),
        (("ALLOC",), "ALLOC"),
        (("NONDRAINED_IDLE",), "IDLE"),
        (("START_ONLY",), ""),
        (("REBOOT_ONLY",), ""),
    ],
)
def test_nodes_are_checked_in_the_states_named(words: tuple[str, ...], states: str) -> None:
    """HealthCheckNodeState names the states; some words mean only the start of slurmd."""
    states_due = [state for state in ("IDLE", "MIXED", "ALLOC") if is_due_in(words, state)]
    assert " ".join(states_due) == states


def test_cycle_spreads_the_nodes_over_the_interval() -> None:
    """Each node a quarter of the interval after the one before."""
    together = parse_slurm_conf(CONF)
    assert [first_pause_s(together, name) for name in ("n1", "n4")] == [60, 60]
    cycle = parse_slurm_conf(CONF + "HealthCheckNodeState=CYCLE\n")
    assert [first_pause_s(cycle, f"n{at}") for at in (1, 2, 3, 4)] == [15, 30, 45, 60]
