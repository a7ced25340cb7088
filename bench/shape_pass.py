#!/usr/bin/env python3
"""Passes over a queue of whole-node jobs on rings and in shapes of tori: seconds, jobs placed.

The nodes of one cluster are 512 rings of 16, or two tori of 16 x 16 x 16. Jobs of 1 to 512 nodes
(on rings to 16, some in segments) wait; a first pass fills the cluster, the second one promises the
others room. Nothing is measured but the product's own snapshot and plan.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_yaml import topologies_of
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import submit

NODES = 8192
BEGIN_US = 1_000_000_000_000_000
CONF = f"""
ClusterName=bench
SlurmctldHost=bench
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
NodeName=p[1-{NODES}] CPUs=64 RealMemory=8192
PartitionName=main Nodes=ALL Default=YES MaxTime=2-0
"""
SHAPES = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (4, 4, 4), (8, 8, 8))


def networks() -> Iterator[dict[str, Any]]:
    """Yield the rings, and the tori."""
    rings = [
        {"ring": f"r{first}", "nodes": f"p[{first + 1}-{first + 16}]"}
        for first in range(0, NODES, 16)
    ]
    yield {"topology": "rings", "ring": {"rings": rings}}
    half = NODES // 2
    toruses = [
        {
            "name": f"t{number}",
            "dims": {"x": 16, "y": 16, "z": 16},
            "nodes": f"p[{number * half + 1}-{number * half + half}]",
            "placements": [{"dims": dict(zip("xyz", dims, strict=True))} for dims in SHAPES],
        }
        for number in range(2)
    ]
    yield {"topology": "tori", "torus3d": {"toruses": toruses}}


def requests(kind: str, jobs: int, seed: int) -> Iterator[tuple[JobRequest, int]]:
    """Yield requests with their time limits in minutes."""
    chance = random.Random(seed)
    for _ in range(jobs):
        nodes, segment = chance.choice((1, 4, 8, 8, 64, 512)), 0
        if kind == "rings":
            nodes = chance.choice((1, 2, 4, 8, 12, 16, 64))
            segment = 8 if nodes == 64 else 0
        request = JobRequest(
            nodes_min=nodes,
            nodes_max=nodes,
            ntasks=nodes,
            flags=REQ_EXCLUSIVE,
            partition="main",
            segment=segment,
        )
        yield request, chance.choice((30, 60, 240, 720, 1440))


def measure(network: dict[str, Any], jobs: int, passes: int, seed: int) -> str:
    """Return one line about passes on one network."""
    conf, cluster = parse_slurm_conf(CONF, "slurm.conf"), Cluster()
    names = tuple(node.name for node in conf.nodes)
    read = topologies_of([network], "topology.yaml", names)
    apply_all(cluster, configure(cluster, conf, BEGIN_US, list(read)))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(BEGIN_US, node.node_id, NodeFacts(), NodeState.IDLE))
    for request, limit_min in requests(network["topology"], jobs, seed):
        submit(cluster, request, time_limit_min=limit_min)
    plan, times, started, planned = Planner(), [], 0, 0
    for _ in range(passes + 1):
        begin = time.process_time()
        outcome = plan(snapshot(cluster, BEGIN_US), policy(conf))
        times.append(time.process_time() - begin)
        started, planned = started + len(outcome.starts), len(outcome.expected_start_us)
        for start in outcome.starts:
            apply_all(cluster, dispatch(cluster, start, BEGIN_US))
    used = sum(cluster.node_index.columns.in_use)
    return (
        f"{network['topology']}: {jobs} jobs, {started} started on {used} of {NODES} nodes, "
        f"{planned} promised; CPU of the first pass {times[0]:.2f} s, of the others "
        f"{statistics.median(times[1:]):.2f} s"
    )


def main() -> None:
    """Print a line for the rings and one for the tori."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for network in networks():
        print(measure(network, options.jobs, options.passes, options.seed), flush=True)


if __name__ == "__main__":
    main()
