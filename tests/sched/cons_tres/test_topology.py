"""Placement in trees and blocks, against exhaustive search."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import NEVER, Grid, holding
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.events import NodeRegistered
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.model.topology import Block, Switch, Topology
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.cons_tres.layouts import layout_of as numbered
from pyslurm_ng.sched.cons_tres.topology import Layout, WantedNodes, bits, choose_shares
from pyslurm_ng.sched.cons_tres.tree_layout import TreeLayout
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of, submit
from tests.oracle import topology as oracle
from tests.world.examples import drawn


def tree_of(widths: list[list[int]]) -> Topology:
    """Return a tree of two levels above the nodes: leaf sizes by spine, all below one top."""
    switches: list[Switch] = []
    spines, node = [], 0
    for number, leaves in enumerate(widths):
        names, first = [], node
        for leaf, width in enumerate(leaves):
            names.append(f"leaf{number}x{leaf}")
            members = tuple(range(node, node + width))
            switches.append(Switch(names[-1], 0, members, (), f"spine{number}"))
            node += width
        spines.append(Switch(f"spine{number}", 1, tuple(range(first, node)), tuple(names), "top"))
    switches += spines
    names = [spine.name for spine in spines]
    return Topology("t", "tree", (*switches, Switch("top", 2, tuple(range(node)), tuple(names))))


def blocks_of(widths: list[int], sizes: tuple[int, ...]) -> Topology:
    """Return blocks of consecutive nodes."""
    blocks, node = [], 0
    for number, width in enumerate(widths):
        blocks.append(Block(f"b{number}", tuple(range(node, node + width))))
        node += width
    return Topology("b", "block", (), tuple(blocks), sizes)


def layout_of(topology: Topology, weights: tuple[int, ...] = ()) -> Layout:
    """Number the nodes as they are named."""
    total = 1 + max(
        node
        for unit in (*topology.switches, *topology.blocks)
        for node in unit.node_ids  # type: ignore[attr-defined]
    )
    return numbered(topology, {node: node for node in range(total)}, weights)


def plain(topology: Topology) -> oracle.Tree:
    """Return a tree in the oracle's form."""
    return [(switch.level, frozenset(switch.node_ids)) for switch in topology.switches]


def mask(nodes: set[int] | frozenset[int] | list[int]) -> int:
    """Return a set of positions as an integer."""
    return sum(1 << node for node in nodes)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Topology, frozenset[int], int, frozenset[int]]:
    """Draw a small tree, the nodes that fit, a count, and some required ones."""
    widths = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1,
                           max_size=3))  # fmt: skip
    total = sum(map(sum, widths))
    fits = draw(st.frozensets(st.integers(0, total - 1), max_size=11))
    count = draw(st.integers(1, 6))
    required = draw(st.frozensets(st.sampled_from(sorted(fits)), max_size=2)) if fits else fits
    return tree_of(widths), fits, count, required


@settings(max_examples=drawn(300), deadline=None)
@given(trees())
def test_no_choice_uses_fewer_leaves_or_a_lower_switch(
    case: tuple[Topology, frozenset[int], int, frozenset[int]],
) -> None:
    """Of all subsets none is better."""
    topology, fits, count, required = case
    picked = layout_of(topology).pick(mask(fits), WantedNodes(count, mask(required)))
    best = oracle.best_in_tree(plain(topology), fits, count, required)
    if best is None:
        assert picked is None
        return
    assert picked is not None
    chosen = frozenset(bits(picked))
    assert required <= chosen <= fits and len(chosen) == count
    tree = plain(topology)
    assert (oracle.leaves_used(tree, chosen), oracle.lowest_level(tree, chosen)) == best


def fewest_leaves(counts: list[int], nodes: int) -> int:
    """Return how many leaves hold some nodes, the fullest taken first."""
    used = 0
    for count in sorted(counts, reverse=True):
        if nodes <= 0:
            break
        nodes -= count
        used += 1
    return used


def test_fragmented_trees_use_no_leaf_too_many() -> None:
    """1,000 random states of 512 nodes below 32 leaves."""
    topology = tree_of([[16] * 8] * 4)
    layout, tree = layout_of(topology), plain(topology)
    source = random.Random(20250101)
    for _ in range(1000):
        free = {node for node in range(512) if source.random() < source.choice((0.1, 0.4, 0.8))}
        count = source.randint(1, 64)
        picked = layout.pick(mask(free), WantedNodes(count))
        if len(free) < count:
            assert picked is None
            continue
        assert picked is not None
        counts = [len(below & free) for level, below in tree if not level]
        assert oracle.leaves_used(tree, bits(picked)) == fewest_leaves(counts, count)


