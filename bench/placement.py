#!/usr/bin/env python3
"""Placement below a tree of switches and in blocks: leaves and blocks used, beside the peer's.

Random states of a cluster are made as lists of excluded nodes, which is how a real Slurm can be
asked at once: `sbatch --test-only --exclude=LIST` names the nodes it would use. Ours is asked by a
pass of the planner over the same nodes, tree and request. The oracle tries all sets of leaves.

    bench/placement.py --tree FILE           writes a topology.conf for peer.sh
    NODES=64 CPUS=4 TOPOLOGY=FILE bench/peer.sh up DIR
    bench/placement.py --peer-env DIR/env    without the peer: the oracle only
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from figures import Cluster as Commands, parser, show
from pyslurm_ng.base.hostlist import expand, fold
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot

CPUS = 4
LEAVES = ((8, 8, 8), (6, 6, 6), (4, 10, 8))  # nodes of each leaf switch, by spine
BLOCK_NODES, BLOCKS = 4, 8
BEGIN_US = 1_000_000_000_000_000
TREE_CONF = """
ClusterName=bench
SlurmctldHost=bench
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
TopologyPlugin=topology/{kind}
NodeName=p[1-{nodes}] CPUs={cpus} CoresPerSocket={cpus} RealMemory=8192
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE
"""


class State(NamedTuple):
    """One question: the nodes that are free, their weights, and a job."""

    free: frozenset[int]
    heavy: frozenset[int]
    nodes: int
    tasks: int
    required: int | None
    segment: int = 0

    @property
    def kind(self) -> str:
        """Name what is special about it."""
        words = [word for word, is_so in (("weights", self.heavy), ("-w", self.required)) if is_so]
        words.append("tasks" if self.tasks else "nodes")
        return " ".join(words)


def tree_text() -> str:
    """Return the tree as topology.conf."""
    lines, first = [], 1
    for spine, widths in enumerate(LEAVES):
        for leaf, width in enumerate(widths):
            lines.append(f"SwitchName=l{spine}x{leaf} Nodes=p[{first}-{first + width - 1}]")
            first += width
    for spine, widths in enumerate(LEAVES):
        leaves = ",".join(f"l{spine}x{leaf}" for leaf in range(len(widths)))
        lines.append(f"SwitchName=s{spine} Switches={leaves}")
    lines.append("SwitchName=top Switches=" + ",".join(f"s{n}" for n in range(len(LEAVES))))
    return "\n".join(lines) + "\n"


def block_text() -> str:
    """Return blocks as topology.conf."""
    lines = [
        f"BlockName=b{number} Nodes=p[{number * BLOCK_NODES + 1}-{(number + 1) * BLOCK_NODES}]"
        for number in range(BLOCKS)
    ]
    sizes = ",".join(str(BLOCK_NODES << level) for level in range(3))
    return "\n".join([*lines, f"BlockSizes={sizes}"]) + "\n"


def leaf_of_nodes() -> list[int]:
    """Return the number of the leaf switch of each node; node 0 is no node."""
    widths = list(itertools.chain(*LEAVES))
    return [-1, *(leaf for leaf, width in enumerate(widths) for _ in range(width))]


LEAF_OF = leaf_of_nodes()
NODES = len(LEAF_OF) - 1


def tree_states(random_source: random.Random, count: int) -> Iterator[State]:
    """Draw states: some leaves nearly full, others nearly free, a few nodes heavier."""
    for number in range(count):
        share = [random_source.choice((0.1, 0.4, 0.7, 1.0)) for _ in range(max(LEAF_OF) + 1)]
        free = [
            node
            for node in range(1, NODES + 1)
            if random_source.random() < share[LEAF_OF[node]] or node == 1
        ]
        heavy: list[int] = []
        if number % 4 == 1:
            heavy = random_source.sample(range(1, NODES + 1), random_source.randint(1, NODES // 2))
        nodes = random_source.randint(1, max(1, min(len(free), random_source.choice((4, 12, 40)))))
        tasks = 0
        if number % 4 == 2:
            nodes, tasks = 0, random_source.randint(1, CPUS * len(free))
        required = random_source.choice(free) if number % 4 == 3 else None
        yield State(frozenset(free), frozenset(heavy), nodes, tasks, required)


def request(state: State, nodes: int) -> JobRequest:
    """Return the job of a state as one of our requests."""
    busy = [f"p{node}" for node in range(1, nodes + 1) if node not in state.free]
    return JobRequest(
        nodes_min=state.nodes,
        nodes_max=state.nodes,
        ntasks=state.tasks or state.nodes,
        flags=0 if state.tasks else REQ_EXCLUSIVE,
        exclude=fold(busy),
        node_list=f"p{state.required}" if state.required else "",
        segment=state.segment,
        partition="debug",
    )


def cluster_of(kind: str, topology: str, nodes: int, heavy: frozenset[int]) -> Cluster:
    """Return our cluster with all nodes idle."""
    text = TREE_CONF.format(kind=kind, nodes=nodes, cpus=CPUS)
    if heavy:
        light = fold([f"p{node}" for node in range(1, nodes + 1) if node not in heavy])
        weighty = fold([f"p{node}" for node in sorted(heavy)])
        line = f"CPUs={CPUS} CoresPerSocket={CPUS} RealMemory=8192"
        text = re.sub(
            "NodeName=.*", f"NodeName={light} {line}\nNodeName={weighty} {line} Weight=9", text
        )
    conf, cluster = parse_slurm_conf(text), Cluster()
    apply_all(cluster, configure(cluster, conf, BEGIN_US, [parse_topology_conf(topology)]))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(BEGIN_US, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def ours(cluster: Cluster, state: State, nodes: int) -> list[int]:
    """Return the nodes that a pass gives the job; none when it has to wait."""
    apply(
        cluster,
        ev.JobSubmitted(
            time_us=BEGIN_US,
            job_id=1,
            request=request(state, nodes),
            uid=1001,
            gid=1001,
            user_name="alice",
            group_name="alice",
            account="a",
            qos="normal",
            assoc_id=1,
            partition="debug",
            time_limit_min=60,
            script_hash="0" * 32,
            eligible_us=BEGIN_US,
        ),
    )
    plan = Planner()(snapshot(cluster, BEGIN_US), Policy())
    ids = [alloc.node_id for start in plan.starts for alloc in start.nodes]
    return sorted(int(name[1:]) for name in cluster.node_names(ids))


def theirs(commands: Commands, state: State) -> list[int]:
    """Return the nodes that the peer names; none when a job would wait.

    A test of 22.05 knows neither weights nor required nodes beside others: there a real
    allocation is made, and ended again.
    """
    busy = [f"p{node}" for node in range(1, NODES + 1) if node not in state.free]
    words = ["--exclude=" + fold(busy)] if busy else []
    words += [f"-n{state.tasks}"] if state.tasks else [f"-N{state.nodes}", "--exclusive"]
    words += [f"-wp{state.required}"] if state.required else []
    if not state.heavy and not state.required:
        text = answer(commands, "sbatch", "--test-only", "--wrap=true", *words)
        matched = re.search(r"on nodes (\S+) in partition", text)
    else:
        text = answer(commands, "salloc", "--no-shell", "--immediate=5", *words)
        matched = re.search(r"job allocation (\d+)", text)
        if matched:
            text = answer(commands, "squeue", "-h", "-j", matched[1], "-o", "%N")
            answer(commands, "scancel", matched[1])
            matched = re.search(r"(\S+)", text)
        while answer(commands, "sinfo", "-h", "-t", "idle", "-o", "%D").strip() != str(NODES):
            time.sleep(0.02)
    return sorted(int(name[1:]) for name in expand(matched[1])) if matched else []


def answer(commands: Commands, *words: str) -> str:
    """Return all that a command prints."""
    done = subprocess.run(
        commands.argv(*words), env=commands.environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def weigh(commands: Commands, heavy: frozenset[int]) -> None:
    """Give the peer's nodes the weights of a state."""
    commands.run("scontrol", "update", f"NodeName=p[1-{NODES}]", "Weight=1")
    if heavy:
        names = fold([f"p{node}" for node in sorted(heavy)])
        commands.run("scontrol", "update", f"NodeName={names}", "Weight=9")


