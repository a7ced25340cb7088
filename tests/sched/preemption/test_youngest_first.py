"""PreemptParameters=youngest_first: who began last leaves first, whatever its mode or priority."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.assoc import Qos
from tests.sched.preemption.preemption_site import BASE, PreemptionSite
from tests.world.examples import drawn

NODES = 8
CPUS = 4
EXEMPT_S = 120


class AgedSite(PreemptionSite):
    """A job on each node, begun one after another, which leave in different ways if they may."""

    def __init__(self, random: Random) -> None:
        self.by_qos = random.random() < 0.5
        mode = random.choice(("CANCEL", "REQUEUE", "SUSPEND,GANG"))
        self.exempt_s = random.choice((0, EXEMPT_S))
        modes = ["CANCEL", "REQUEUE", *["SUSPEND"] * ("GANG" in mode)]
        own = {name: random.choice((*modes, "OFF", "")) for name in ("low", "mid")}
        self.never = {name for name in own if own[name] == "OFF" and not self.by_qos}
        lines = [
            BASE.replace("n[1-4]", f"n[1-{NODES}]"),
            f"PreemptType=preempt/{'qos' if self.by_qos else 'partition_prio'}",
            f"PreemptMode={mode}",
            "PreemptParameters=youngest_first",
            f"PreemptExemptTime={self.exempt_s // 60}",
        ]
        for name, tier in (("low", 1), ("mid", 5), ("high", 10)):
            text = f"PreemptMode={own[name]}" if own.get(name) and not self.by_qos else ""
            lines.append(
                f"PartitionName={name} Nodes=ALL PriorityTier={tier} DefMemPerCPU=100 "
                f"MaxTime=INFINITE {text}"
            )
        super().__init__("\n".join(lines) + "\n")
        cheap, normal = (random.choice(("", *modes)).lower() for _ in range(2))
        self.qos(
            Qos(1, "normal", priority=10, preempt_mode=normal),
            Qos(2, "cheap", priority=1, preempt_mode=cheap),
            Qos(3, "urgent", priority=100, preempt=("cheap", "normal")),
        )
        self.old = [self._begin(random) for _ in range(NODES)]

    def _begin(self, random: Random) -> int:
        partition, qos = random.choice(("low", "mid")), random.choice(("normal", "cheap"))
        job_id = self.add(partition, CPUS, nodes=1, minutes=600, qos=qos)
        self.run_pass()
        self.wait(random.randint(1, 60))
        return job_id

    def may_leave(self) -> list[int]:
        """Return the jobs that may be victims now, who began last first."""
        cluster = self.cluster
        return [
            job_id
            for job_id in reversed(self.old)
            if cluster.jobs[job_id].partition not in self.never
            and self.now_us - cluster.jobs[job_id].start_us >= self.exempt_s * SECOND_US
        ]


@settings(max_examples=drawn(80), deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_job_that_began_last_leaves_first(seed: int) -> None:
    """As many of the youngest as needed, or none if not enough of them may leave."""
    random = Random(seed)
    site = AgedSite(random)
    candidates = site.may_leave()
    for _ in range(2):
        count = random.randint(1, 3)
        site.add("high", CPUS, nodes=count, minutes=600, qos="urgent")
        victims = [
            victim for preemption in site.run_pass().preemptions for victim, _ in preemption.victims
        ]
        expected = candidates[:count] if count <= len(candidates) else []
        assert sorted(victims) == sorted(expected)
        candidates = candidates[len(expected) :]
        if not expected:
            break
