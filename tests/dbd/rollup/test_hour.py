"""One hour of a cluster adds up to what each TRES was used for."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from pyslurm_ng.dbd.rollup.hour import Capacity, Down, Job, Reserved, Usage, roll_up
from pyslurm_ng.dbd.rollup.spans import Span, covered

H = 1_000_800  # a whole hour since the epoch
HOUR = Span(H, H + 3600)
NODE = {"cpu": 4, "mem": 1000}
ALL = Capacity(1, 0, {"cpu": 16, "mem": 4000, "node": 4})


def job(start: int, end: int, *, eligible: int | None = None, **more: Any) -> Job:
    """A job of association 7 with four CPUs; times count from the beginning of the hour."""
    fields: dict[str, Any] = {"held": NODE, "qos_id": 1, "user": "alice", "wckey": "", **more}
    first = start if eligible is None else eligible
    return Job(7, eligible_s=H + first, start_s=H + start, end_s=H + end, **fields)


def cluster(usage: Usage, name: str = "cpu") -> dict[str, int]:
    """Return what is not zero of one TRES of the cluster."""
    times = usage.cluster[name]
    values = {key: getattr(times, key) for key in times.__slots__ if key != "count"}
    return {key: value for key, value in values.items() if value}


def test_a_job_counts_from_its_start_to_its_end() -> None:
    usage = roll_up(HOUR, [ALL], [job(600, 1200)])
    assert usage.by_association == {(7, 1): {"cpu": 2400, "mem": 600_000}}
    assert cluster(usage) == {"allocated": 2400, "idle": 16 * 3600 - 2400}
    assert cluster(usage, "mem") == {"allocated": 600_000, "idle": 4000 * 3600 - 600_000}
    assert usage.cluster["cpu"].count == 16


def test_only_the_part_of_a_job_in_the_hour_counts() -> None:
    """The parts of a long job in all its hours add up to all of it."""
    long = job(-1800, 3600 + 1800)
    parts = [
        roll_up(Span(start, start + 3600), [ALL], [long]).by_association[7, 1]["cpu"]
        for start in (H - 3600, H, H + 3600)
    ]
    assert parts == [4 * 1800, 4 * 3600, 4 * 1800]


def test_a_job_that_runs_has_no_end() -> None:
    usage = roll_up(HOUR, [ALL], [job(600, 0)._replace(end_s=0)])
    assert usage.by_association[7, 1]["cpu"] == 4 * 3000


def test_suspended_jobs_hold_no_cpus() -> None:
    """As measured with Slurm 22.05: only the CPUs are free. Periods that overlap count once."""
    spans = (Span(H - 60, H + 60), Span(H + 30, H + 90), Span(H + 3500, H + 9000))
    usage = roll_up(HOUR, [ALL], [job(0, 7200, suspended=spans)])
    used = {"cpu": 4 * (3600 - 90 - 100), "mem": 1000 * 3600}
    assert usage.by_association == {(7, 1): used}


def test_waiting_jobs_plan_cpus_only() -> None:
    """A recording of Slurm's has planned time for cpu, none for mem and billing."""
    started = job(1000, 2000, eligible=400, waiting_cpus=4)
    cancelled = job(0, 900, eligible=800, waiting_cpus=2)._replace(start_s=0)
    waiting = job(0, 0, eligible=3500, waiting_cpus=3)._replace(start_s=0, end_s=0)
    usage = roll_up(HOUR, [ALL], [started, cancelled, waiting])
    planned = 4 * 600 + 2 * 100 + 3 * 100
    assert cluster(usage)["planned"] == planned
    assert "planned" not in cluster(usage, "mem")


def test_jobs_that_cannot_start_yet_plan_nothing() -> None:
    waiting = job(0, 0, waiting_cpus=4)._replace(eligible_s=0, start_s=0, end_s=0)
    assert cluster(roll_up(HOUR, [ALL], [waiting])) == {"idle": 16 * 3600}


