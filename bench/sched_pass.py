"""One full conservative pass over a long queue: seconds, jobs placed, memory.

A cluster of shared nodes (three quarters CPU nodes of 64 cores, a quarter with eight GPUs; two
features; a tree of leaf switches with 32 nodes each; advance reservations of racks, some of them
daily) is filled by a first pass and then has `--jobs` jobs of more than a thousand different
requests waiting, a fifth of them for several nodes. Nothing is measured but the product's own
snapshot and plan; what a pass starts runs in the next. `cold_s` is the first pass over that queue,
`seconds` the median of the others, `cpu_seconds` what they used on a machine with other work.

`memory_mib` is what passes add to the process at their largest: records of waiting and running
jobs, limits, the grid, and two plans, for the last one is known until the next is made. What is
there before, the cluster's state and Python itself, is not the pass: `memory_total_mib` has all.

`--digest` says in a few digits what each pass has planned: who changes how plans are made, but not
which, compares them. Its own memory is in the figures then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.daemon.process_settings import settle_memory
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.history import History
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot

BEGIN_US = 1_000_000_000_000_000
LIMITS_MIN = (5, 10, 20, 30, 60, 90, 120, 240, 360, 480, 720, 1440, 2880)
LIMIT_S = 1.0  # the bar for 10,000 nodes and 100,000 jobs
PEER_JOBS_PER_S = 4626 / 109  # Slurm 26.11 on 10,000 nodes, as once measured elsewhere


LEAF_NODES = 32
SPINE_LEAVES = 16
USERS, ACCOUNTS = 300, 30
FIRST_USER = 100  # of the numbers of their associations
MINUTE_US = 60_000_000
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


def conf_text(nodes: int, parameters: str = "") -> str:
    """Return the cluster's slurm.conf; `parameters` are SchedulerParameters."""
    gpu_nodes = max(1, nodes // 4)
    cpu_nodes = max(2, nodes - gpu_nodes)
    half = cpu_nodes // 2
    return f"""
ClusterName=bench
SlurmctldHost=bench
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
SelectTypeParameters=CR_Core_Memory
SchedulerParameters="{parameters}"
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=1000
PriorityWeightPartition=1000
NodeName=c[1-{half}] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=256000 Feature=ib,old
NodeName=c[{half + 1}-{cpu_nodes}] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=512000 \
Feature=ib,new
NodeName=g[1-{gpu_nodes}] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=1024000 \
Gres=gpu:a100:8 Feature=ib,new
PartitionName=cpu Nodes=c[1-{cpu_nodes}] Default=YES MaxTime=3-0 DefMemPerCPU=3000
PartitionName=gpu Nodes=g[1-{gpu_nodes}] MaxTime=3-0 DefMemPerCPU=3000
PartitionName=short Nodes=c[1-{cpu_nodes}],g[1-{gpu_nodes}] MaxTime=4:00:00 DefMemPerCPU=3000 \
PriorityJobFactor=10
"""


def tree_text(conf: SlurmConf) -> str:
    """Return a topology.conf: leaves of neighbouring nodes, spines over them, one core over all."""
    names = [node.name for node in conf.nodes]
    leaves = [names[first : first + LEAF_NODES] for first in range(0, len(names), LEAF_NODES)]
    lines = [f"SwitchName=l{number} Nodes={fold(leaf)}" for number, leaf in enumerate(leaves)]
    spines = range(0, len(leaves), SPINE_LEAVES)
    for number, first in enumerate(spines):
        last = min(first + SPINE_LEAVES, len(leaves)) - 1
        lines.append(f"SwitchName=s{number} Switches=l[{first}-{last}]")
    lines.append(f"SwitchName=core Switches=s[0-{len(spines) - 1}]")
    return "\n".join(lines) + "\n"


def reserve(cluster: Cluster, count: int, chance: random.Random, begin_us: int) -> None:
    """Reserve one leaf switch's nodes each, in the coming week; every third each day."""
    node_ids = [node.node_id for node in cluster.living_nodes()]
    for number in range(count):
        first = chance.randrange(0, max(1, len(node_ids) - LEAF_NODES))
        start_us = begin_us + chance.randint(2, 150) * HOUR_US
        end_us = start_us + chance.randint(1, 12) * HOUR_US
        is_daily = number % 3 == 0
        later = tuple((start_us + day * DAY_US, end_us + day * DAY_US) for day in range(1, 8))
        reservation = Reservation(
            name=f"r{number}",
            start_us=start_us,
            end_us=end_us,
            node_ids=tuple(node_ids[first : first + LEAF_NODES]),
            flags=("DAILY",) if is_daily else (),
            users=("root",),
            later=later if is_daily else (),
            first_start_us=start_us,
            first_end_us=end_us,
        )
        apply(cluster, ev.ReservationCreated(begin_us, reservation))


def random_request(chance: random.Random) -> tuple[JobRequest, int]:
    """Return a request and its time limit in minutes."""
    limit_min = chance.choice(LIMITS_MIN)
    nodes = 1 if chance.random() < 0.8 else chance.choice((2, 2, 3, 4, 4, 6, 8, 12, 16, 32))
    kind = chance.random()
    gpus, partition = "", "cpu"
    if kind < 0.25:
        gpus, partition = str(chance.choice((1, 1, 1, 2, 4, 8))), "gpu"
    elif kind < 0.35 and limit_min <= 240:
        partition = "short"
    cpus = chance.choice((1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64))
    if gpus:
        cpus = min(cpus, 8 * int(gpus))
    return (
        JobRequest(
            nodes_min=nodes,
            nodes_max=nodes,
            ntasks=nodes,
            cpus_per_task=cpus,
            mem_per_node_mib=chance.choice((0, 4000, 16000, 64000, 128000)) if nodes == 1 else 0,
            gpus_per_node=gpus,
            constraint=chance.choice(("", "", "", "ib", "new")),
            partition=partition,
        ),
        limit_min,
    )


def submit_all(cluster: Cluster, count: int, chance: random.Random, now_us: int) -> None:
    """Enter waiting jobs of about 2,000 kinds of request."""
    kinds = [random_request(chance) for _ in range(2000)]
    for number in range(count):
        request, limit_min = chance.choice(kinds)
        user = chance.randint(1, USERS) - 1
        apply(
            cluster,
            ev.JobSubmitted(
                time_us=now_us - 1_000_000 * (count - number),
                job_id=cluster.next_job_id,
                request=request,
                uid=1000 + user,
                gid=1000,
                user_name=f"user{user}",
                group_name="users",
                account=f"acct{user % ACCOUNTS}",
                qos="normal",
                assoc_id=FIRST_USER + user,
                partition=request.partition,
                time_limit_min=limit_min,
                script_hash="0" * 32,
                eligible_us=now_us - 1_000_000 * (count - number),
            ),
        )


def fill(cluster: Cluster, conf: SlurmConf, chance: random.Random, begin_us: int) -> int:
    """Start jobs until the cluster is full; return how many run."""
    submit_all(cluster, len(conf.nodes) * 4, chance, begin_us)
    plan = Planner()(snapshot(cluster, begin_us), policy(conf))
    for start in plan.starts:
        apply_all(cluster, dispatch(cluster, start, begin_us))
    for job_id in list(cluster.job_index.pending):
        apply(cluster, ev.JobEnded(begin_us, job_id, 4))
    return len(plan.starts)


def memory_mib(name: str) -> float:
    """Return a size of this process: VmRSS now, VmHWM at its largest."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


def forget_largest() -> None:
    """Let VmHWM begin anew; see proc(5), clear_refs."""
    Path("/proc/self/clear_refs").write_text("5")


def limit(cluster: Cluster) -> None:
    """Limit users, their accounts and their QOS; some users have more waiting than they may run."""
    chance = random.Random(2)
    cluster.assocs[1] = Association(1, "root", limits=Limits(grp_tres={"node": 1_000_000}))
    for number in range(ACCOUNTS):
        limits = Limits(grp_tres={"cpu": chance.choice((60_000, 600_000))}, grp_jobs=5_000)
        cluster.assocs[2 + number] = Association(
            2 + number, f"acct{number}", parent_id=1, limits=limits
        )
    for user in range(USERS):
        limits = Limits(
            grp_tres={"cpu": chance.choice((4_000, 40_000)), "gres/gpu": 2_000},
            max_jobs=chance.choice((60, 1_000, 1_000, 1_000)),
        )
        account = user % ACCOUNTS
        cluster.assocs[FIRST_USER + user] = Association(
            FIRST_USER + user, f"acct{account}", f"user{user}", parent_id=2 + account, limits=limits
        )
    limits = Limits(max_tres_per_user={"cpu": 100_000}, max_wall_min=10_000)
    cluster.qos["normal"] = Qos(1, "normal", limits=limits)


def prepare(
    conf: SlurmConf,
    jobs: int,
    seed: int,
    reservations: int,
    *,
    has_tree: bool,
    begin_us: int = BEGIN_US,
) -> tuple[Cluster, int]:
    """Return a full cluster with a long queue, and how many jobs run."""
    chance = random.Random(seed)
    cluster = Cluster()
    tree = (parse_topology_conf(tree_text(conf)),) if has_tree else ()
    apply_all(cluster, configure(cluster, conf, begin_us, tree))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(begin_us, node.node_id, NodeFacts(), NodeState.IDLE))
    running = fill(cluster, conf, chance, begin_us)
    submit_all(cluster, jobs, chance, begin_us + MINUTE_US)
    reserve(cluster, reservations, random.Random(seed), begin_us)
    return cluster, running


def digest(plan: Plan) -> str:
    """Return what tells one plan from another: starts, promises with their nodes, waits, order."""
    hashed = hashlib.sha256(repr(plan.starts).encode())
    for job_id, start_us in sorted(plan.expected_start_us.items()):
        hashed.update(f"{job_id} {start_us} {plan.planned_nodes.nodes_of(job_id)}".encode())
    for job_id, wait in sorted(plan.waits.items()):
        hashed.update(f"{job_id} {wait.reason} {wait.text}".encode())
    hashed.update(repr(sorted(plan.priorities.items())).encode())
    return hashed.hexdigest()[:16]


def measure(
    nodes: int,
    jobs: int,
    seed: int,
    passes: int,
    reservations: int,
    *,
    has_tree: bool,
    is_limited: bool = False,
    has_digests: bool = False,
    parameters: str = "",
) -> dict[str, object]:
    """Return the measures of one run."""
    conf = parse_slurm_conf(conf_text(nodes, parameters))
    cluster, running = prepare(conf, jobs, seed, reservations, has_tree=has_tree)
    now_us = BEGIN_US + MINUTE_US
    usage: UsageIndex | None = None
    if is_limited:
        limit(cluster)
        usage = UsageIndex(cluster)
    settle_memory()
    forget_largest()
    before_mib = memory_mib("VmRSS")
    planner, views, rules = Planner(), Views(), policy(conf)
    views.heed_preemption(bool(rules.preempt_by))
    views.foresee(History() if rules.is_smart else None)
    snapshots, plans, cpu, started, digests = [], [], [], [], []
    plan = Plan()
    for _ in range(passes + 1):
        begun = time.perf_counter()
        view = snapshot(cluster, now_us, views)
        if usage is not None:
            view = replace(view, limits=usage.quotas(now_us))
        taken, used = time.perf_counter(), time.process_time()
        plan = planner(view, rules)
        snapshots.append(taken - begun)
        plans.append(time.perf_counter() - taken)
        cpu.append(time.process_time() - used)
        if has_digests:
            digests.append(digest(plan))
        for start in plan.starts:
            events = dispatch(cluster, start, now_us)
            apply_all(cluster, events)
            views.forget(job_id for event in events for job_id in touched_jobs(event))
            if usage is not None:
                usage.applied(events)
        started.append(len(plan.starts))
        now_us += 1_000_000
    return {
        **({"digests": digests} if digests else {}),
        "nodes": nodes,
        "jobs": jobs,
        "running": running,
        "kinds": len({(job.request, job.time_limit_min) for job in view.waiting}),
        "started": started,
        "placed": len(plan.expected_start_us) + len(plan.starts),
        "cold_s": round(plans[0], 3),
        "seconds": round(statistics.median(plans[1:]), 3),
        "cpu_seconds": round(statistics.median(cpu[1:]), 3),
        "snapshot_s": round(statistics.median(snapshots[1:]), 4),
        "memory_mib": round(memory_mib("VmHWM") - before_mib, 1),
        "memory_total_mib": round(memory_mib("VmHWM"), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--reservations", type=int, default=20)
    parser.add_argument("--no-tree", action="store_true", help="without a topology")
    parser.add_argument("--limits", action="store_true", help="limits of associations and QOS")
    parser.add_argument("--parameters", default="", help="SchedulerParameters")
    parser.add_argument("--digest", action="store_true", help="say what was planned")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer-env", help="of no use here: the recorded peer is shown")
    options = parser.parse_args()
    figures = measure(
        options.nodes,
        options.jobs,
        options.seed,
        max(1, options.passes),
        options.reservations,
        has_tree=not options.no_tree,
        is_limited=options.limits,
        has_digests=options.digest,
        parameters=options.parameters,
    )
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<18} {value}")
    seconds = figures["seconds"]
    assert isinstance(seconds, float)
    print(f"{'jobs per second':<18} {options.jobs / seconds:,.0f}; Slurm {PEER_JOBS_PER_S:,.0f}")
    if (options.nodes, options.jobs) == (10_000, 100_000):
        print(f"{'limit':<18} {LIMIT_S} s, {'kept' if seconds <= LIMIT_S else 'MISSED'}")


if __name__ == "__main__":
    main()
