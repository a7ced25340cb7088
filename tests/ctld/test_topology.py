"""What the controller tells of the network: `scontrol show topology` and addresses for jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.conf.topology_yaml import load_topology_yaml
from pyslurm_ng.ctld.nodes.credentials import addresses_of
from pyslurm_ng.ctld.queries.topology import topology_lines
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.query_messages import ConfigText, ShowTopology
from tests.model.clusters import START_US, conf_of

TREE = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n"
BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n"
RINGS = "RingName=r1 Nodes=n[3,1-2]\nRingName=r2 Nodes=n4\n"
TORUS = """
- topology: pod
  cluster_default: true
  torus3d:
    toruses:
      - name: t1
        dims: {x: 2, y: 1, z: 2}
        nodes: n[4,2-3,1]
        placements:
          - dims: {x: 2, y: 1, z: 1}
          - dims: {x: 2, y: 1, z: 2}
            anchor_seed: {x: 1, y: 0, z: 0}
            anchor_spacing: {x: 1, y: 1, z: 2}
"""


def cluster_with(text: str) -> Cluster:
    """Return a cluster of four nodes with a topology.conf."""
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf_of(), START_US, [parse_topology_conf(text)]))
    return cluster


def lines(cluster: Cluster, **asked: str) -> list[str]:
    """Return what `scontrol show topology` prints."""
    answer = topology_lines(cluster, ShowTopology(**asked))
    assert isinstance(answer, ConfigText)
    return answer.lines


def test_a_tree_is_shown_as_slurm_shows_it() -> None:
    """Switches in the order of the file, with all nodes below."""
    cluster = cluster_with(TREE)
    top = "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]"
    assert lines(cluster) == [
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]",
        "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]",
        top,
    ]
    assert lines(cluster, node="n3") == ["SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]", top]
    assert lines(cluster, unit="top") == [top]
    # A name alone may be that of a node.
    assert lines(cluster, unit="n3") == lines(cluster, node="n3")


def test_blocks_are_shown_with_the_base_size() -> None:
    """One line a block."""
    cluster = cluster_with(BLOCKS)
    assert lines(cluster, node="n4") == ["BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2"]


def test_an_unknown_switch_or_node_is_refused() -> None:
    """Under a flat network there is nothing to be wrong about."""
    cluster = cluster_with(TREE)
    assert isinstance(topology_lines(cluster, ShowTopology(unit="s9")), Reject)
    assert isinstance(topology_lines(cluster, ShowTopology(node="n9")), Reject)
    assert lines(Cluster(), node="n9") == []


def test_addresses_follow_the_tree() -> None:
    """SLURM_TOPOLOGY_ADDR and its pattern, from the top switch to the node."""
    cluster = cluster_with(TREE)
    assert addresses_of(cluster.topologies[0], cluster, [0, 3]) == (
        ("top.s1.n1", "top.s2.n4"),
        "switch.switch.node",
    )


def test_addresses_in_blocks_name_the_block() -> None:
    """A block is one level."""
    cluster = cluster_with(BLOCKS)
    assert addresses_of(cluster.topologies[0], cluster, [3]) == (("b2.n4",), "block.node")


def test_the_topology_survives_a_checkpoint() -> None:
    """It is part of the stored form."""
    cluster = cluster_with(TREE)
    assert Cluster.from_bytes(cluster.to_bytes()).topologies == cluster.topologies


@pytest.mark.parametrize("text", [TREE, BLOCKS, RINGS, ""])
def test_the_topology_is_shown_as_a_file_with_the_same_content(text: str, tmp_path: Path) -> None:
    """Whatever kind of file it came from."""
    cluster = cluster_with(text)
    answer = topology_lines(cluster, ShowTopology(as_yaml=True))
    assert isinstance(answer, ConfigText)
    path = tmp_path / "topology.yaml"
    path.write_text("\n".join(answer.lines))
    again = Cluster()
    read = load_topology_yaml(str(path))
    apply_all(again, configure(again, conf_of(), START_US, list(read)))
    assert again.topologies == cluster.topologies


def test_a_flat_topology_is_shown_with_every_kind_empty() -> None:
    """As Slurm prints it."""
    answer = topology_lines(cluster_with(""), ShowTopology(as_yaml=True))
    assert isinstance(answer, ConfigText)
    assert answer.lines[4:] == [
        "  block: {}", "  flat: {}", "  ring: {}", "  torus3d: {}", "  tree: {}", "...",
    ]  # fmt: skip


def torus_cluster(tmp_path: Path, text: str = TORUS) -> Cluster:
    """Return a cluster of four nodes with a torus."""
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf_of(), START_US, list(load_topology_yaml(str(path)))))
    return cluster


def test_rings_are_shown_in_their_order() -> None:
    """Neighbours stand side by side."""
    cluster = cluster_with(RINGS)
    assert lines(cluster) == [
        "RingName=r1 RingIndex=0 Nodes=n[3,1-2] RingSize=3",
        "RingName=r2 RingIndex=1 Nodes=n4 RingSize=1",
    ]
    assert lines(cluster, node="n4") == lines(cluster, unit="r2")


def test_a_torus_is_shown_and_its_file_is_the_same_again(tmp_path: Path) -> None:
    """With the shapes that jobs may have; nodes in the order of their cells."""
    cluster = torus_cluster(tmp_path)
    assert lines(cluster, node="n2") == [
        "TorusName=t1 TorusIndex=0 Dims=2x1x2 Nodes=n[1-4] Placements=2x1x1,2x1x2"
    ]
    assert addresses_of(cluster.topologies[0], cluster, [1]) == (("t1.n2",), "torus.node")
    assert Cluster.from_bytes(cluster.to_bytes()).topologies == cluster.topologies
    regions = """        regions:
          - {anchor: {x: 1, y: 0, z: 0}, dims: {x: 1, y: 1, z: 2}, nodes: "n[3,1]"}
"""
    for text in (TORUS, TORUS.replace("        nodes: n[4,2-3,1]\n", regions)):
        cluster = torus_cluster(tmp_path, text)
        answer = topology_lines(cluster, ShowTopology(as_yaml=True))
        assert isinstance(answer, ConfigText)
        again = torus_cluster(tmp_path, "\n".join(answer.lines))
        assert again.topologies == cluster.topologies