def fewest_leaves(state: State) -> int:
    """Return the least number of leaves that hold the job, by trying all sets of leaves."""
    nodes = state.nodes or -(-state.tasks // CPUS)
    counts = [0] * (max(LEAF_OF) + 1)
    for node in state.free:
        counts[LEAF_OF[node]] += 1
    own_leaf = LEAF_OF[state.required] if state.required else None
    for size in range(1, len(counts) + 1):
        for leaves in itertools.combinations(range(len(counts)), size):
            if sum(counts[leaf] for leaf in leaves) >= nodes and (
                own_leaf is None or own_leaf in leaves
            ):
                return size
    return 0


def trees(options: argparse.Namespace, commands: Commands | None) -> bool:
    """Compare leaves used; return whether ours are never more."""
    sums: dict[str, list[int]] = {}
    worse = 0
    for state in tree_states(random.Random(options.seed), options.states):
        mine = ours(cluster_of("tree", tree_text(), NODES, state.heavy), state, NODES)
        other = None
        if commands is not None:
            if state.heavy:
                weigh(commands, state.heavy)
            other = theirs(commands, state)
            if state.heavy:
                weigh(commands, frozenset())
        best = fewest_leaves(state)
        used = len({LEAF_OF[node] for node in mine})
        peer = len({LEAF_OF[node] for node in other or []})
        row = sums.setdefault(state.kind, [0] * 8)
        row[0] += 1
        row[1] += used
        row[2] += peer
        row[3] += best
        row[4] += not mine
        row[5] += other is not None and not other
        row[6] += bool(peer) and used > peer
        row[7] += bool(peer) and used < peer
        is_worse = (bool(peer) and used > peer) or (bool(other) and not mine)
        if not state.heavy:
            is_worse = is_worse or used > best or not used
        worse += is_worse
        if is_worse and options.verbose:
            print(state, "ours", mine, "peer", other, "leaves", used, peer, best)
    names = ("states", "leaves", "peer", "oracle", "wait", "peer_waits", "more", "fewer")
    rows = [{"kind": kind, **dict(zip(names, row, strict=True))} for kind, row in sums.items()]
    show(options, f"leaf switches used in {options.states} random states of {NODES} nodes", rows)
    return not worse


def block_states(random_source: random.Random, count: int) -> Iterator[State]:
    """Draw states of blocks; every other job is in segments."""
    for number in range(count):
        share = [random_source.choice((0.2, 0.5, 0.8, 1.0)) for _ in range(BLOCKS)]
        free = frozenset(
            node
            for node in range(1, BLOCKS * BLOCK_NODES + 1)
            if random_source.random() < share[(node - 1) // BLOCK_NODES]
        )
        segment = (0, 2, 0, 4)[number % 4]
        nodes = random_source.randint(1, 16)
        if segment:
            nodes = segment * random_source.randint(1, 8 // segment * 2)
        yield State(free, frozenset(), nodes, 0, None, segment)


def ways(free: list[int], state: State) -> Iterator[tuple[int, ...]]:
    """Return every way to take the job's nodes from the blocks without a forbidden split."""
    if state.segment:
        rooms = [
            range(0, count // state.segment * state.segment + 1, state.segment) for count in free
        ]
        yield from (way for way in itertools.product(*rooms) if sum(way) == state.nodes)
        return
    # The job is in one block of the smallest size that holds it, in no more of the next smaller
    # ones than it needs.
    width = 1
    while width * BLOCK_NODES < state.nodes:
        width *= 2
    half = max(1, width // 2)
    for first in range(0, BLOCKS, width):
        rooms = [range(count + 1) for count in free[first : first + width]]
        for way in itertools.product(*rooms):
            if sum(way) != state.nodes:
                continue
            halves = sum(any(way[at : at + half]) for at in range(0, width, half))
            if halves <= -(-state.nodes // (half * BLOCK_NODES)):
                yield (0,) * first + way + (0,) * (BLOCKS - first - width)


def whole_left(free: list[int], way: Sequence[int]) -> int:
    """Return how many blocks are left without any job."""
    return sum(count == BLOCK_NODES and not taken for count, taken in zip(free, way, strict=True))


def blocks(options: argparse.Namespace) -> bool:
    """Compare with all ways there are; return whether ours are within 5 % of the best."""
    sums: dict[str, list[int]] = {}
    worse = 0
    total = BLOCKS * BLOCK_NODES
    for state in block_states(random.Random(options.seed), options.states):
        mine = ours(cluster_of("block", block_text(), total, frozenset()), state, total)
        free, taken = [0] * BLOCKS, [0] * BLOCKS
        for node in state.free:
            free[(node - 1) // BLOCK_NODES] += 1
        for node in mine:
            taken[(node - 1) // BLOCK_NODES] += 1
        best = list(ways(free, state))
        row = sums.setdefault(f"segment={state.segment}" if state.segment else "job", [0] * 7)
        row[0] += 1
        row[1] += not mine
        row[2] += not best
        is_worse = bool(best) != bool(mine)
        if mine and best:
            row[3] += sum(map(bool, taken))
            row[4] += min(sum(map(bool, way)) for way in best)
            row[5] += whole_left(free, taken)
            row[6] += max(whole_left(free, way) for way in best)
            is_worse = is_worse or tuple(taken) not in best
        worse += is_worse
        if is_worse and options.verbose:
            print(free, state.nodes, state.segment, "ours", taken, len(best))
    names = ("states", "wait", "must_wait", "blocks", "fewest", "whole_left", "most_whole_left")
    rows = [{"kind": kind, **dict(zip(names, row, strict=True))} for kind, row in sums.items()]
    show(options, f"blocks used in {options.states} random states of {total} nodes", rows)
    near = all(row[3] <= row[4] * 1.05 and row[5] >= row[6] * 0.95 for row in sums.values())
    return near and not worse


def commands_of(options: argparse.Namespace) -> Commands | None:
    """Return the peer's commands when it was named."""
    if not options.peer_env:
        return None
    environment = dict(os.environ)
    for line in Path(options.peer_env).read_text().splitlines():
        key, _, value = line.partition("=")
        environment[key] = value
    environment["PATH"] += os.pathsep + os.environ["PATH"]
    return Commands("peer", environment)


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--tree", help="write the tree to this file, and nothing else")
    parse.add_argument("--states", type=int, default=1000)
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument(
        "--verbose", action="store_true", help="print each state where ours is worse"
    )
    options = parse.parse_args()
    if options.tree:
        Path(options.tree).write_text(tree_text())
        return
    is_good = trees(options, commands_of(options))
    sys.exit(0 if blocks(options) and is_good else 1)


if __name__ == "__main__":
    main()
