"""Which network the nodes of each partition are in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.topology import Topology, topology_of
from pyslurm_ng.sched.cons_tres.block_layout import BlockLayout
from pyslurm_ng.sched.cons_tres.ring_layout import RingLayout
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.cons_tres.torus_layout import TorusLayout
from pyslurm_ng.sched.cons_tres.tree_layout import TreeLayout

_LAYOUTS: dict[str, type[Layout]] = {
    "block": BlockLayout,
    "ring": RingLayout,
    "torus3d": TorusLayout,
    "tree": TreeLayout,
}


def layouts_of(
    topologies: Sequence[Topology],
    partitions: Iterable[Partition],
    position: Mapping[int, int],
    weights: Sequence[int] = (),
) -> dict[str, Layout]:
    """Return the layout of every partition that has a network model, by partition name."""
    made: dict[str, Layout] = {}
    layouts: dict[str, Layout] = {}
    for partition in partitions:
        topology = topology_of(topologies, partition)
        if topology is None:
            continue
        layout = made.get(topology.name)
        if layout is None:
            layout = made[topology.name] = layout_of(topology, position, weights)
        layouts[partition.name] = layout
    return layouts


def layout_of(
    topology: Topology, position: Mapping[int, int], weights: Sequence[int] = ()
) -> Layout:
    """Return one topology over numbered nodes; see `Layout`."""
    return _LAYOUTS[topology.kind](topology, position, weights)
