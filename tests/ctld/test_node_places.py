"""Topology= of nodes: slurm.conf, slurmd and scontrol say where a node is in the network."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.topology_yaml import topologies_of
from pyslurm_ng.ctld.queries.topology import topology_lines
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.nodes.registration import register
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.d.__main__ import main, topology_of
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.topology import (
    Block,
    Switch,
    Topology,
    are_places,
    placed,
    units_in_order,
)
from pyslurm_ng.wire.query_messages import ConfigText, ShowTopology, UpdateNodes
from tests.model.clusters import FOUR_NODES, START_US, conf_of

ROOT = Caller(0, 0, "root", is_admin=True, is_operator=True)

NAMES = ("n1", "n2", "n3", "n4")
FILE: list[dict[str, Any]] = [
    {
        "topology": "net",
        "cluster_default": True,
        "tree": {
            "switches": [
                {"switch": "root", "children": "s[1-2]"},
                {"switch": "s1", "nodes": "n[1-2]"},
                {"switch": "s2"},
            ]
        },
    },
    {
        "topology": "nvl",
        "block": {"block_sizes": [1, 2], "blocks": [{"block": "b1", "nodes": "n1"},
                                                     {"block": "b2"}]},
    },
]  # fmt: skip


def load(cluster: Cluster, conf: SlurmConf | None = None) -> Cluster:
    """Read the configuration, as slurmctld does at its start and at a reconfigure."""
    conf = conf or conf_of()
    topologies = topologies_of(FILE, "topology.yaml", NAMES)
    apply_all(cluster, configure(cluster, conf, START_US, topologies))
    return cluster


def update(cluster: Cluster, nodes: str, topology: str) -> Reject | None:
    """Run `scontrol update NodeName=... Topology=...`; return why it was refused."""
    request = UpdateNodes(request_id=bytes(16), nodes=nodes, settings={"topology": topology})
    outcome = update_nodes(cluster, request, Context(conf_of(), START_US, ROOT))
    if isinstance(outcome, Decision):
        apply_all(cluster, outcome.events)
        return None
    return outcome


def shown(cluster: Cluster) -> dict[str, str]:
    """Return the nodes of every switch and block."""
    answer = topology_lines(cluster, ShowTopology())
    assert isinstance(answer, ConfigText)
    nodes_of = {}
    for line in answer.lines:
        words = dict(word.split("=") for word in line.split())
        nodes_of[words.get("SwitchName") or words["BlockName"]] = words["Nodes"]
    return nodes_of


def test_nodes_join_switches_that_had_none() -> None:
    """They keep their place when the configuration is read again."""
    cluster = load(Cluster())
    assert shown(cluster) == {"root": "n[1-2]", "s1": "n[1-2]", "s2": "", "b1": "n1", "b2": ""}
    assert update(cluster, "n[3-4]", "net:s2,nvl:b2") is None
    joined = {"root": "n[1-4]", "s1": "n[1-2]", "s2": "n[3-4]", "b1": "n1", "b2": "n[3-4]"}
    assert shown(cluster) == joined
    assert shown(load(cluster)) == joined


def test_slurm_conf_says_where_nodes_are() -> None:
    """An update by hand holds until the line's Topology= changes."""
    text = FOUR_NODES.replace("Sockets=2", "Topology=net:s2 Sockets=2")
    cluster = load(Cluster(), conf_of(text))
    assert shown(cluster) == {"root": "n[1-4]", "s1": "", "s2": "n[1-4]", "b1": "", "b2": ""}
    assert update(cluster, "n1", "net:s1") is None
    assert shown(load(cluster, conf_of(text)))["s1"] == "n1"
    assert shown(load(cluster, conf_of(text.replace("net:s2", "nvl:b1"))))["b1"] == "n[1-4]"


