"""topology.conf: switches, blocks and rings, and everything that cannot be a network."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.topology_conf import TopologyConf, parse_topology_conf

NODES = tuple(f"n{index}" for index in range(1, 9))


def read(text: str) -> TopologyConf:
    return parse_topology_conf(text, NODES)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfErrors) as caught:
        read(text)
    return str(caught.value).splitlines()


def test_switches_know_their_level_nodes_and_parent() -> None:
    conf = read(
        "SwitchName=top Switches=mid,leaf3\nSwitchName=mid Switches=leaf[1-2] LinkSpeed=9\n"
        "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=leaf3 Nodes=n5\n"
    )
    assert conf.kind == "tree"
    by_name = {switch.name: switch for switch in conf.switches}
    assert [by_name[name].level for name in ("top", "mid", "leaf1", "leaf3")] == [2, 1, 0, 0]
    assert by_name["top"].node_names == ("n1", "n2", "n3", "n4", "n5")
    assert by_name["top"].children == ("mid", "leaf3")
    assert (by_name["mid"].parent, by_name["mid"].link_speed) == ("top", 9)
    assert by_name["top"].parent == ""


def test_blocks_have_sizes_that_double() -> None:
    conf = read("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=8,4\n")
    assert (conf.kind, conf.block_sizes) == ("block", (4, 8))
    assert conf.blocks[1].node_names == ("n5", "n6", "n7", "n8")


def test_the_least_block_is_the_size_when_none_is_given() -> None:
    assert read("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-7]\n").block_sizes == (3,)


def test_rings_keep_their_order() -> None:
    assert read("RingName=r Nodes=n3,n1,n2\n").blocks[0].node_names == ("n3", "n1", "n2")


def test_an_empty_file_is_a_flat_network() -> None:
    assert read("# nothing\n").kind == "flat"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "1: SwitchName: switch a is below"),
        ("SwitchName=a Switches=a", "switch a is below itself"),
        ("SwitchName=a Switches=zz", "switch a names the unknown switch zz"),
        ("SwitchName=a Nodes=n1,n1", "a node is named twice"),
        ("SwitchName=a", "switch a needs either Nodes= or Switches="),
        ("SwitchName=a Nodes=n1 Switches=b", "switch a needs either Nodes= or Switches="),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "a was already given in line 1"),
        ("SwitchName=a[1-2] Nodes=n1", "ranges are not allowed here"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "cannot be mixed"),
        ("BlockName=b Nodes=n[1-4]\nBlockSizes=4,12", "12 is not 4 times a power of two"),
        ("BlockName=b Nodes=n[1-2]\nBlockSizes=4", "block b has fewer than 4 nodes"),
        ("BlockSizes=4", "needs BlockName lines"),
        ("BlockName=b", "b needs Nodes="),
        ("SwitchName=a Nodes=\"\"", "1: SwitchName: Nodes= names no node"),
        ("SwitchName=a Switches=\"\"", "1: SwitchName: switch a names no switch"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,a", "2: SwitchName: switch b names a swi"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a", "1: Switch"),
        ("SwitchName=a Nodes=n[1-", "1: Nodes: Invalid hostlist: n[1-"),
        ("SwitchName=a Nodes=n1 LinkSpeed=x", "1: LinkSpeed: 'x' is not a number"),
        ("BlockName=a Nodes=n[1-4]\nBlockName=a Nodes=n5", "2: BlockName: a was already given"),
        ("BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n4", "2: BlockName: node n4 is already in a"),
        ("BlockName=a Nodes=n[1-4] Switches=x", "1: BlockName: Switches= belongs to a SwitchName"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=0", "2: BlockSizes: expected at least one size"),
        ("BlockName=a Nodes=n[1-4]\nBlockSizes=x", "2: BlockSizes: 'x' is not a number"),
        ("BlockName=a Nodes=n[1-8]\nBlockSizes=4\nBlockSizes=8", "3: BlockSizes: BlockSizes was"),
        ("Nodes=n1", "expected SwitchName=, BlockName=, RingName= or BlockSizes="),
        ("SwitchName=a Nodes=n1 Colour=red", "unknown key in topology.conf"),
    ],
)  # fmt: skip
def test_a_bad_network_is_refused_with_its_line(text: str, expected: str) -> None:
    lines = problems(text + "\n")
    assert any(expected in line for line in lines), lines
    assert all(line.startswith("topology.conf:") for line in lines)


def test_a_leaf_below_several_spines_is_below_the_widest() -> None:
    """Programs that write the file from the links of a fabric name it so, and Slurm starts."""
    leaves = "SwitchName=l1 Nodes=n1\nSwitchName=l2 Nodes=n2\nSwitchName=l3 Nodes=n3\n"
    spines = (
        "SwitchName=a Switches=l[1-2]\nSwitchName=b Switches=l[1-3]\nSwitchName=c Switches=l3\n"
    )
    conf = read(leaves + spines)
    above = {switch.name: switch.parent for switch in conf.switches}
    assert above == {"l1": "b", "l2": "b", "l3": "b", "b": ""}
    assert [line.partition("topology.conf:")[2] for line in conf.warnings] == [
        "4: SwitchName: l[1-2]: also below b, which counts",
        "6: SwitchName: l3: also below b, which counts",
        "6: SwitchName: switch c is left out: nothing is below it alone",
        "4: SwitchName: switch a is left out: nothing is below it alone",
    ]


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=3)), max_size=8))
def test_any_web_of_switches_is_a_forest_or_refused(web: list[tuple[int, list[int]]]) -> None:
    """What is accepted has one parent for each switch and levels that rise towards the root."""
    text = "".join(
        f"SwitchName=s{name} Switches={','.join(f's{child}' for child in children)}\n"
        if children
        else f"SwitchName=s{name} Nodes=n{name + 1}\n"
        for name, children in web
    )
    try:
        conf = read(text)
    except ConfErrors:
        return
    by_name = {switch.name: switch for switch in conf.switches}
    for switch in conf.switches:
        for child in switch.children:
            assert by_name[child].parent == switch.name
            assert by_name[child].level < switch.level


def test_nodes_that_are_not_in_the_cluster_are_left_out() -> None:
    """Slurm 22.05 starts, too, and names them in its log."""
    conf = read("SwitchName=a Nodes=n[7-10]\nSwitchName=b Nodes=n[1-6]\n")
    assert conf.switches[0].node_names == ("n7", "n8")
    assert conf.warnings == (
        "topology.conf:1: SwitchName: no NodeName line of slurm.conf has n[9-10]: left out",
    )


def test_a_node_of_two_switches_belongs_to_the_first() -> None:
    """Slurm 22.05 starts: "Multiple leaf switches contain nodes: n[2-3]"."""
    conf = read("SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[2-4]\nSwitchName=c Nodes=n4\n")
    assert [switch.node_names for switch in conf.switches] == [("n1", "n2", "n3"), ("n4",), ()]
    assert conf.warnings == (
        "topology.conf:2: SwitchName: nodes n[2-3] are already in a of line 1, which counts",
        "topology.conf:3: SwitchName: node n4 is already in b of line 2, which counts",
    )
