"""What is promised for later fits together: no core, MiB, GPU or licence twice at any time."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from tests.world.callers import ALICE, BOB
from tests.world.reservations import ReservationSite

LICENSES = 3
CORES, MEM_MIB, GPUS = 16, 64000, 4
_CONF = f"Licenses=matlab:{LICENSES}\n"


@dataclass(frozen=True)
class Asked:
    """A job of one task per node; `resv_name` is a reservation or none."""

    nodes: int
    cpus: int
    mem_mib: int
    gpus: int
    minutes: int
    matlab: int
    resv_name: str

    def submit(self, here: ReservationSite) -> Job:
        """Let alice ask for it in a reservation, or bob outside."""
        return here.job(
            ALICE if self.resv_name else BOB,
            nodes_min=self.nodes,
            nodes_max=self.nodes,
            ntasks=self.nodes,
            cpus_per_task=self.cpus,
            mem_per_node_mib=self.mem_mib,
            gpus_per_node=str(self.gpus) if self.gpus else "",
            time_limit_min=self.minutes,
            licenses=f"matlab:{self.matlab}" if self.matlab else "",
            reservation=self.resv_name,
        )


ASKED = st.builds(
    Asked,
    nodes=st.sampled_from([1, 1, 1, 2]),
    cpus=st.sampled_from([1, 4, 9, 16]),
    mem_mib=st.sampled_from([1000, 20000, 40000]),
    gpus=st.sampled_from([0, 0, 0, 1, 3]),
    minutes=st.integers(1, 200),
    matlab=st.sampled_from([0, 0, 0, 1, 2]),
    resv_name=st.sampled_from(["", "", "", "r"]),
)
# Jobs in a reservation of one node ask for no more of them.
JOBS = st.lists(ASKED.filter(lambda job: not job.resv_name or job.nodes == 1), max_size=14)
Span = tuple[int, int, tuple[int, ...], Asked]


def spans_of(here: ReservationSite, plan: Plan, jobs: dict[int, Asked]) -> list[Span]:
    """Return from when to when each job has or is to have which nodes."""
    spans = []
    for job_id, asked in jobs.items():
        job = here.cluster.jobs[job_id]
        begin_us, nodes = job.start_us, tuple(alloc.node_id for alloc in job.nodes)
        if job.state == JobState.PENDING:
            begin_us = plan.expected_start_us.get(job_id, 0)
            nodes = plan.planned_nodes[job_id] if begin_us else ()
        if begin_us:
            end_us = begin_us + asked.minutes * MINUTE_US
            if asked.resv_name:  # it ends with its reservation
                end_us = min(end_us, here.cluster.reservations[asked.resv_name].end_us)
            spans.append((begin_us, end_us, nodes, asked))
    return spans


def check_moment(here: ReservationSite, spans: list[Span], now_us: int) -> None:
    """See that what is held at a moment is there, and that nobody is where they may not be."""
    taken: dict[tuple[int, str], int] = {}
    reservation = here.cluster.reservations["r"]
    is_reserved = reservation.start_us <= now_us < reservation.end_us
    matlab = 0
    for begin_us, end_us, nodes, asked in spans:
        if not begin_us <= now_us < end_us:
            continue
        assert len(nodes) == asked.nodes
        assert bool(asked.resv_name) <= is_reserved
        matlab += asked.matlab
        for node_id in nodes:
            assert (node_id in reservation.node_ids) >= bool(asked.resv_name)
            assert asked.resv_name or not (is_reserved and node_id in reservation.node_ids)
            amounts = {"cores": asked.cpus, "mem": asked.mem_mib, "gpus": asked.gpus}
            for name, amount in amounts.items():
                taken[node_id, name] = taken.get((node_id, name), 0) + amount
    assert matlab <= LICENSES
    for (node_id, name), amount in taken.items():
        gpus = GPUS if node_id < 2 else 0
        assert amount <= {"cores": CORES, "mem": MEM_MIB, "gpus": gpus}[name], (node_id, name)


@settings(deadline=None, max_examples=30)
@given(first=JOBS, then=JOBS, at_min=st.integers(0, 90), length_min=st.integers(30, 300))
def test_no_promise_is_more_than_there_is(
    first: list[Asked], then: list[Asked], at_min: int, length_min: int
) -> None:
    """At every moment at which something begins, and just before something ends."""
    here = ReservationSite(_CONF, plan=Planner())
    here.make(nodes="n2", starttime=here.now_us + at_min * MINUTE_US, duration=length_min)
    here.advance()
    asked = {job.submit(here).job_id: job for job in first if not job.resv_name or not at_min}
    here.run_pass()
    here.advance(MINUTE_US)
    asked |= {job.submit(here).job_id: job for job in then}
    plan = here.run_pass()
    spans = spans_of(here, plan, asked)
    for begin_us, end_us, _, _ in spans:
        check_moment(here, spans, begin_us)
        check_moment(here, spans, end_us - 1)
