"""squeue, scontrol and JSON tell the same reason, in Slurm's words where it has some."""

from __future__ import annotations

import json

import pytest

from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.frame.plan import Wait
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import run_command

AWAY = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def waiting_with(wait: Wait) -> tuple[ReferenceCluster, int]:
    """The reference queue; the last pass had this to say of one of its jobs."""
    reference = queue()
    job_id = next(
        job.job_id
        for job in reference.cluster.jobs.values()
        if job.state == JobState.PENDING and not job.reason and not job.array_pending
        and not job.het_job_id
    )  # fmt: skip
    assert isinstance(reference.soft.reason, dict)
    reference.soft.reason[job_id] = wait
    return reference, job_id


@pytest.mark.parametrize(
    ("wait", "shown", "code", "description"),
    [
        (Wait(Reason.Resources, "needs 4 nodes"), "Resources", "Resources", ""),
        (Wait(Reason.Resources, "needs 4 nodes", AWAY), AWAY, "Resources", AWAY),
        (
            Wait(Reason.ReqNodeNotAvail, "n4", "ReqNodeNotAvail, UnavailableNodes:n4"),
            "ReqNodeNotAvail, UnavailableNodes:n4",
            "ReqNodeNotAvail",
            "ReqNodeNotAvail, UnavailableNodes:n4",
        ),
    ],
)
def test_all_say_the_same(
    wait: Wait, shown: str, code: str, description: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm 22.05 prints it: underscores in scontrol, both the name and the words in JSON."""
    reference, job_id = waiting_with(wait)

    def out(*words: str) -> str:
        return run_command(monkeypatch, reference, "root", list(words)).stdout

    assert out("squeue", "-h", "-j", str(job_id), "-o", "%r|%R") == f"{shown}|({shown})\n"
    told = out("scontrol", "show", "job", str(job_id))
    assert f" Reason={shown.replace(' ', '_')} " in told
    (job,) = json.loads(out("squeue", "--json", "-j", str(job_id)))["jobs"]
    assert (job["state_reason"], job["state_description"]) == (code, description)