def test_planned_time_is_cut_first() -> None:
    """More jobs can wait than the cluster has room for."""
    usage = roll_up(HOUR, [ALL], [job(0, 3600, eligible=0), job(0, 0, waiting_cpus=100)._replace(
        start_s=0, end_s=0)])  # fmt: skip
    times = usage.cluster["cpu"]
    assert (times.allocated, times.planned, times.idle) == (4 * 3600, 12 * 3600, 0)
    assert times.over == 88 * 3600


def test_down_nodes_count_once() -> None:
    """Events of one node may overlap or follow one another without a gap."""
    downs = [
        Down("n1", H - 100, H + 100, NODE),
        Down("n1", H + 50, H + 200, NODE),
        Down("n2", H + 3000, 0, NODE),
    ]
    usage = roll_up(HOUR, [ALL], [], downs)
    assert cluster(usage)["down"] == 4 * 200 + 4 * 600


def test_a_reservation_charges_its_members_for_the_time_without_jobs() -> None:
    """As measured with Slurm 22.05: whatever part of it a job uses, and in whole seconds each."""
    reserved = Reserved("res", H, H + 1000, {"cpu": 8, "node": 2}, (7, 8, 9))
    usage = roll_up(HOUR, [ALL], [job(0, 401, reservation="res")], [], [reserved])
    each = {"cpu": 8 * 599 // 3}
    assert [usage.by_association[number, 0] for number in (7, 8, 9)] == [each] * 3
    assert cluster(usage)["allocated"] == 8 * 1000


def test_a_suspended_job_uses_its_reservation_and_two_jobs_use_it_twice() -> None:
    reserved = Reserved("res", H, H + 1000, {"cpu": 8}, (8,))
    suspended = job(-100, 600, reservation="res", suspended=(Span(H, H + 300),))
    usage = roll_up(HOUR, [ALL], [suspended], [], [reserved])
    assert usage.by_association[8, 0] == {"cpu": 8 * 400}
    usage = roll_up(HOUR, [ALL], [suspended, job(0, 500, reservation="res")], [], [reserved])
    assert (8, 0) not in usage.by_association


def test_a_job_leaves_what_it_has_none_of_unused() -> None:
    """As in 22.05, where a job without GPUs leaves all GPUs to be paid for."""
    reserved = Reserved("res", H, H + 1000, {"cpu": 8, "gres/gpu": 2}, (8,))
    usage = roll_up(HOUR, [ALL], [job(0, 400, reservation="res")], [], [reserved])
    assert usage.by_association[8, 0] == {"cpu": 8 * 600, "gres/gpu": 2 * 1000}
    usage = roll_up(HOUR, [ALL], [job(0, 1000, reservation="res")], [], [reserved])
    assert (8, 0) not in usage.by_association


def test_jobs_outside_the_time_of_their_reservation_are_allocated() -> None:
    """Unlike in 22.05, which leaves them out of the cluster's time and calls it idle."""
    reserved = Reserved("res", H + 1000, H + 2000, {"cpu": 8}, (8,))
    usage = roll_up(HOUR, [ALL], [job(500, 2500, reservation="res")], [], [reserved])
    assert cluster(usage)["allocated"] == 8 * 1000 + 4 * 1000


def test_a_maintenance_is_planned_down_time() -> None:
    """All of it, with the jobs that use it, and members pay all the same. Slurm 22.05 does so."""
    reserved = Reserved("res", H, H + 1000, {"cpu": 8}, (7,), is_maintenance=True)
    usage = roll_up(HOUR, [ALL], [job(0, 100, reservation="res")], [], [reserved])
    assert cluster(usage) == {"planned_down": 8000, "idle": 16 * 3600 - 8000}
    assert usage.by_association[7, 0] == {"cpu": 8000 - 800}


def test_a_reservation_that_ignores_jobs_is_no_part_of_the_clusters_time() -> None:
    """Its members pay all the same."""
    reserved = Reserved("res", H, H + 1000, {"cpu": 8}, (7,), True, ignores_jobs=True)
    usage = roll_up(HOUR, [ALL], [], [], [reserved])
    assert cluster(usage) == {"idle": 16 * 3600}
    assert usage.by_association == {(7, 0): {"cpu": 8000}}


def test_only_jobs_that_wait_overcommit() -> None:
    """As the manual of sreport says, and 22.05 where nodes are down that run jobs."""
    waiting = job(1000, 1000, eligible=0, waiting_cpus=40)
    downs = [Down(name, H, H + 3600, {"cpu": 8}) for name in "ab"]
    usage = roll_up(HOUR, [ALL], [job(0, 3600), waiting], downs)
    assert cluster(usage) == {"allocated": 4 * 3600, "down": 12 * 3600, "over": 40 * 1000}


def test_jobs_of_a_reservation_that_ignores_jobs_hold_their_cpus_while_suspended() -> None:
    """As measured with 22.05, in the cluster's time only: accounts do not pay for it."""
    reserved = Reserved("res", H, H + 1000, {"cpu": 8}, (), ignores_jobs=True)
    suspended = job(0, 500, reservation="res", suspended=(Span(H + 10, H + 40),))
    usage = roll_up(HOUR, [ALL], [suspended], [], [reserved])
    cpus = suspended.held["cpu"]
    assert cluster(usage)["allocated"] == cpus * 500
    assert usage.by_association[7, 1]["cpu"] == cpus * 470


def test_jobs_that_wait_for_a_reservation_plan_nothing() -> None:
    waiting = job(1000, 2000, eligible=0, waiting_cpus=4, reservation="res")
    assert "planned" not in cluster(roll_up(HOUR, [ALL], [waiting]))


def test_a_cluster_that_grows_has_both_amounts() -> None:
    """The whole time of a TRES is that of each amount for as long as it was there."""
    periods = [Capacity(H - 50, H + 1000, {"cpu": 8}), Capacity(H + 1000, 0, {"cpu": 16})]
    usage = roll_up(HOUR, periods, [])
    assert cluster(usage) == {"idle": 8 * 1000 + 16 * 2600}
    assert usage.cluster["cpu"].count == 16


def test_wckeys_count_by_user() -> None:
    usage = roll_up(HOUR, [ALL], [job(0, 10, wckey="w"), job(0, 20, wckey="w", user="bob")])
    assert usage.by_wckey["w", "alice"]["cpu"] == 40
    assert usage.by_wckey["w", "bob"]["cpu"] == 80


# Properties -------------------------------------------------------------------------------------

seconds = st.integers(H - 4000, H + 8000)
ends = st.one_of(st.just(0), seconds)
amounts = st.dictionaries(st.sampled_from(["cpu", "mem", "node"]), st.integers(0, 50))
spans = st.lists(st.builds(Span, seconds, seconds), max_size=3).map(tuple)
jobs = st.builds(
    Job, st.integers(0, 3), st.integers(0, 2), st.sampled_from(["a", "b"]),
    st.sampled_from(["", "w"]), ends, ends, ends, amounts, st.integers(0, 50), spans,
    st.sampled_from(["", "r"]),
)  # fmt: skip
downs = st.builds(Down, st.sampled_from(["n1", "n2"]), seconds, ends, amounts)
capacities = st.builds(Capacity, seconds, ends, amounts)
members = st.lists(st.integers(0, 4), max_size=3, unique=True).map(tuple)
reservations = st.builds(
    Reserved, st.just("r"), seconds, ends, amounts, members, st.booleans(), st.booleans()
)


@given(
    st.lists(capacities, max_size=3), st.lists(jobs, max_size=5), st.lists(downs, max_size=4),
    st.lists(reservations, max_size=3),
)  # fmt: skip
def test_the_parts_are_the_whole(
    have: list[Capacity], ran: list[Job], out: list[Down], kept: list[Reserved]
) -> None:
    """No time of the cluster is lost or counted twice, and none is negative."""
    usage = roll_up(HOUR, have, ran, out, kept)
    for name, times in usage.cluster.items():
        if name == "energy":  # what a cluster uses is no part of what it has
            continue
        parts = (times.allocated, times.down, times.planned_down, times.idle, times.planned)
        total = sum(
            capacity.held.get(name, 0)
            * Span(capacity.start_s, capacity.end_s or HOUR.end_s).within(HOUR).seconds
            for capacity in have
        )
        assert sum(parts) == total
        assert min(*parts, times.over) >= 0


@given(st.integers(0, 10_000), st.integers(0, 20_000), st.integers(1, 10**12))
def test_the_joules_of_a_job_are_those_of_its_hours(
    start_s: int, ran_s: int, energy_j: int
) -> None:
    """Each hour gets a whole number of them, and none is lost or counted twice."""
    job = Job(
        1, 1, "alice", "", start_s + 1, start_s + 1, start_s + 1 + ran_s, {}, energy_j=energy_j
    )
    hours = [Span(3600 * number, 3600 * number + 3600) for number in range(10)]
    parts = [roll_up(hour, (), (job,)).by_association.get((1, 1), {}) for hour in hours]
    joules = [part.get("energy", 0) for part in parts]
    assert sum(joules) == energy_j
    even = [
        energy_j
        * max(0, min(job.end_s, hour.end_s) - max(job.start_s, hour.start_s))
        / (ran_s or 1)
        for hour in hours
    ]
    assert not ran_s or all(
        abs(part - share) <= 1 + energy_j * 1e-9 for part, share in zip(joules, even, strict=True)
    )


def cut(start_s: int, end_s: int, where_s: int) -> list[tuple[int, int]]:
    """Return a period in one part or two."""
    last_s = end_s or HOUR.end_s + 10_000
    if start_s < where_s < last_s:
        return [(start_s, where_s), (where_s, end_s)]
    return [(start_s, end_s)]


@given(st.lists(jobs, max_size=4), st.lists(downs, max_size=3), seconds)
def test_it_does_not_matter_how_events_are_split(
    ran: list[Job], out: list[Down], where_s: int
) -> None:
    """A node that is down, a suspension, and the cluster may come in parts."""

    def parts(row: Any) -> list[Any]:
        cuts = cut(row.start_s, row.end_s, where_s)
        return [row._replace(start_s=start_s, end_s=end_s) for start_s, end_s in cuts]

    split_jobs = [
        run._replace(suspended=tuple(Span(*part) for span in run.suspended
                                     for part in cut(*span, where_s)))
        for run in ran
    ]  # fmt: skip
    whole = roll_up(HOUR, [ALL], ran, out)
    split_downs = [part for down in out for part in parts(down)]
    assert roll_up(HOUR, parts(ALL), split_jobs, split_downs) == whole


@given(st.lists(jobs, max_size=5), st.integers(1, 3599))
def test_two_parts_of_an_hour_are_the_hour(ran: list[Job], where: int) -> None:
    """Times between hours are neither lost nor counted twice."""
    first = roll_up(Span(H, H + where), [ALL], ran).by_association
    second = roll_up(Span(H + where, HOUR.end_s), [ALL], ran).by_association
    whole = roll_up(HOUR, [ALL], ran).by_association
    sums = {
        key: {
            name: first.get(key, {}).get(name, 0) + second.get(key, {}).get(name, 0)
            for name in {*first.get(key, {}), *second.get(key, {})}
        }
        for key in {*first, *second}
    }
    assert sums == whole


@given(spans)
def test_covered_seconds_are_those_in_any_span(some: tuple[Span, ...]) -> None:
    inside = {second for span in some for second in range(span.start_s, span.end_s)}
    assert covered(some) == len(inside)
