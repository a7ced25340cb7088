"""scontrol show prints what Slurm printed on the reference cluster."""

from __future__ import annotations

import json
import re

import pytest

from pyslurm_ng.base.numbers import REQ_GRES_DISABLE_BIND, REQ_GRES_ENFORCE_BIND
from pyslurm_ng.cli.control import assoc_mgr, show_jobs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.license_server import ServerUse
from pyslurm_ng.model.states import JobFlag, JobState
from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command

SHOWN = [
    case
    for case in cases("scontrol")
    if case[2][1:2] == ["show"] or case[2][2:3] == ["show"] or case[0] in ("version", "bad_command")
]
# Other times of the recording (idle nodes, a node down, a job requeued), other parts (json, assoc),
# or made by the daemon's edges (config, topology).
ELSEWHERE = {
    "assoc_mgr",
    "config",
    "daemons",
    "job_json",
    "job_toobig_qos",
    "node",
    "node_down",
    "node_json",
    "node_n1_d",
    "node_oneliner",
    "partition_json",
    "reservation",
    "reservation_oneliner",
    "show_job_requeued",
    "topology",
    "topology_conf",
    "topology_n1",
    "version",
}
CASES = [case for case in SHOWN if case[0] not in ELSEWHERE]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_prints_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same lines, same messages, same exit code."""
    name, user, words, stdout, stderr, code = case
    printed = run_command(monkeypatch, queue(), user, words)
    assert printed.stderr == stderr
    assert without_history(printed.stdout, name) == without_history(stdout, name)
    assert printed.code == code


# Values that tell of what the recorded cluster went through before (scheduling passes that looked
# at a job, jobs that ended on a node), of the second it was asked in, or of a random choice.
HISTORY = re.compile(r"\b(LastSchedEval|LastBusyTime|BootTime|SLUID|RunTime|Scheduler)=\S+")
# A step that asked for GPUs itself; a start was expected a second later.
UNLIKE = {
    "step_all": "TresPer",
    "job_het": "StartTime=2026-11-20T12:10:5",
}


def without_history(text: str, name: str) -> list[str]:
    """Leave out what tells of earlier events, which this cluster has not had."""
    lines = HISTORY.sub(r"\1=*", text).splitlines()
    return [line for line in lines if name not in UNLIKE or UNLIKE[name] not in line]


def test_the_tasks_of_an_array_begin_with_its_own_record() -> None:
    """Then the youngest first; jobs beside it stay in order of their ids."""
    rows = [{"job_id": job_id, "array_job_id": array_id}
            for job_id, array_id in ((12, 12), (15, 12), (16, 12), (11, 0), (13, 0))]  # fmt: skip
    rows.sort(key=show_jobs._array_order)
    assert [row["job_id"] for row in rows] == [11, 12, 16, 15, 13]


def test_a_requeued_job_shows_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """AllocTRES tells of the run before until the next one starts."""
    reference = queue()
    cluster, now_us = reference.cluster, reference.now_us
    flags = int(JobFlag.REQUEUED)
    cluster.jobs[21].steps.clear()
    apply_all(cluster, [ev.JobCompleting(now_us, 21, int(JobState.NODE_FAIL), 0, 0, 1, (), flags)])
    apply_all(cluster, [ev.JobRequeued(now_us, 21, 1, 0)])
    printed = run_command(monkeypatch, reference, "alice", ["scontrol", "show", "job", "21"])
    assert "JobState=PENDING" in printed.stdout
    assert "AllocTRES=cpu=4,mem=4000M,node=1,billing=4" in printed.stdout


def test_licences_of_servers_have_a_third_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the counts that the server reported last; in JSON they are numbers."""
    cluster = queue()
    told = ServerUse("flu@lm", 7, 5, 1_700_000_000_000_000)
    totals = (("ansys", 3), ("flu@lm", 20), ("mat@lm", 4))
    apply_all(cluster.cluster, [ev.LicensesUpdated(1, totals, (told,))])
    shown = run_command(monkeypatch, cluster, "root", ["scontrol", "show", "lic"]).stdout
    assert shown == (
        "LicenseName=ansys\n    Total=3 Used=0 Free=3 Reserved=0 Remote=no\n"
        "LicenseName=flu@lm\n    Total=20 Used=0 Free=15 Reserved=0 Remote=yes\n"
        "    LastConsumed=7 LastDeficit=5 LastUpdate=2023-11-14T22:13:20\n"
        "LicenseName=mat@lm\n    Total=4 Used=0 Free=4 Reserved=0 Remote=yes\n"
        "    LastConsumed=0 LastDeficit=0 LastUpdate=N/A\n"
    )
    words = ["scontrol", "--json", "show", "lic"]
    flu = json.loads(run_command(monkeypatch, cluster, "root", words).stdout)["licenses"][1]
    assert (flu["Free"], flu["LastDeficit"], flu["LastUpdate"]) == (15, 5, 1_700_000_000)


@pytest.mark.parametrize("entity", ["config", "topology", "hostnames"])
def test_json_is_refused_where_there_is_none(entity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that asked for JSON is told; it does not get text."""
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", "--json", "show", entity])
    said = f"scontrol: error: --json is not available for show {entity}\n"
    assert (printed.stdout, printed.stderr, printed.code) == ("", said, 1)


@pytest.mark.parametrize(
    ("flag", "word"), [(REQ_GRES_ENFORCE_BIND, "Yes"), (REQ_GRES_DISABLE_BIND, "No"), (0, "")]
)
def test_how_devices_and_cores_belong_together(
    flag: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--gres-flags and --ntasks-per-gpu have lines of their own, as in Slurm 22.05."""
    reference = queue()
    reference.submit(
        90, "alice", "12:10:00", "gpus", flags=flag, gres="gpu:2", ntasks_per_gpu=2 * bool(flag)
    )
    shown = run_command(monkeypatch, reference, "alice", ["scontrol", "show", "job", "90"]).stdout
    assert (f"   GresEnforceBind={word}\n" in shown, "   NtasksPerTRES=2\n" in shown) == (
        (True, True) if flag else (False, False)
    )


def test_a_users_words_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An account or wckey of a job is any text, and its limits are shown to administrators."""
    printer = assoc_mgr._Printer(["cpu"], "demo", is_oneliner=False)
    printer.section("QOS", "QOS", [["      \x1b]0;x\x07a\u202e\nQOS=forged", "second"]])
    assert capsys.readouterr().out == "\nQOS Records\n\n      ?]0;x?a??QOS=forged\n    second\n"
