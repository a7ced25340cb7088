"""topology.yaml: content as a YAML reader hands it over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.topology_yaml import file_errors, load_topology_yaml, topologies_of

NODES = tuple(f"n{number}" for number in range(1, 9))
TREE = {
    "switches": [
        {"switch": "s1", "nodes": "n[1-2]"},
        {"switch": "s2", "nodes": "n[3-4]"},
        {"switch": "top", "children": "s[1-2]"},
    ]
}
BLOCK = {"block_sizes": [2, 4], "blocks": [{"block": "b1", "nodes": "n[1-4]"}]}


def test_topologies_are_read_as_files_of_their_own() -> None:
    """Several kinds side by side; one is the cluster's."""
    tree, block, flat = topologies_of(
        [
            {"topology": "net", "cluster_default": True, "tree": TREE},
            {"topology": "nvl", "block": BLOCK},
            {"topology": "none", "flat": True},
        ],
        "topology.yaml",
        NODES,
    )
    assert (tree.name, tree.kind, tree.is_default) == ("net", "tree", True)
    assert [switch.level for switch in tree.switches] == [0, 0, 1]
    assert (block.name, block.kind, block.block_sizes, block.is_default) == (
        "nvl", "block", (2, 4), False,
    )  # fmt: skip
    assert (flat.name, flat.kind) == ("none", "flat")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({}, "expected a list of topologies"),
        ([{"tree": TREE}], "entry 1: topology: expected its name"),
        ([{"topology": "a"}], "topology a: expected one of flat, tree, block, ring, torus3d"),
        ([{"topology": "a", "tree": TREE, "block": BLOCK}],
         "topology a: expected one of flat, tree, block, ring, torus3d"),
        ([{"topology": "a", "tre": TREE}], "topology a: tre: unknown key; did you mean tree"),
        ([{"topology": "a", "flat": True}] * 2, "topology a: is there twice"),
        ([{"topology": "a", "tree": {"switches": [{"switch": "s", "node": "n1"}]}}],
         "topology a: switches: node: unknown key; did you mean nodes"),
        ([{"topology": "a", "tree": {"switches": [{"switch": "s", "nodes": "n1 x=y"}]}}],
         "topology a: nodes: expected a name or a list of hosts"),
        ([{"topology": "a", "tree": {"switches": [{"switch": "s", "nodes": "z1"}]}}],
         "topology a: no NodeName line of slurm.conf has z1"),
        ([{"topology": "a", "block": BLOCK | {"block_sizes": [2, 3]}}],
         "topology a: 3 is not 2 times a power of two"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(content: Any, text: str) -> None:
    """One line a problem, with the topology."""
    with pytest.raises(ConfErrors) as caught:
        topologies_of(content, "topology.yaml", NODES)
    assert [str(error) for error in caught.value.errors] == [f"topology.yaml: {text}"]


def test_switches_and_blocks_may_wait_for_their_nodes() -> None:
    """Nodes join them by their own Topology=; a key without a value is as if it were absent."""
    units: list[dict[str, Any]] = [
        {"switch": "root", "children": "s[1-2]"},
        {"switch": "s1"},
        {"switch": "s2", "nodes": None, "children": ""},
    ]
    tree, block, bare = topologies_of(
        [
            {"topology": "net", "tree": {"switches": units}},
            {"topology": "nvl", "block": {"block_sizes": [2], "blocks": [{"block": "b1"}]}},
            {"topology": "none", "tree": {"switches": []}},
        ],
        "topology.yaml",
        NODES,
    )
    assert [(unit.name, unit.level, unit.node_names) for unit in tree.switches] == [
        ("root", 1, ()),
        ("s1", 0, ()),
        ("s2", 0, ()),
    ]
    assert (block.blocks[0].node_names, block.block_sizes) == ((), (2,))
    assert (bare.kind, bare.switches) == ("tree", ())


def test_the_first_default_is_the_clusters() -> None:
    """Slurm takes the first topology with cluster_default: true."""
    content = [{"topology": name, "cluster_default": True, "flat": True} for name in "ab"]
    assert [topology.is_default for topology in topologies_of(content, "topology.yaml")] == [
        True,
        False,
    ]


def test_a_file_is_read_as_its_text_says(tmp_path: Path) -> None:
    """As an administrator writes it; every text that is no YAML or no topology is one line."""
    path = tmp_path / "topology.yaml"
    path.write_text(
        """
- topology: net
  cluster_default: true
  tree:
    switches:
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
      - {switch: top, children: "s[1-2]"}
- topology: nvl
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[1-4]
"""
    )
    net, nvl = load_topology_yaml(str(path), NODES)
    assert (net.name, net.is_default, len(net.switches)) == ("net", True, 3)
    assert (nvl.name, nvl.kind, nvl.block_sizes) == ("nvl", "block", (2, 4))
    assert not file_errors(str(path), NODES)
    for text in ("- topology: [x\n", "\tx: 1\n", "- !!python/object:os.system {}\n", "\x00"):
        path.write_text(text)
        (error,) = file_errors(str(path), NODES)
        assert str(path) in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: z1}\n",
         "4: topology a: no NodeName line of slurm.conf has z1"),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: n1}\n"
         "    - switch: t\n      nodes: n1\n", "5: topology a: node n1 is already in s"),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, children: t}\n"
         "    - {switch: t, children: s}\n", "4: topology a: switch s is below itself"),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, children: x}\n",
         "4: topology a: switch s names the unknown switch x"),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: n1, children: s}\n",
         "4: topology a: switch s needs either Nodes= or Switches="),
        ("- topology: a\n  tree:\n    switches:\n    - {switch: s, node: n1}\n",
         "4: topology a: switches: node: unknown key; did you mean nodes"),
        ("- topology: a\n  block:\n    block_sizes: [2, 3]\n    blocks:\n"
         "    - {block: b, nodes: 'n[1-4]'}\n", "3: topology a: 3 is not 2 times a power of two"),
        ("- topology: a\n  block:\n    block_sizes: [8]\n    blocks:\n"
         "    - {block: b, nodes: 'n[1-4]'}\n", "3: topology a: block b has fewer than 8 nodes"),
        ("- topology: a\n  flat: true\n- topology: a\n  flat: true\n",
         "3: topology a: is there twice"),
        ("- topology: a\n  flat: true\n  flat: false\n", "3: flat is there twice"),
        ("- topology: a\n  flat: [\n", "3: expected the node content"),
        ("- topology: a\n  moon: {}\n",
         "1: topology a: moon: unknown key; known are topology, cluster_default, "),
        ("- topology: a\n  tree:\n    switches: [s]\n",
         "3: topology a: switches: each entry has switch, children, nodes"),
        ("", " expected a list of topologies"),
    ],
)  # fmt: skip
def test_a_bad_network_is_refused_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """As `slurmctld --check`, its start and `scontrol reconfigure` say it."""
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    assert str(file_errors(str(path), NODES)[0]).startswith(f"{path}:{expected}")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_bytes(b"\x91")
    assert str(file_errors(str(path), NODES)[0]) == f"{path}: is not text in UTF-8"
    problem = "cannot be read: Is a directory"
    assert str(file_errors(str(tmp_path), NODES)[0]) == f"{tmp_path}: {problem}"


