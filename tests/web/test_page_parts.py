"""Parts of the pages: the map, a job's record, use by account, plots."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.kernels.records import pack
from pyslurm_ng.web.page.account_usage import account_usage
from pyslurm_ng.web.page.cluster_map import cluster_map
from pyslurm_ng.web.page.job_record import _JOB, _STEP, WIDTH, job_record
from pyslurm_ng.web.page.plots import LEAST_S, SAMPLES, StatisticsHistory
from pyslurm_ng.wire.daemon_link import SlurmError
from tests.web.visitor import Visitor

T0 = 1_795_000_000 * SECOND_US


class Daemon:
    """A daemon with fixed answers."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def call(self, kind: str, fields: Any, timeout_s: float = 0) -> Any:
        if kind not in self.answers:
            raise SlurmError(1800, "away")
        return self.answers[kind]

    def stream(self, kind: str, fields: Any, timeout_s: float = 0) -> Any:
        return iter(self.call(kind, fields))


def call_of(controller: Daemon, database: Daemon) -> Any:
    daemons = SimpleNamespace(accounting_storage="accounting_storage/slurmdbd", cluster="demo")
    return SimpleNamespace(controller=controller, database=database, daemons=daemons)


def nodes(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "group": "idle"} for name in names]


def reservation(name: str, hosts: str, start_s: int, end_s: int) -> list[Any]:
    return [name, hosts, T0 + start_s * SECOND_US, T0 + end_s * SECOND_US]


RESERVATIONS = {
    "now_us": T0,
    "fields": ["name", "nodes", "start_us", "end_us"],
    "records": b"".join(
        pack(row)
        for row in (
            reservation("later", "n1", 50, 90), reservation("now", "n[2-3]", -50, 90),
            reservation("over", "n4", -90, -50),
        )
    ),
}  # fmt: skip


def test_the_map_is_by_switch_and_block() -> None:
    """Nodes of none are last; an upper switch has no nodes of its own."""
    lines = [
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]",
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s0",
        "BlockName=b0 BlockIndex=0 Nodes=n3,gone BlockSize=2",
    ]
    call = call_of(Daemon(ShowTopology={"lines": lines}), Daemon())
    drawn = cluster_map(call, nodes("n1", "n2", "n3", "n4"))
    units = [(unit["name"], [node["name"] for node in unit["nodes"]]) for unit in drawn["units"]]
    assert units == [("Switch s0", ["n1", "n2"]), ("Block b0", ["n3"]), ("Others", ["n4"])]


def test_nodes_are_marked_while_they_are_reserved() -> None:
    """Reservations that are over are gone; those to come are listed only."""
    answers = {"ShowTopology": {"lines": []}, "ShowReservations": RESERVATIONS}
    rows = nodes("n1", "n2", "n3", "n4")
    drawn = cluster_map(call_of(Daemon(**answers), Daemon()), rows)
    assert [node["name"] for node in rows if node["is_reserved"]] == ["n2", "n3"]
    shown = [(row["name"], row["is_active"]) for row in drawn["reservations"]]
    assert shown == [("now", True), ("later", False)]


def job_row(**more: Any) -> list[Any]:
    row = dict.fromkeys(_JOB, 0) | {
        "job_id": 7, "state": "COMPLETED", "cpus_allocated": 4, "nodes_allocated": 1,
        "mem_mib": 100,
        "submit_us": T0, "start_us": T0 + 100 * SECOND_US, "end_us": T0 + 200 * SECOND_US,
        "time_limit_min": 5, "tres_allocated": "cpu=4,mem=100M", "array_tasks": "",
        **more,
    }  # fmt: skip
    return [row[name] for name in _JOB]


def step_record(position: int, number: int, **more: Any) -> list[Any]:
    row = dict.fromkeys(_STEP, 0) | {
        "step_id": number, "state": "COMPLETED", "start_us": T0 + 150 * SECOND_US, "tasks": 1,
        "end_us": T0 + 200 * SECOND_US, "user_cpu_us": 100 * SECOND_US,
        "tres_usage_in_tot": "mem=52428800", "tres_usage_in_ave": "", **more,
    }  # fmt: skip
    return [position, *(row[name] for name in _STEP)]


