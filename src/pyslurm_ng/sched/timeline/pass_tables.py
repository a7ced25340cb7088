"""What every search for room in a pass looks at."""

from __future__ import annotations

from typing import NamedTuple

from pyslurm_ng.sched.timeline.nearness import Nearness
from pyslurm_ng.sched.timeline.neighbour_jobs import NeighbourJobs
from pyslurm_ng.sched.timeline.node_timeline import Timeline
from pyslurm_ng.sched.timeline.nodes_now import NodesNow
from pyslurm_ng.sched.timeline.shapes import Hardware


class PassTables(NamedTuple):
    """One plan's tables in one pass: they change as room is given away, none is replaced."""

    hardware: Hardware
    nearness: Nearness
    neighbours: NeighbourJobs
    timeline: Timeline
    free: NodesNow
    now_us: int