def test_the_tightest_leaf_that_holds_all_is_taken() -> None:
    """Larger ones stay free for larger jobs."""
    layout = layout_of(tree_of([[4, 4], [4]]))
    assert layout.pick(mask({0, 1, 2, 4, 5, 8, 9, 10, 11}), WantedNodes(2)) == mask({4, 5})


def test_lighter_nodes_come_first() -> None:
    """A heavier node on the same leaf is no reason to take it."""
    layout = layout_of(tree_of([[2, 2]]), (1, 1, 1, 5))
    assert layout.pick(0b1111, WantedNodes(2)) == 0b0011
    assert layout.pick(0b1101, WantedNodes(2)) == 0b0101


def test_a_job_may_limit_its_leaf_switches() -> None:
    """`--switches`: none rather than too many."""
    layout = layout_of(tree_of([[2, 2]]))
    assert layout.pick(0b0101, WantedNodes(2, most_leaves=1)) is None
    assert layout.pick(0b0111, WantedNodes(2, most_leaves=1)) == 0b0011


def test_trees_without_a_common_switch_do_not_share_a_job() -> None:
    """Nor do nodes outside of all switches and those inside."""
    parts = Topology("t", "tree", (Switch("a", 0, (0, 1)), Switch("b", 0, (2, 3))))
    layout = numbered(parts, {node: node for node in range(6)})
    assert layout.pick(0b111111, WantedNodes(3)) is None
    assert layout.pick(0b111101, WantedNodes(2)) is not None
    assert layout.pick(0b110101, WantedNodes(2)) == 0b110000


@given(
    st.lists(st.sets(st.integers(0, 400), max_size=8), max_size=5),
    st.sets(st.integers(0, 400), max_size=30),
)
def test_spans_are_sets_of_nodes(units: list[set[int]], fits: set[int]) -> None:
    """Wherever they lie; who has no position is in none."""
    topology = Topology(
        "t", "tree", tuple(Switch(f"s{at}", 0, tuple(unit)) for at, unit in enumerate(units))
    )
    layout = numbered(topology, {node: node for node in range(300)})
    for unit, span in zip(units, layout.units, strict=False):
        known = {node for node in unit if node < 300}
        assert set(bits(span.part(mask(frozenset(fits))))) == known & fits
        assert span.count(mask(frozenset(fits))) == len(known & fits)


@given(
    st.lists(st.lists(st.integers(1, 70), min_size=1, max_size=4), min_size=1, max_size=3),
    st.sets(st.integers(0, 300), max_size=40),
    st.booleans(),
)
def test_a_job_of_one_node_takes_it_where_fewest_are_left(
    widths: list[list[int]], fits: set[int], most_fit: bool
) -> None:
    """The first such leaf, and its first node; nodes below no switch come last."""
    topology = tree_of(widths)
    layout = numbered(topology, {node: node for node in range(301)})
    free = set(range(301)) - fits if most_fit else fits
    leaves = [set(switch.node_ids) for switch in topology.switches if not switch.level]
    of_leaves = [leaf & free for leaf in leaves if leaf & free]
    best = min(of_leaves, key=len, default=free)
    picked = layout.pick(mask(frozenset(free)), WantedNodes(1))
    assert picked == (1 << min(best) if best else None)


@st.composite
def block_cases(draw: st.DrawFn) -> tuple[Topology, frozenset[int], int]:
    """Draw blocks, the nodes that fit, and a count."""
    base = draw(st.integers(1, 4))
    steps = draw(st.sampled_from([(1,), (1, 2), (1, 4), (1, 2, 4)]))
    widths = draw(st.lists(st.integers(base, base + 1), min_size=1, max_size=6))
    total = sum(widths)
    fits = draw(st.frozensets(st.integers(0, total - 1)))
    count = draw(st.integers(1, 14))
    return blocks_of(widths, tuple(base * step for step in steps)), fits, count


@settings(max_examples=drawn(400), deadline=None)
@given(block_cases())
def test_jobs_in_blocks_fit_exactly_when_the_rule_allows(
    case: tuple[Topology, frozenset[int], int],
) -> None:
    """Found when possible, and in as few blocks of the next size as are needed."""
    topology, fits, count = case
    blocks = [frozenset(block.node_ids) for block in topology.blocks]
    picked = layout_of(topology).pick(mask(fits), WantedNodes(count))
    assert (picked is not None) == oracle.block_possible(blocks, topology.block_sizes, fits, count)
    if picked is None:
        return
    chosen = frozenset(bits(picked))
    assert chosen <= fits and len(chosen) == count
    if count <= topology.block_sizes[0]:
        assert sum(1 for block in blocks if block & chosen) == 1


