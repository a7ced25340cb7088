"""Plans with GPUs in every form of asking for them: what starts has what it asked for."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_GRES_DISABLE_BIND
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts, NodeGres, restricted_cores
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.examples import drawn
from tests.world.passes import run_pass

MINUTE_US = 60_000_000
CONF = """
ClusterName=c
SlurmctldHost=h
GresTypes=gpu,lustre,port
SelectTypeParameters=CR_Core
NodeName=n[1-3] CPUs=16 Sockets=2 CoresPerSocket=8 Gres=gpu:a100:2,gpu:h200:2,lustre:no_consume:2,port:3 {more}
NodeName=n4 CPUs=16 Sockets=2 CoresPerSocket=8
PartitionName=main Nodes=ALL Default=YES MaxTime=600 DefCpuPerGPU=3
"""  # noqa: E501
HALVES = (b"\xff", b"\xff", b"\x00\xff", b"\x00\xff")
LINKS = ((-1, 4, 1, 1), (4, -1, 1, 1), (1, 1, -1, 4), (1, 1, 4, -1))
FACTS = NodeFacts(
    gres=(
        # In another order than slurm.conf's.
        NodeGres("gpu", "h200", 2, ("/dev/h0", "/dev/h1"), HALVES[:2], LINKS[:2]),
        NodeGres("gpu", "a100", 2, ("/dev/a0", "/dev/a1"), HALVES[2:], LINKS[2:], "", 2),
        NodeGres("lustre", "", 2),
        NodeGres("port", "", 3, ("/dev/p0", "/dev/p1", "/dev/p2")),
    )
)


def of(wants: dict[str, object]) -> JobRequest:
    return JobRequest(**wants)  # type: ignore[arg-type]


GPUS = [
    {},
    {"gpus": "1"},
    {"gpus": "5"},
    {"gpus": "a100:1,h200:2"},
    {"gpus": "4", "gpus_per_node": "2"},
    {"gpus_per_node": "h200:2"},
    {"gpus_per_task": "1", "ntasks": 3},
    {"gpus": "6", "gpus_per_task": "2"},
    {"gpus": "3", "ntasks_per_gpu": 2},
    {"gpus_per_socket": "1", "sockets_per_node": 2},
    {"gres": "gpu:a100:1,port:2"},
    {"gres": "lustre:2"},
]
requests = st.builds(
    lambda gpus, more: of({**gpus, **more}),
    st.sampled_from(GPUS),
    st.sampled_from(
        [
            {},
            {"cpus_per_task": 2},
            {"cpus_per_gpu": 4},
            {"mincpus": 9},
            {"flags": REQ_EXCLUSIVE},
            {"flags": REQ_GRES_DISABLE_BIND},
        ]
    ),
)
queues = st.lists(st.tuples(requests, st.sampled_from([1, 5, 30])), min_size=1, max_size=14)


RULES = policy(conf_of(CONF.format(more="")))


def made(more: str = "") -> Cluster:
    cluster = cluster_of(conf_of(CONF.format(more=more)))
    for node_id in range(3):
        apply_all(cluster, [ev.NodeRegistered(START_US, node_id, FACTS, NodeState.IDLE)])
    return cluster


@settings(deadline=None, max_examples=drawn(60))
@given(first=queues, second=queues, restricts=st.booleans())
def test_no_device_twice_and_every_job_has_what_it_asked_for(
    first: list[tuple[JobRequest, int]], second: list[tuple[JobRequest, int]], restricts: bool
) -> None:
    """Two passes, the second on what the first left."""
    cluster = made("RestrictedCoresPerGPU=2" if restricts else "")
    for queue in (first, second):
        for request, limit in queue:
            submit(cluster, request, time_limit_min=limit)
        run_pass(cluster, rules=RULES)
    view = snapshot(cluster, START_US)
    for job in cluster.jobs.values():
        if not job.nodes:
            continue
        devices = [gres for alloc in job.nodes for gres in alloc.gres]
        gpus = sum(gres.count for gres in devices if gres.name == "gpu")
        request = job.request
        for gres in devices:
            if gres.name in ("gpu", "port"):
                assert int.from_bytes(gres.indexes, "little").bit_count() == gres.count
            if gres.type:  # numbers as the node gives them
                low = {"h200": 0, "a100": 2}[gres.type]
                assert not int.from_bytes(gres.indexes, "little") & ~(3 << low)
        if not request.flags & REQ_EXCLUSIVE:
            asked = sum(int(part.rpartition(":")[2]) for part in request.gpus.split(",") if part)
            assert not asked or gpus == asked
        if request.gpus_per_socket and not request.flags & REQ_EXCLUSIVE and not request.gpus:
            for alloc in job.nodes:
                mask = sum(int.from_bytes(gres.indexes, "little") for gres in alloc.gres)
                assert (mask & 0b0011).bit_count() == (mask & 0b1100).bit_count() == 1
        cpus = sum(alloc.cpus for alloc in job.nodes)
        assert cpus >= gpus * request.cpus_per_gpu
        if not gpus:
            for alloc in job.nodes:
                spec = view.specs[alloc.node_id]
                assert spec is not None
                assert not int.from_bytes(alloc.cores, "little") & restricted_cores(spec)


def test_restricted_cores_do_not_hold_up_the_plan() -> None:
    """A CPU job that only restricted cores are left for waits for the others' end."""
    cluster = made("RestrictedCoresPerGPU=2")
    wants = {"node_list": "n1", "ntasks": 8, "nodes_min": 1, "nodes_max": 1}
    submit(cluster, of(wants), time_limit_min=30)
    run_pass(cluster, rules=RULES)
    waiting = submit(cluster, of(wants), time_limit_min=30)
    gpu_job = submit(cluster, of({"node_list": "n1", "ntasks": 8, "gpus": "1"}), time_limit_min=30)
    outcome = Planner()(snapshot(cluster, START_US), policy(conf_of(CONF.format(more=""))))
    assert [start.job_id for start in outcome.starts] == [gpu_job]
    assert 30 <= (outcome.expected_start_us[waiting] - START_US) // MINUTE_US <= 32