def test_a_node_leaves_what_its_setting_does_not_name() -> None:
    """The setting says all; an empty one takes the node out of every unit."""
    cluster = load(Cluster())
    assert update(cluster, "n1", "net:s2") is None
    assert shown(cluster) == {"root": "n[1-2]", "s1": "n2", "s2": "n1", "b1": "", "b2": ""}
    assert update(cluster, "n1", "") is None
    assert shown(cluster)["root"] == "n2"
    # slurm.conf and the network's file say again where it is.
    assert shown(load(cluster))["s1"] == "n[1-2]"


def test_the_path_from_the_top_may_be_given() -> None:
    """It names the switches above the unit.

    One that does not exist is made below the last known one.
    """
    cluster = load(Cluster())
    assert update(cluster, "n3", "net:root:s2") is None
    assert update(cluster, "n4", "net:root:s3") is None
    assert shown(cluster) | {"b1": "", "b2": ""} == {
        "root": "n[1-4]", "s1": "n[1-2]", "s2": "n3", "s3": "n4", "b1": "", "b2": "",
    }  # fmt: skip
    assert shown(load(cluster))["s3"] == "n4"


@pytest.mark.parametrize(
    "topology",
    ["s1", "net", "net:", ":s1", "net:s9", "net:root", "net:s1:s2", "net:s1:new", "nvl:b9",
     "nvl:b1:b2", "moon:s1", "net:s1,moon:s1", "net:root:s3:s3", ",", "net:root::x",
     "net:s2," * 1000],
)  # fmt: skip
def test_a_place_that_does_not_exist_is_refused(topology: str) -> None:
    """As Slurm: nothing changes."""
    cluster = load(Cluster())
    before = cluster.topologies
    refusal = update(cluster, "n1", topology)
    assert isinstance(refusal, Reject)
    assert refusal.code == Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE
    assert cluster.topologies == before


def test_slurmd_says_where_it_is_when_it_registers_first() -> None:
    """`slurmd --conf Topology=`: later it counts again only when the node has booted."""
    cluster = load(Cluster())
    conf = conf_of()

    def registered(boot_id: str) -> str:
        facts = NodeFacts(boot_id=boot_id, topology="net:s2")
        apply_all(cluster, register(cluster, 0, facts, [], conf, START_US))
        return "".join(name for name in ("s1", "s2") if "n1" in _nodes(cluster, name))

    assert registered("first") == "s2"
    assert update(cluster, "n1", "net:s1") is None
    assert registered("first") == "s1"
    assert registered("second") == "s2"


def test_slurmd_takes_only_a_topology(capsys: pytest.CaptureFixture[str]) -> None:
    """The other words of --conf make dynamic nodes."""
    assert topology_of("Topology=net:root:s2") == "net:root:s2"
    assert topology_of("") == ""
    for words in ("Topology=", "CPUs=4", "Topology=a:b Feature=c", "net:s2"):
        assert main(["--conf", words]) == 1
    assert "only Topology=PLACE" in capsys.readouterr().err


def _nodes(cluster: Cluster, unit: str) -> list[str]:
    switches = {switch.name: switch for switch in cluster.topologies[0].switches}
    return cluster.node_names(switches[unit].node_ids)


TREE = Topology(
    "t",
    "tree",
    (
        Switch("r", 2, (0, 1, 2), ("m", "c")),
        Switch("m", 1, (0, 1), ("a", "b"), "r"),
        Switch("a", 0, (0,), (), "m"),
        Switch("b", 0, (1,), (), "m"),
        Switch("c", 0, (2,), (), "r"),
    ),
)
BLOCKS = Topology("k", "block", (), (Block("a", (0, 1)), Block("b", (2,)), Block("c", ())), (2,))


