"""A SLUID stands for the id of its job in every command, and commands show it."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.sluid import sluid_text
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import run_command

RUNNING, WAITING = 21, 24


def both(reference: ReferenceCluster, words: list[str], job_id: int) -> list[list[str]]:
    """Return a command with a job's id, and with its SLUID."""
    sluid = sluid_text(reference.cluster.jobs[job_id].sluid)
    return [[word.replace("ID", text) for word in words] for text in (str(job_id), sluid)]


@pytest.mark.parametrize(
    ("words", "job_id"),
    [
        (["squeue", "-j", "ID"], RUNNING),
        (["squeue", "-s", "-j", "ID"], RUNNING),
        (["squeue", "--steps=ID.0"], RUNNING),
        (["scontrol", "show", "job", "ID"], RUNNING),
        (["scontrol", "show", "step", "ID"], RUNNING),
        (["scontrol", "-d", "show", "step", "ID.0"], RUNNING),
        (["sprio", "-j", "ID"], WAITING),
    ],
)
def test_queries_take_sluids(
    words: list[str], job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is printed is the same."""
    reference = queue()
    by_id, by_sluid = (
        run_command(monkeypatch, reference, "root", command_line)
        for command_line in both(reference, words, job_id)
    )
    assert by_id.code == by_sluid.code == 0
    assert by_id.stdout == by_sluid.stdout
    assert len(by_id.stdout.splitlines()) > 1


@pytest.mark.parametrize(
    ("words", "job_id"),
    [
        (["scontrol", "hold", "ID"], WAITING),
        (["scontrol", "update", "jobid=ID", "comment=x"], WAITING),
        (["scontrol", "suspend", "ID"], RUNNING),
        (["scontrol", "requeue", "ID"], RUNNING),
        (["scontrol", "requeuehold", "ID"], RUNNING),
        (["scancel", "ID"], WAITING),
    ],
)
def test_changes_take_sluids(
    words: list[str], job_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same is done."""
    digests = set()
    for index in (0, 1):
        reference = queue()
        before = reference.cluster.digest()
        printed = run_command(monkeypatch, reference, "root", both(reference, words, job_id)[index])
        assert printed.code == 0, printed
        assert reference.cluster.digest() != before
        digests.add(reference.cluster.digest())
    assert len(digests) == 1


def test_a_requeue_gives_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The former one names no job that slurmctld has; squeue and sprio show the new one."""
    reference = queue()
    job = reference.cluster.jobs[RUNNING]
    before = sluid_text(job.sluid)
    job.steps.clear()
    now_us = reference.now_us
    apply_all(
        reference.cluster,
        [
            ev.JobCompleting(now_us, RUNNING, 7, 0, 0, 1, (), 1 << 10),
            ev.JobRequeued(now_us, RUNNING, 1, 0),
        ],
    )
    assert run_command(monkeypatch, reference, "root", ["squeue", "-j", before]).code == 1
    words = ["squeue", "-h", "-O", "SLUID", "-j", str(RUNNING)]
    after = run_command(monkeypatch, reference, "root", words).stdout.strip()
    assert after == sluid_text(job.sluid) != before
    printed = run_command(monkeypatch, reference, "root", ["sprio", "-h", "-o", "%i %s"])
    assert f"{RUNNING} {after}" in printed.stdout


@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        (["squeue", "-j", "s123"], "squeue: error: Invalid job id: s123\n"),
        (["sprio", "-j", "s123"], "sprio: error: Invalid job id: s123\n"),
        (
            ["scontrol", "hold", "s123"],
            "Invalid job id specified for job s123\nslurm_suspend error:Invalid job id specified\n",
        ),
        (["scancel", "s123"], "scancel: error: Invalid job id s123\n"),
    ],
)
def test_texts_that_are_none_are_refused(
    words: list[str], stderr: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run_command(monkeypatch, queue(), "root", words)
    assert (printed.stderr, printed.code) == (stderr, 1)