@settings(max_examples=drawn(300), deadline=None)
@given(block_cases(), st.integers(1, 4), st.integers(1, 4))
def test_a_segment_is_never_split(
    case: tuple[Topology, frozenset[int], int], size: int, segments: int
) -> None:
    """Every segment in one block; placed whenever the free nodes allow."""
    topology, fits, _ = case
    size = min(size, topology.block_sizes[0])
    blocks = [frozenset(block.node_ids) for block in topology.blocks]
    picked = layout_of(topology).pick(mask(fits), WantedNodes(size * segments, segment=size))
    assert (picked is not None) == oracle.segments_possible(blocks, fits, segments, size)
    if picked is not None:
        chosen = frozenset(bits(picked))
        assert chosen <= fits and len(chosen) == size * segments
        assert all(len(block & chosen) % size == 0 for block in blocks)


def test_blocks_stay_whole_where_a_smaller_remainder_serves() -> None:
    """The tightest block that holds a job, and whole blocks but for the rest."""
    layout = layout_of(blocks_of([4, 4, 4, 4], (4, 8)))
    assert layout.pick(mask({0, 1, 2, 3, 4, 5, 12, 13, 14, 15}), WantedNodes(2)) == mask({4, 5})
    picked = layout.pick(mask({0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}), WantedNodes(6))
    assert picked == mask({0, 1, 2, 3, 4, 5})


def test_required_nodes_of_segments_are_placed_first() -> None:
    """Each in a segment of its own block."""
    layout = layout_of(blocks_of([4, 4], (4,)))
    picked = layout.pick(0xFF, WantedNodes(4, required=mask({1, 6}), segment=2))
    assert picked is not None and picked & mask({1, 6}) == mask({1, 6})
    assert (picked & 0x0F).bit_count() == 2
    assert layout.pick(0xFF, WantedNodes(4, required=mask({1, 6}))) is None


@pytest.mark.parametrize(("tasks", "expected"), [(3, [0, 1]), (4, [0, 1]), (5, [2, 3])])
def test_tasks_choose_the_node_count(tasks: int, expected: list[int]) -> None:
    """Fewest nodes that hold the tasks, on one leaf if one leaf can."""
    layout = layout_of(tree_of([[2, 2]]))
    fits = [(0, 2), (1, 2), (2, 3), (3, 3)]
    shares = choose_shares(layout, fits, tasks, 4, WantedNodes(2))
    assert shares is not None
    assert [node_id for node_id, _ in shares] == expected


@settings(max_examples=drawn(200), deadline=None)
@given(trees())
def test_the_kernel_places_wide_jobs_as_its_twin(
    case: tuple[Topology, frozenset[int], int, frozenset[int]],
) -> None:
    """As many leaves, as low a switch."""
    topology, fits, count, _ = case
    layout, tree = layout_of(topology), plain(topology)
    assert isinstance(layout, TreeLayout)
    total = len(layout.unit_of)
    count = max(2, count)
    grid = Grid([0, 10], [0] * total, 1, 1)
    grid.set_amounts(0, [1] * total)
    grid.set_leaves(layout.unit_of)
    grid.set_switches(layout.trees())
    shape = grid.add_shape([0], [grid.add_plane(0, [1])], [[1]], 0)
    mask_number = grid.add_mask(bytes(node in fits for node in range(total)))
    kind = grid.add_kind(shape, mask_number, count, 5)
    expected = layout.pick(mask(fits), WantedNodes(count))
    if expected is None:
        assert grid.find(kind) == NEVER
        return
    assert grid.find(kind) == 0
    node_ids = grid.found()
    assert len(set(node_ids)) == count and fits.issuperset(node_ids)
    for judge in (oracle.leaves_used, oracle.lowest_level):
        assert judge(tree, node_ids) == judge(tree, bits(expected))


def test_the_kernel_joins_no_separate_trees() -> None:
    """A job waits until one of them has room."""
    grid = Grid([0, 10], [0] * 4, 1, 1)
    grid.set_amounts(0, [1] * 4)
    holdings = array("q", [holding(1, 0, 1), holding(3, 0, 1)])
    grid.hold(holdings, array("i", [0, 2]), array("q", [10]))
    grid.set_leaves([0, 0, 1, 1])
    grid.set_switches([])
    shape = grid.add_shape([0], [grid.add_plane(0, [1])], [[1]], 0)
    kind = grid.add_kind(shape, grid.add_mask(b"\1" * 4), 2, 5)
    assert grid.find(kind) == 10


def test_the_caller_of_an_open_kind_chooses() -> None:
    """What fits is told, what was chosen is held."""
    grid = Grid([0, 10], [0] * 4, 1, 1)
    grid.set_amounts(0, [1] * 4)
    shape = grid.add_shape([0], [grid.add_plane(0, [1])], [[1]], 0)
    kind = grid.add_kind(shape, grid.add_mask(b"\1\1\0\1"), 2, 5)
    grid.leave_open(kind)
    assert grid.find(kind) == 0
    assert int.from_bytes(grid.fitting(), "little") == 0b1011
    with pytest.raises(IndexError):
        grid.choose(kind, [1, 2])
    grid.choose(kind, [1, 3])
    assert grid.placed(grid.take_nodes(kind, grid.found(), 0)) == [1, 3]
    assert [grid.free_at(node, 0)[0] for node in range(4)] == [1, 0, 1, 0]
    assert grid.find(kind) == 10