def xyz(x: int, y: int, z: int) -> dict[str, int]:
    """Return three lengths as a topology.yaml has them."""
    return {"x": x, "y": y, "z": z}


def torus(**changes: Any) -> list[dict[str, Any]]:
    """Return a topology of one torus of four nodes."""
    body: dict[str, Any] = {
        "name": "t1",
        "dims": xyz(2, 2, 1),
        "nodes": "n[1-4]",
        "placements": [{"dims": xyz(2, 1, 1)}],
        **changes,
    }
    body = {key: value for key, value in body.items() if value is not None}
    return [{"topology": "a", "torus3d": {"toruses": [body]}}]


def test_rings_keep_the_order_of_their_nodes() -> None:
    """Neighbours in the list are neighbours on the ring."""
    (ring,) = topologies_of(
        [
            {
                "topology": "a",
                "ring": {"rings": [{"ring": "r1", "nodes": "n3,n[1-2]"}, {"ring": "r2"}]},
            }
        ],
        "topology.yaml",
        NODES,
    )
    assert ring.kind == "ring"
    assert [(unit.name, unit.node_names) for unit in ring.blocks] == [
        ("r1", ("n3", "n1", "n2")),
        ("r2", ()),
    ]


def test_a_torus_has_nodes_or_regions_and_shapes() -> None:
    """Shapes lie side by side unless a grid is given."""
    regions = [
        {"anchor": xyz(0, 1, 0), "dims": xyz(2, 1, 1), "nodes": "n[1-2]"},
        {"anchor": xyz(1, 0, 0), "dims": xyz(1, 1, 1), "nodes": "n3"},
    ]
    grid = {"dims": xyz(2, 2, 1), "anchor_seed": xyz(1, 0, 0), "anchor_spacing": xyz(2, 1, 1)}
    (plain,) = topologies_of(torus(), "topology.yaml", NODES)
    (parts,) = topologies_of(
        torus(nodes=None, regions=regions, placements=[grid]), "topology.yaml", NODES
    )
    assert plain.kind == "torus3d"
    assert plain.toruses[0].placements == (((2, 1, 1), (0, 0, 0), (2, 1, 1)),)
    assert [region.node_names for region in parts.toruses[0].regions] == [("n1", "n2"), ("n3",)]
    assert parts.toruses[0].placements == (((2, 2, 1), (1, 0, 0), (2, 1, 1)),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"topology": "a", "torus3d": {"tori": []}}], "torus3d: needs toruses"),
        ([{"topology": "a", "torus3d": {"toruses": 7}}], "toruses: expected a list"),
        (torus(name=None), "name: expected a name"),
        (torus(color=1),
         "toruses: color: unknown key; known are name, dims, nodes, regions, placements"),
        (torus(node=1), "toruses: node: unknown key; did you mean nodes"),
        ([{"topology": "a", "torus3d": {"toruses": ["t"]}}],
         "toruses: each entry has name, dims, nodes, regions, placements"),
        (torus(dims=[2, 2, 1]), "torus t1: dims: expected x, y and z"),
        (torus(dims=xyz(2, 0, 1)), "torus t1: dims: y: expected a number from 1 to 65536"),
        (torus(dims=xyz(65536, 2, 1)), "torus t1: dims: at most 65536 cells are allowed"),
        (torus(nodes="n[1-3]"), "torus t1: nodes: 4 cells need as many nodes, not 3"),
        (torus(nodes="n[1-3],n1"), "torus t1: nodes: a node is named twice"),
        (torus(nodes="n[1-3],z1"), "no NodeName line of slurm.conf has z1"),
        (torus(nodes=None), "torus t1: expected either nodes or regions"),
        (torus(regions=[]), "torus t1: expected either nodes or regions"),
        (torus(placements=[]), "torus t1: placements: expected at least one, or no job could run"),
        (torus(placements=[{"dims": xyz(2, 1, 1)}] * 65),
         "torus t1: placements: at most 64 are allowed"),
        (torus(placements=[{"dims": xyz(3, 1, 1)}]),
         "torus t1: placement 1: dims: x: expected a number from 1 to 2"),
        (torus(placements=[{"dims": xyz(1, 1, 1), "anchor_seed": xyz(0, 2, 0)}]),
         "torus t1: placement 1: anchor_seed: y: expected a number from 0 to 1"),
        (torus(placements=[{"dims": xyz(1, 1, 1), "anchor_spacing": xyz(0, 1, 1)}]),
         "torus t1: placement 1: anchor_spacing: x: expected a number from 1 to 2"),
        (torus(nodes=None, regions=[
            {"anchor": xyz(0, 0, 0), "dims": xyz(2, 1, 1), "nodes": "n[1-2]"},
            {"anchor": xyz(1, 0, 0), "dims": xyz(1, 1, 1), "nodes": "n3"}]),
         "torus t1: cell x=1 y=0 z=0 is in two regions"),
        (torus(nodes=None, regions=[
            {"anchor": xyz(0, 0, 0), "dims": xyz(1, 1, 1), "nodes": "n1"},
            {"anchor": xyz(1, 0, 0), "dims": xyz(1, 1, 1), "nodes": "n1"}]),
         "torus t1: node n1 is in two regions"),
        ([{"topology": "a", "ring": {"rings": [{"ring": "r", "nodes": "n[1-17]"}]}}],
         "a ring has at most 16 nodes, not 17"),
        ([{"topology": "a", "ring": {"rings": [{"ring": "r", "nodes": "n1"},
                                               {"ring": "q", "nodes": "n1"}]}}],
         "node n1 is already in r of line 1"),
        ([{"topology": "a", "ring": {"rings": [], "block_sizes": [2]}}], "ring: expected rings"),
    ],
)  # fmt: skip
def test_wrong_rings_and_tori_are_named(content: Any, text: str) -> None:
    """One line, with the topology, the torus, and the place in it."""
    names = tuple(f"n{number}" for number in range(1, 20))
    with pytest.raises(ConfErrors) as caught:
        topologies_of(content, "topology.yaml", names)
    (error,) = caught.value.errors
    assert str(error) == f"topology.yaml: topology a: {text}"
