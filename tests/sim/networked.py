"""A crowd on a network that changes under it: leaf switches, blocks, and partitions of either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE_TOPO, REQ_EXCLUSIVE_USER, REQ_SPREAD
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_yaml import topologies_of
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest, is_completing
from pyslurm_ng.model.topology import topology_of
from pyslurm_ng.model.torus import Xyz, anchor_cells, cells_of
from pyslurm_ng.sched.request.sharing import TOPO, Units, sharing_of
from pyslurm_ng.sim.checks import Violation
from pyslurm_ng.sim.controller import SimController
from tests.oracle import ring as oracle
from tests.sim.crowd import Crowd

_NODES = ("n1", "n2", "n3", "n4")


def _tree(**leaves: str) -> dict[str, Any]:
    switches = [{"switch": name, "nodes": nodes} for name, nodes in leaves.items()]
    return {"tree": {"switches": [*switches, {"switch": "top", "children": ",".join(leaves)}]}}


def _blocks(size: int, **blocks: str) -> dict[str, Any]:
    listed = [{"block": name, "nodes": nodes} for name, nodes in blocks.items()]
    return {"block": {"block_sizes": [size, 2 * size], "blocks": listed}}


def _torus(*shapes: Xyz) -> dict[str, Any]:
    """Return a torus of the nodes; all shapes but the first are for jobs."""
    dims, *others = (dict(zip("xyz", shape, strict=True)) for shape in shapes)
    body = {"name": "t1", "dims": dims, "nodes": "n[1-4]"}
    return {"torus3d": {"toruses": [{**body, "placements": [{"dims": own} for own in others]}]}}


_NETWORKS: tuple[dict[str, Any], ...] = (
    _tree(s1="n[1-2]", s2="n[3-4]"),
    _tree(s1="n1", s2="n[2-3]", s3="n4"),
    _tree(s1="n[1,4]", s2="n2"),
    _blocks(2, b1="n[1-2]", b2="n[3-4]"),
    _blocks(2, b1="n[1,3]", b2="n[2,4]"),
    _blocks(1, b1="n1", b2="n2", b3="n3", b4="n4"),
    {"flat": True},
    {"ring": {"rings": [{"ring": "r1", "nodes": "n[1,3,2,4]"}]}},
    {"ring": {"rings": [{"ring": "r1", "nodes": "n[1-3]"}, {"ring": "r2", "nodes": "n4"}]}},
    _torus((2, 2, 1), (1, 1, 1), (2, 1, 1), (2, 2, 1)),
    _torus((2, 1, 2), (1, 1, 1), (1, 1, 2)),
)


class Networked(Crowd):
    """A seed's life with several topologies, which are other ones after each reading."""

    def __init__(self, seed: int, plan: object, jobs: int = 30, **more: object) -> None:
        super().__init__(seed, plan, jobs, **more)
        self.networks = 0
        assert self.controller is not None
        self._reload(self.controller)

    def request(self, number: int, mark: str) -> JobRequest:
        """Return a request that says where its nodes lie, or who may be near them."""
        chance = self.world.random
        request = super().request(number, mark)
        wants: dict[str, object] = {
            "segment": chance.choice((0, 0, 1, 2)),
            "switches": chance.choice((0, 0, 1, 2)),
            "switches_wait_s": chance.choice((0, 5, 300)),
        }
        if not request.flags:
            wants["flags"] = chance.choice(
                (0, 0, REQ_EXCLUSIVE_TOPO, REQ_EXCLUSIVE_USER, REQ_SPREAD)
            )
        return msgspec.structs.replace(request, **wants)

    def _reload(self, controller: SimController) -> None:
        """Read another network."""
        chance = self.world.random
        shapes = chance.sample(_NETWORKS, 3)
        self.topologies = topologies_of(
            [
                {"topology": f"net{number}", "cluster_default": not number, **shape}
                for number, shape in enumerate(shapes)
            ],
            "topology.yaml",
            _NODES,
        )
        text = self._text.replace("PartitionName=other", "PartitionName=other Topology=net1")
        self.conf = parse_slurm_conf(text.replace("=rows", "=rows Topology=net2"), "slurm.conf")
        if self._calm:
            self._whole_hash = self.conf.text_hash
        self.networks += 1
        self._read(controller)

    def _start_controller(self, payloads: list[bytes]) -> None:
        super()._start_controller(payloads)
        assert self.controller is not None
        cluster = self.controller.cluster
        # A pass that takes time may have begun on another network.
        if not self._pass_us:
            self.controller.writer.observe(lambda events: check_places(cluster, events))