def test_lighter_nodes_are_used_first_below_a_tree() -> None:
    """Two leaves of two nodes: the one of lighter nodes, though the other comes first."""
    conf = conf_of()
    names = tuple(node.name for node in conf.nodes)
    tree = parse_topology_conf(
        "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\n"
        "SwitchName=spine Switches=leaf[1-2]\n",
        names,
    )
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf, START_US, (tree,)))
    for node in cluster.living_nodes():
        apply(cluster, NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    submit(cluster, JobRequest(nodes_min=2, nodes_max=2))
    (start,) = Planner()(snapshot(cluster, START_US), policy(conf)).starts
    assert [cluster.node(alloc.node_id).spec.name for alloc in start.nodes] == ["n3", "n4"]


def test_consolidated_segments_share_an_aggregated_block() -> None:
    """Three blocks of two have room for a segment each, but only two of one pair of blocks do."""
    layout = layout_of(blocks_of([2, 2, 2, 2], (2, 4)))
    fits = mask({0, 1, 4, 5, 6, 7})
    both = layout.pick(fits, WantedNodes(4, segment=2, consolidates=True))
    assert both == mask({4, 5, 6, 7})
    assert layout.pick(mask({0, 1, 4, 5}), WantedNodes(4, segment=2, consolidates=True)) is None
    assert layout.pick(mask({0, 1, 4, 5}), WantedNodes(4, segment=2)) is not None


def test_spread_segments_are_in_different_blocks() -> None:
    """A block has room for two segments; one of them has to go elsewhere."""
    layout = layout_of(blocks_of([4, 4], (4, 8)))
    picked = layout.pick(0xFF, WantedNodes(4, segment=2, spreads=True))
    assert picked is not None
    assert (picked & 0xF).bit_count() == 2
    assert layout.pick(0xF, WantedNodes(4, segment=2, spreads=True)) is None
    required = WantedNodes(4, required=mask({0, 1, 2}), segment=2, spreads=True)
    assert layout.pick(0xFF, required) is None


def test_too_few_light_nodes_are_all_taken_before_a_leaf_is_chosen() -> None:
    """A weight counts more than one leaf switch less, as users of Slurm know it."""
    layout = layout_of(tree_of([[2, 2]]), weights=(1, 10, 10, 10))
    assert layout.pick(0b1111, WantedNodes(2)) == 0b0011
    assert layout.pick(0b1101, WantedNodes(2)) == 0b0101
    assert layout.pick(0b1101, WantedNodes(2, most_leaves=1)) == 0b1100


def test_the_block_with_the_lightest_node_is_taken() -> None:
    """Weights come before how full blocks are, and nodes of a block are taken by weight."""
    layout = layout_of(blocks_of([2, 3, 4], (4,)), weights=(1, 1, 1, 5, 5, 5, 5, 5, 5))
    assert layout.pick(0b111111111, WantedNodes(2)) == 0b000000011
    # One light node, b1's: nodes of weight 5 are nearer to it than those of b2 alone.
    assert layout.pick(0b111111110, WantedNodes(2)) == 0b000001100
    assert layout.pick(0b111111000, WantedNodes(2)) == 0b000011000
    assert layout.pick(0b111111111, WantedNodes(4)) == 0b111100000
    assert layout.pick(0b111111111, WantedNodes(4, segment=2)) == 0b000001111


def test_a_leaf_of_more_but_smaller_nodes_is_better_than_two_leaves() -> None:
    """Tasks that four nodes of a leaf hold are not spread over three larger ones of two leaves."""
    layout = layout_of(tree_of([[4, 4]]))
    fits = [(0, 4), (1, 4), (2, 2), (3, 2), (4, 4), (5, 4), (6, 2), (7, 1)]
    assert choose_shares(layout, fits, 11, 9, WantedNodes(1)) == fits[:4]
    assert choose_shares(layout, fits, 9, 9, WantedNodes(1)) == fits[:3]
    assert choose_shares(layout, fits, 13, 9, WantedNodes(1)) == [
        fits[0],
        fits[1],
        fits[4],
        fits[5],
    ]
    assert choose_shares(layout, fits, 11, 3, WantedNodes(1)) == [fits[0], fits[1], fits[4]]
    assert choose_shares(layout, fits, 11, 9, WantedNodes(1, required=1 << 6)) == fits[4:]
