"""sdiag prints Slurm's sections and labels with counters of our own."""

from __future__ import annotations

import json
import re

import pytest

from pyslurm_ng.data_parser.diag import statistics
from pyslurm_ng.sched.frame.plan import NumbersByJob, Plan
from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command


def labels(text: str) -> list[str]:
    """Return the lines without numbers, dates and the calls that happened to be made."""
    lines = text.partition("Remote Procedure Call")[0].splitlines()
    return [re.sub(r"[ :]*(N/A|\w{3} \w{3} .*|\d+( microseconds)?)$", "", line) for line in lines]


def test_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every label of Slurm's."""
    case = next(case for case in cases("sdiag") if case[0] == "default")
    reference = queue()
    reference.soft.count_call("ShowJobs", 1001, 60)
    printed = run_command(monkeypatch, reference, "root", case[2])
    ours = [line for line in labels(printed.stdout) if line]
    assert ours == [line for line in labels(case[3]) if line]
    assert re.search(r"ShowJobs +\( +\d+\) count:1 +ave_time:60 +total_time:60", printed.stdout)
    assert "Jobs pending:   20" in printed.stdout


def test_passes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs in the queue, those that room was looked for, and stretches of the timeline."""
    reference = queue()
    for tested, waiting, slots in ((3, 4, 100), (1, 2, 300)):
        plan = Plan(
            priorities=NumbersByJob(dict.fromkeys(range(waiting), 1)), tested=tested, slots=slots
        )
        reference.soft.planned(plan, {}, queue_length=waiting + 2, took_us=50, now_us=1)
    text = run_command(monkeypatch, reference, "root", ["sdiag"]).stdout
    backfill = text.partition("Backfilling stats")[2]
    for line in (
        "Last depth cycle: 2", "Last depth cycle (try sched): 1", "Depth Mean: 3",
        "Depth Mean (try depth): 2", "Last queue length: 4", "Queue length mean: 5",
        "Last table size: 300", "Mean table size: 200",
    ):  # fmt: skip
        assert f"\t{line}\n" in backfill
    shown = json.loads(run_command(monkeypatch, reference, "root", ["sdiag", "--json"]).stdout)
    shown = shown["statistics"]
    assert (shown["bf_last_depth"], shown["bf_last_depth_try"]) == (2, 1)
    assert (shown["bf_depth_sum"], shown["bf_depth_try_sum"]) == (6, 4)
    assert (shown["bf_depth_mean"], shown["bf_depth_mean_try"]) == (3, 2)
    sizes = (shown["bf_table_size"], shown["bf_table_size_sum"], shown["bf_table_size_mean"])
    assert sizes == (300, 400, 200)
    lengths = (shown["bf_queue_len"], shown["bf_queue_len_sum"], shown["bf_queue_len_mean"])
    assert lengths == (4, 10, 5)


def test_users_have_names_after_the_controller_forgot_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reconfigure forgets who asked; the command knows the users of its host itself."""
    reference = queue()
    reference.soft.count_call("ShowJobs", 1, 60)
    text = run_command(monkeypatch, reference, "root", ["sdiag"]).stdout
    assert re.search(r"^\tdaemon +\( +1\) count:1 ", text, re.MULTILINE)
    shown = json.loads(run_command(monkeypatch, reference, "root", ["sdiag", "--json"]).stdout)
    assert shown["statistics"]["rpcs_by_user"][0]["user"] == "daemon"


def test_calls_that_wait_are_in_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """pending_rpcs has them by kind, as the text has."""
    reply = {
        "now_us": 1, "since_us": 1, "counters": {}, "messages": [("ShowJobs", 2, 10)], "users": [],
        "faults": [], "connections": [], "limited": [], "pending": [("ShowJobs", 3)],
    }  # fmt: skip
    assert statistics(reply)["pending_rpcs"] == [
        {"type_id": 0, "message_type": "ShowJobs", "count": 3}
    ]


def test_reset_needs_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may look, operators may reset."""
    case = next(case for case in cases("sdiag") if case[0] == "reset_not_admin")
    printed = run_command(monkeypatch, queue(), "alice", case[2])
    assert (printed.stdout, printed.stderr, printed.code) == case[3:]