def check_places(cluster: Cluster, events: Sequence[ev.AnyEvent]) -> None:
    """Raise Violation if a job starts where its segments, or another job, do not let it."""
    for event in events:
        if isinstance(event, ev.JobAllocated):
            job = cluster.jobs[event.job_id]
            _check_segments(cluster, job)
            _check_shapes(cluster, job)
            _check_neighbours(cluster, job)


def _check_segments(cluster: Cluster, job: Job) -> None:
    """Segments lie each in one block, so each block has whole ones."""
    partition = cluster.partitions[job.partition]
    topology = topology_of(cluster.topologies, partition)
    segment = job.request.segment
    if topology is None or topology.kind != "block" or segment > len(job.nodes):
        return
    if not 0 < segment <= topology.block_sizes[0]:
        return  # a larger one lies in several base blocks side by side
    block_of = {node: block.name for block in topology.blocks for node in block.node_ids}
    counts = Counter(block_of[alloc.node_id] for alloc in job.nodes)
    if any(count % segment for count in counts.values()):
        raise Violation(f"segments of {segment} are split: job {job.job_id} has {counts}")


def _check_shapes(cluster: Cluster, job: Job) -> None:
    """A job, or each of its segments, has an arc of a ring or a shape of a torus."""
    topology = topology_of(cluster.topologies, cluster.partitions[job.partition])
    if topology is None or topology.kind not in ("ring", "torus3d"):
        return
    nodes, segment = frozenset(alloc.node_id for alloc in job.nodes), job.request.segment
    size = segment if 0 < segment < len(nodes) else len(nodes)
    parts = [arc for ring in topology.blocks for arc in oracle.arcs(ring.node_ids, size)]
    for torus in topology.toruses:
        cells = cells_of(torus)
        for placement in torus.placements:
            for at in anchor_cells(torus.dims, placement):
                x, y, z = torus.dims
                corner = (at % x, at // x % y, at // x // y % z)
                box = oracle.box(torus.dims, corner, placement.dims)
                parts.append(frozenset(cells[cell] for cell in box))
    is_loose = topology.kind == "ring" and len(nodes) == 1
    parts = [part for part in parts if len(part) == size]
    if not is_loose and not oracle.parts_possible(parts, nodes, len(nodes) // size, nodes):
        raise Violation(f"job {job.job_id} has {sorted(nodes)} of {topology}")


def _check_neighbours(cluster: Cluster, started: Job) -> None:
    """Nobody is in the unit of a job of --exclusive=topo."""
    units = Units(cluster.topologies, cluster.partitions)
    running = [
        job
        for job in (cluster.jobs[job_id] for job_id in cluster.job_index.active)
        if job is not started
        and job.job_id not in cluster.job_index.suspended
        and not is_completing(job)
    ]
    for alone, others in [(started, running), *((job, [started]) for job in running)]:
        partition = cluster.partitions.get(alone.partition)
        if sharing_of(alone.request, partition) != TOPO:
            continue
        own = units.beside(alone.partition, {alloc.node_id for alloc in alone.nodes})
        for other in others:
            if own & {alloc.node_id for alloc in other.nodes}:
                raise Violation(f"job {other.job_id} is in the unit of job {alone.job_id}")
