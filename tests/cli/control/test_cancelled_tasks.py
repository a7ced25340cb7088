"""Tasks of an array that were cancelled while they waited have no record in Slurm."""

from __future__ import annotations

import pytest

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from tests.cli.reference_cluster import queue
from tests.cli.run_command import run_command


def test_a_task_cancelled_while_it_waited_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others of its array are shown as before."""
    reference = queue()
    cluster = reference.cluster
    array = next(job for job in cluster.jobs.values() if job.array_pending)
    array_id, task = array.array_job_id, array.array_pending[0][0]
    now_us, job_id = reference.now_us, cluster.next_job_id
    apply_all(
        cluster,
        [ev.ArrayTaskSplit(now_us, array_id, task, job_id), ev.JobEnded(now_us, job_id, 4)],
    )
    words = ["scontrol", "show", "job", f"{array_id}_{task}"]
    printed = run_command(monkeypatch, reference, "root", words)
    assert (printed.stdout, printed.code) == (f"Job {array_id}_{task} not found\n", 1)
    words = ["scontrol", "show", "job", f"{array_id}_{task},{array_id}"]
    printed = run_command(monkeypatch, reference, "root", words)
    assert f"ArrayJobId={array_id}" in printed.stdout and printed.code == 0
    assert f"JobId={job_id} " not in printed.stdout


def test_a_task_that_its_array_does_not_have_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that is not there is an error."""
    reference = queue()
    array = next(job for job in reference.cluster.jobs.values() if job.array_pending)
    words = ["scontrol", "show", "job", f"{array.array_job_id}_987"]
    printed = run_command(monkeypatch, reference, "root", words)
    assert (printed.stdout, printed.code) == (f"Job {array.array_job_id}_987 not found\n", 1)
    printed = run_command(monkeypatch, reference, "root", ["scontrol", "show", "job", "987_1"])
    assert printed.stderr == "slurm_load_jobs error: Invalid job id specified\n"


def test_no_task_is_waited_for_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says it."""
    reference = queue()
    array = next(job for job in reference.cluster.jobs.values() if job.array_pending)
    words = ["scontrol", "wait_job", f"{array.array_job_id}_987"]
    printed = run_command(monkeypatch, reference, "root", words)
    text = f"scontrol: Problem running job {array.array_job_id}_987\n"
    assert (printed.stdout, printed.stderr, printed.code) == ("", text, 1)
