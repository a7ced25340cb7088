"""Heartbeats and silence: 6 s of SlurmdTimeout are as sound as 300 (RELIABILITY 24, 25)."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.nodes.silence import heartbeat_ms, silent_after_us, silent_nodes
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import NodeFlag, NodeState
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

SECOND_US = 1_000_000
TICK_US = SECOND_US


def conf_with(timeout_s: int) -> SlurmConf:
    return conf_of(FOUR_NODES + f"\nSlurmdTimeout={timeout_s}\n")


def look(cluster: Cluster, conf: SlurmConf, soft: Soft, now_us: int) -> None:
    """Do what the daemon does about silence once a second."""
    soft.expect(cluster, now_us)
    soft.listened(now_us, TICK_US, conf.slurmd_timeout * SECOND_US)
    apply_all(cluster, silent_nodes(cluster, conf, soft.last_seen_us, now_us))


@pytest.mark.parametrize("timeout_s", [2, 6, 15, 60, 300, 3600])
def test_three_heartbeats_have_to_be_missing(timeout_s: int) -> None:
    """One late or two lost heartbeats do not mark a node, however short the timeout is."""
    conf = conf_with(timeout_s)
    beat_us = heartbeat_ms(conf, 4) * 1000
    assert 3 * beat_us < silent_after_us(conf, 4) <= timeout_s * SECOND_US
    assert 5 * beat_us < timeout_s * SECOND_US
    assert beat_us <= 30 * SECOND_US


def test_a_large_cluster_with_a_short_timeout_speaks_less_often() -> None:
    """100,000 nodes send at most 5,000 heartbeats a second while three fit into SlurmdTimeout."""
    assert heartbeat_ms(conf_with(60), 100_000) == 20_000
    assert heartbeat_ms(conf_with(300), 100_000) == 30_000
    assert heartbeat_ms(conf_with(6), 100_000) == 2_000
    assert heartbeat_ms(conf_with(6), 1_000) == 1_000
    assert heartbeat_ms(conf_with(0), 1_000) == 30_000


def test_a_silent_node_is_marked_then_lost() -> None:
    """Not responding after half of SlurmdTimeout, DOWN after all of it; others are untouched."""
    cluster, conf, soft = cluster_of(), conf_with(6), Soft(started_us=START_US)
    for second in range(8):
        now_us = START_US + second * SECOND_US
        for node_id in (1, 2, 3):
            soft.heard(node_id, now_us)
        look(cluster, conf, soft, now_us)
        is_marked = bool(cluster.node(0).flags & NodeFlag.NOT_RESPONDING)
        assert is_marked == (second >= 4), second
        assert (cluster.node(0).state == NodeState.DOWN) == (second >= 6), second
    assert all(cluster.node(node_id).state == NodeState.IDLE for node_id in (1, 2, 3))


@pytest.mark.parametrize("timeout_s", [6, 300])
def test_a_controller_that_was_stopped_blames_no_node(timeout_s: int) -> None:
    """SIGSTOP for longer than SlurmdTimeout, then SIGCONT: it could not hear any node meanwhile."""
    cluster, conf, soft = cluster_of(), conf_with(timeout_s), Soft(started_us=START_US)
    look(cluster, conf, soft, START_US)
    now_us = START_US + 3600 * SECOND_US
    look(cluster, conf, soft, now_us)
    soft.heard(0, now_us)
    for second in range(1, timeout_s):
        look(cluster, conf, soft, now_us + second * SECOND_US)
        assert all(node.state == NodeState.IDLE for node in cluster.living_nodes()), second
        soft.heard(0, now_us + second * SECOND_US)
    look(cluster, conf, soft, now_us + timeout_s * SECOND_US)
    states = [cluster.node(node_id).state for node_id in range(4)]
    assert states == [NodeState.IDLE, *[NodeState.DOWN] * 3]


def test_a_busy_controller_still_finds_a_dead_node() -> None:
    """Turns that take seconds are not counted for silence, but do not make nodes immortal."""
    cluster, conf, soft = cluster_of(), conf_with(60), Soft(started_us=START_US)
    now_us = START_US
    for _ in range(100):
        look(cluster, conf, soft, now_us)
        now_us += 3 * SECOND_US
        for node_id in (1, 2, 3):
            soft.heard(node_id, now_us)
    assert cluster.node(0).state == NodeState.DOWN
    assert cluster.node(1).state == NodeState.IDLE


def test_an_external_node_may_be_silent() -> None:
    """It has no slurmd: another system looks after it."""
    conf = conf_of(f"{FOUR_NODES}NodeName=x State=EXTERNAL\nSlurmdTimeout=6\n")
    cluster, soft = Cluster(), Soft(started_us=START_US)
    apply_all(cluster, configure(cluster, conf, START_US))
    for second in range(9):
        look(cluster, conf, soft, START_US + second * SECOND_US)
    node = cluster.node(cluster.node_index.by_name["x"])
    assert (node.state, node.flags) == (NodeState.IDLE, NodeFlag.EXTERNAL)
    assert cluster.node(0).state == NodeState.DOWN
