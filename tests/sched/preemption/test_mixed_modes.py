"""Preemption of several modes at once, with shared cores, licences, GPUs, grace and exemptions."""

from __future__ import annotations

from random import Random

import pytest

from pyslurm_ng.base.numbers import MINUTE_US, REQ_EXCLUSIVE, REQ_EXCLUSIVE_USER, REQ_OVERSUBSCRIBE
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.starts import gang
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.states import JobState
from tests.sched.preemption.preemption_site import BASE, PreemptionSite

NODES = BASE.replace("NodeName", "GresTypes=gpu\nNodeName") + (
    "NodeName=n5 CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=8000 Gres=gpu:2\n"
)
MODES = ("CANCEL", "REQUEUE", "SUSPEND,GANG", "SUSPEND,GANG")
PARAMETERS = ("", "youngest_first", "reclaim_licenses", "reorder_count=2", "strict_order")
SHARED = ("", "OverSubscribe=FORCE:2", "OverSubscribe=YES:3")
OF_PARTITIONS = ("", "", "PreemptMode=REQUEUE", "PreemptMode=CANCEL", "PreemptMode=OFF",
                 "GraceTime=45")  # fmt: skip
SLICE_S = 30


class MixedSite(PreemptionSite):
    """A cluster of random rules of preemption, on which jobs of all kinds come."""

    def __init__(self, random: Random) -> None:
        mode = random.choice(MODES)
        self.is_sliced = "GANG" in mode
        lines = [
            f"PreemptType=preempt/{random.choice(('qos', 'partition_prio'))}",
            f"PreemptMode={mode}",
            f"SchedulerTimeSlice={SLICE_S}",
            f"PreemptExemptTime=00:0{random.choice((0, 2))}:00",
        ]
        if parameters := random.choice(PARAMETERS):
            lines.append(f"PreemptParameters={parameters}")
        shared = random.choice(SHARED)
        for name, tier in (("low", 1), ("mid", 5), ("high", 10)):
            own = random.choice((*OF_PARTITIONS, *["PreemptMode=SUSPEND"] * self.is_sliced))
            lines.append(
                f"PartitionName={name} Nodes=ALL PriorityTier={tier} DefMemPerCPU=100 "
                f"MaxTime=INFINITE {own} {random.choice((shared, ''))}"
            )
        super().__init__(NODES + "\n".join(lines) + "\n")
        modes = ("", "", "cancel", "requeue", "suspend" if self.is_sliced else "requeue")
        cheap, normal, urgent = (random.choice(modes) for _ in range(3))
        self.qos(
            Qos(1, "normal", priority=10, preempt_mode=normal),
            Qos(2, "cheap", priority=1, preempt_mode=cheap, grace_time_s=random.choice((0, 45))),
            Qos(3, "urgent", priority=100, preempt_mode=urgent,
                preempt=random.choice((("cheap",), ("cheap", "normal")))),
        )  # fmt: skip

    def come(self, random: Random) -> None:
        """Submit a job."""
        wants: dict[str, object] = {"flags": random.choice((0, 0, 0, REQ_OVERSUBSCRIBE))}
        nodes = random.choice((0, 0, 1, 2, 3))
        if random.random() < 0.2:
            wants["licenses"] = f"matlab:{random.randint(1, 2)}"
        if random.random() < 0.15:
            wants["gpus_per_node"] = str(random.randint(1, 2))
            nodes = min(nodes, 1)
        if random.random() < 0.1:
            wants["flags"] = random.choice((REQ_EXCLUSIVE, REQ_EXCLUSIVE_USER))
        self.add(
            random.choice(("low", "mid", "high")),
            random.randint(1, 4),
            nodes=nodes,
            minutes=random.choice((1, 2, 5, 30)),
            qos=random.choice(("normal", "cheap", "urgent")),
            requeue=random.random() < 0.7,
            ranges=((0, random.randint(1, 3), 1),) if random.random() < 0.15 else (),
            **wants,
        )

    def go_on(self) -> None:
        """Plan, do all of it, and let those who share cores take turns."""
        running = set(self.cluster.job_index.active)
        for preemption in self.run_pass().preemptions:
            assert running.issuperset(victim for victim, _ in preemption.victims)
        if self.is_sliced:
            self.apply(gang.turns(self.cluster, SLICE_S, self.now_us))
        self.check()
        self.look_at_cores()

    def look_at_cores(self) -> None:
        """See that nobody is beside a job that shares with none, and memory is given once."""
        cluster = self.cluster
        for node in cluster.living_nodes():
            allocs = cluster.node_index.use[node.node_id].allocs
            assert sum(alloc.mem_mib for alloc in allocs.values()) <= node.spec.real_memory_mib
            alone = taken = 0
            for job_id in allocs.keys() - cluster.job_index.suspended:
                cores = int.from_bytes(allocs[job_id].cores, "little")
                assert not cores & alone, job_id
                if cluster.jobs[job_id].rows <= 1:
                    assert not cores & taken, job_id
                    alone |= cores
                taken |= cores


@pytest.mark.parametrize("seed", range(8))
def test_every_job_runs_in_the_end(seed: int) -> None:
    """Nothing that the passes plan is refused, and preempted jobs leave nothing behind."""
    random = Random(seed)
    site = MixedSite(random)
    for _ in range(30):
        if random.random() < 0.6:
            site.come(random)
        what = random.choice(("wait", "clean", ""))
        if what == "clean":
            site.clean_up()
        elif what:
            site.wait(random.choice((5, 31, 61)))
        site.go_on()
    for _ in range(400):
        if not site.cluster.job_index.active and not site.cluster.job_index.pending:
            break
        site.now_us += MINUTE_US
        site.apply(timers.due(site.cluster, site.conf, {}, site.now_us))
        site.clean_up()
        site.go_on()
    assert not site.cluster.job_index.pending
    assert not any(site.cluster.job_counts.licenses_used.values())
    over = {JobState(job.state) for job in site.cluster.jobs.values()}
    assert over <= {JobState.TIMEOUT, JobState.PREEMPTED}
