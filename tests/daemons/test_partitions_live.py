"""A node whose way to the controller breaks, whole or in one direction: RELIABILITY 24, 25."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from pyslurm_ng.wire.endpoint import zmq_port
from tests.daemons.faults import AS_OTHERS, kill
from tests.daemons.live import LiveCluster
from tests.daemons.proxy import Proxy
from tests.daemons.silent_nodes import TIMEOUT_S, Victim, is_well, states, three_nodes
from tests.world.processes import is_alive

pytestmark = AS_OTHERS
NODE = "n1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three nodes under node_loss=lease; jobs go to the first one first."""
    yield from three_nodes(tmp_path_factory.mktemp("partitions"), "node_loss=lease")


@pytest.fixture(scope="module")
def way(cluster: LiveCluster) -> Iterator[Proxy]:
    """The way from the first node to the controller; others reach it directly."""
    etc = cluster.directory / "etc"
    text = (etc / "slurm.conf").read_text()
    ports = [line for line in text.splitlines() if line.startswith("SlurmctldPort=")]
    proxy = Proxy(zmq_port(int(ports[0].partition("=")[2])))
    own = cluster.directory / "etc.n1"
    shutil.copytree(etc, own)
    (own / "slurm.conf").write_text(
        text.replace("node_loss=lease", f"node_loss=lease,zmq_port={proxy.port}")
    )
    kill(cluster, f"slurmd-{NODE}")
    done = cluster.run("slurmd", "-N", NODE, SLURM_CONF=str(own / "slurm.conf"))
    assert done.returncode == 0, done.stderr
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))
    yield proxy
    proxy.heal()
    proxy.close()


@pytest.fixture
def healed(cluster: LiveCluster, way: Proxy) -> Iterator[Proxy]:
    yield way
    way.heal()
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))


def test_a_node_that_is_cut_off_ends_runs_that_were_given_up(
    cluster: LiveCluster, healed: Proxy
) -> None:
    """Through another node it hears that its job is given up.

    It ends the job when its lease is over, and reports that. The second run begins while the node
    is still cut off, and after the end of the first.
    """
    victim = Victim(cluster, "lease")
    assert victim.node == NODE
    healed.cut()
    victim.wait_for_second_run()
    assert not is_alive(victim.pid)
    assert "overlap" not in victim.lines()
    assert victim.comment().startswith(
        f"run 1 began after the end of run 0 on {NODE} was confirmed: {NODE} said so through n"
    )
    assert states(cluster)[NODE] == "down*"
    healed.heal()
    victim.end()


def test_no_job_ends_while_the_controller_is_away(cluster: LiveCluster, healed: Proxy) -> None:
    """This holds on a node that is cut off for longer than its lease.

    No neighbour can reach the controller either.
    """
    victim = Victim(cluster, "away")
    kill(cluster, "slurmctld")
    healed.cut()
    # The outage has to be longer than the lease.
    cluster.keeps("the job runs", lambda: is_alive(victim.pid), 2.5 * TIMEOUT_S)
    healed.heal()
    done = cluster.run("slurmctld")
    assert done.returncode == 0, done.stderr
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))
    assert is_alive(victim.pid)
    assert victim.lines() == [f"run 0 on {victim.node}"]
    victim.end()


@pytest.mark.parametrize("direction", ["there", "back"])
@pytest.mark.parametrize("seconds", [2, 3 * TIMEOUT_S])
def test_a_partition_in_one_direction_does_not_flap(
    cluster: LiveCluster, healed: Proxy, direction: str, seconds: int
) -> None:
    """RELIABILITY 25: at most out of service once and back once, and nothing of the kind for a
    partition that is shorter than SlurmdTimeout."""
    seen = [states(cluster)[NODE]]
    setattr(healed, direction, False)
    until = time.monotonic() + seconds
    while time.monotonic() < until + 2 * TIMEOUT_S:
        if time.monotonic() > until:
            healed.heal()
        seen.append(states(cluster)[NODE])
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))
    served = [not state.startswith("down") for state in [*seen, states(cluster)[NODE]]]
    changes = sum(earlier != other for earlier, other in pairwise(served))
    assert changes <= (2 if seconds > TIMEOUT_S else 0), seen