@given(st.dictionaries(st.integers(0, 5), st.sampled_from("abcx"), max_size=6))
def test_nodes_are_only_where_they_say(unit_of: dict[int, str]) -> None:
    """Other nodes stay. Switches above have what is below them."""
    settings = {node_id: f"t:{unit},k:{unit}" for node_id, unit in unit_of.items()}
    for topology in placed((TREE, BLOCKS), settings):
        was = {"a": (0,), "b": (1,), "c": (2,)}
        units = {switch.name: switch.node_ids for switch in topology.switches if not switch.level}
        if topology.kind == "block":
            was = {"a": (0, 1), "b": (2,), "c": ()}
            units = {block.name: block.node_ids for block in topology.blocks}
        for name, node_ids in units.items():
            here = {node_id for node_id in was[name] if node_id not in unit_of}
            assert set(node_ids) == here | {
                node_id for node_id, unit in unit_of.items() if unit == name
            }
            assert len(set(node_ids)) == len(node_ids)
        assert units_in_order(topology) == list(units.values())
        for switch in topology.switches:
            below = [leaf for leaf in topology.switches if leaf.name in switch.children]
            if below:
                assert switch.node_ids == sum((leaf.node_ids for leaf in below), ())


@pytest.mark.parametrize("word", ["--conf-server=ctl"])
def test_what_slurmd_cannot_be_is_refused_by_name(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node without a slurm.conf."""
    assert main([word]) == 1
    assert capsys.readouterr().err.startswith(f"slurmd: error: {word.partition('=')[0]}: ")


def test_a_node_is_made_or_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """-Z makes a node that slurm.conf lacks, -F takes one that it has."""
    assert main(["-Z", "-Ffast"]) == 1
    assert capsys.readouterr().err == "slurmd: error: -F and -Z exclude each other\n"


def test_nodes_of_rings_and_tori_keep_their_places() -> None:
    """A node that leaves a ring comes back between its ends; in a torus its cell waits for it."""
    cell = {"x": 1, "y": 1, "z": 1}
    content: list[dict[str, Any]] = [
        {
            "topology": "net",
            "ring": {"rings": [{"ring": "r1", "nodes": "n[3,1,2]"}, {"ring": "r2"}]},
        },
        {
            "topology": "pod",
            "torus3d": {
                "toruses": [
                    {
                        "name": "t1",
                        "dims": {"x": 3, "y": 1, "z": 1},
                        "nodes": "n[1-3]",
                        "placements": [{"dims": cell}],
                    }
                ]
            },
        },
    ]
    cluster = Cluster()
    topologies = topologies_of(content, "topology.yaml", NAMES)
    apply_all(cluster, configure(cluster, conf_of(), START_US, topologies))

    def units() -> list[list[str]]:
        return [
            cluster.node_names(list(unit))
            for topology in cluster.topologies
            for unit in units_in_order(topology)
        ]

    assert units() == [["n3", "n1", "n2"], [], ["n1", "n2", "n3"]]
    assert update(cluster, "n1", "net:r1,pod:t1") is None  # where it is already
    assert units() == [["n3", "n1", "n2"], [], ["n1", "n2", "n3"]]
    assert update(cluster, "n1", "net:r2") is None
    assert units() == [["n3", "n2"], ["n1"], ["n2", "n3"]]
    assert update(cluster, "n1", "net:r1,pod:t1") is None
    assert units() == [["n3", "n2", "n1"], [], ["n1", "n2", "n3"]]
    assert isinstance(update(cluster, "n4", "pod:t1"), Reject)  # it has no cell there
    assert isinstance(update(cluster, "n1", "pod:t1:0"), Reject)
    assert isinstance(update(cluster, "n1", "net:r3"), Reject)


def test_a_ring_has_at_most_sixteen_nodes() -> None:
    """The seventeenth is refused; those that are in it may say so again."""
    ring = Topology("net", "ring", (), (Block("r1", tuple(range(16))),))
    assert not are_places([ring], "net:r1", [16])
    assert are_places([ring], "net:r1", [3])
    (moved,) = placed([ring], {16: "net:r1", 3: ""})
    assert units_in_order(moved) == [(*range(3), *range(4, 17))]