def records(*jobs: list[Any], steps: tuple[list[Any], ...] = ()) -> Daemon:
    part = {
        "now_us": T0 + 300 * SECOND_US, "fields": list(_JOB), "step_fields": ["job", *_STEP],
        "records": b"".join(map(pack, jobs)), "step_records": b"".join(map(pack, steps)),
    }  # fmt: skip
    return Daemon(ListJobRecords=[part])


def test_the_record_of_a_job_has_timeline_steps_and_efficiency() -> None:
    """Half of its life it waited; of four CPUs it used one; of its memory a half."""
    database = records(job_row(job_id=6), job_row(), steps=(step_record(0, 9), step_record(1, 0)))
    shown = job_record(call_of(Daemon(), database), "7")
    spans = [(bar["name"], bar["x"], bar["width"]) for bar in shown["bars"]]
    assert spans == [
        ("waited", 0, WIDTH // 2), ("ran", WIDTH // 2, WIDTH // 2),
        ("step 0", WIDTH * 3 // 4, WIDTH // 4),
    ]  # fmt: skip
    used = {row["name"]: round(row["percent"]) for row in shown["used"]}
    assert used == {"Processors": 25, "Memory": 50, "Time limit": 33}
    assert [step["id"] for step in shown["steps"]] == ["0"]


@pytest.mark.parametrize("job", [{"start_us": 0, "end_us": 0, "state": "PENDING"},
                                 {"start_us": 0, "end_us": T0, "state": "CANCELLED"},
                                 {"end_us": 0, "state": "RUNNING"}])  # fmt: skip
def test_each_state_of_a_job_has_a_timeline(job: dict[str, Any]) -> None:
    """Bars lie within the chart."""
    shown = job_record(call_of(Daemon(), records(job_row(**job))), "7")
    assert all(0 <= bar["x"] <= bar["x"] + bar["width"] <= WIDTH + 2 for bar in shown["bars"])
    assert bool(shown["used"]) == bool(job.get("start_us", T0))


def test_without_accounting_a_job_has_no_record() -> None:
    """Nor if slurmdbd is away, or knows another job."""
    assert job_record(call_of(Daemon(), Daemon()), "7") == {}
    assert job_record(call_of(Daemon(), records(job_row(job_id=8))), "7") == {}
    assert job_record(call_of(Daemon(), records()), "x y") == {}


def test_use_is_shown_in_hours_and_to_the_most() -> None:
    """Rows without use are left out."""
    rows = [["a", "", [7200, 0]], ["a", "bob", [3600, 1800]], ["b", "", [0, 0]]]
    reply = {"tres": ["cpu", "gres/gpu"], "fields": ["account", "user", "amounts"],
             "records": b"".join(map(pack, rows))}  # fmt: skip
    shown = account_usage(call_of(Daemon(), Daemon(ListUsage=reply)))
    assert [(row["user"], row["cpu"], row["gpu"], row["part"]) for row in shown["usage"]] == [
        ("", 2.0, 0.0, 100.0), ("bob", 1.0, 0.5, 50.0),
    ]  # fmt: skip
    assert account_usage(call_of(Daemon(), Daemon()))["why_not"]


def test_plots_have_a_point_for_each_look() -> None:
    """At most one in ten seconds, and only so many."""
    clock = [1000.0]
    history = StatisticsHistory(lambda: clock[0])
    assert history.plots() == []
    for look in range(SAMPLES + 10):
        history.note({"jobs_running": look})
        history.note({"jobs_running": 10**9})  # too soon
        clock[0] += LEAST_S
    plots = history.plots()
    line = plots[0]["lines"][0]
    assert line["newest"] == f"{SAMPLES + 9:.4g}"
    points = [tuple(map(int, point.split(","))) for point in line["points"].split()]
    assert len(points) == SAMPLES
    assert points[0][0] == 0 and points[-1] == (460, 0)  # the newest is the most


def test_the_page_of_an_unknown_job_is_not_found() -> None:
    """Neither slurmctld nor slurmdbd knows it."""
    answer = Visitor("alice").get("/jobs/999999")
    assert answer.status == 404
    assert "Invalid job id" in answer.content.decode()


def test_the_overview_has_a_map_without_names_of_units_where_there_are_none() -> None:
    text = Visitor("alice").get("/").content.decode()
    assert len(re.findall(r'href="/nodes#n\d"', text)) == 4
    assert "Others" not in text
