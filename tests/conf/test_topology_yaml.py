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
        ([{"topology": "a"}], "topology a: expected one of flat, tree, block"),
        ([{"topology": "a", "tree": TREE, "block": BLOCK}],
         "topology a: expected one of flat, tree, block"),
        ([{"topology": "a", "ring": {"rings": []}}], "topology a: ring is not supported yet"),
        ([{"topology": "a", "tre": TREE}], "topology a: tre is not known here"),
        ([{"topology": "a", "flat": True}] * 2, "topology a: is there twice"),
        ([{"topology": "a", "tree": {"switches": [{"switch": "s", "node": "n1"}]}}],
         "topology a: switches: each entry has switch, children, nodes"),
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
         "4: topology a: switches: each entry has switch, children, nodes"),
        ("- topology: a\n  block:\n    block_sizes: [2, 3]\n    blocks:\n"
         "    - {block: b, nodes: 'n[1-4]'}\n", "3: topology a: 3 is not 2 times a power of two"),
        ("- topology: a\n  block:\n    block_sizes: [8]\n    blocks:\n"
         "    - {block: b, nodes: 'n[1-4]'}\n", "3: topology a: block b has fewer than 8 nodes"),
        ("- topology: a\n  flat: true\n- topology: a\n  flat: true\n",
         "3: topology a: is there twice"),
        ("- topology: a\n  flat: true\n  flat: false\n", "3: flat is there twice"),
        ("- topology: a\n  flat: [\n", "3: expected the node content"),
        ("- topology: a\n  moon: {}\n", "1: topology a: moon is not known here"),
        ("", " expected a list of topologies"),
    ],
)  # fmt: skip
def test_a_bad_network_is_refused_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """As `slurmctld --check`, its start and `scontrol reconfigure` say it."""
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    assert str(file_errors(str(path), NODES)[0]).startswith(f"{path}:{expected}")
