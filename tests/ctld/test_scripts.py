"""Scripts: kept once, as long as a job names them, and found again after a crash."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld import scripts
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.submission.submit import digest_of
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

SCRIPT = b"#!/bin/sh\ntrue\n"


def submitted(job_id: int, script: bytes = SCRIPT) -> ev.JobSubmitted:
    return ev.JobSubmitted(
        time_us=1, job_id=job_id, request=JobRequest(), uid=1, gid=1, user_name="u",
        group_name="g", account="", qos="", assoc_id=0, partition="p", time_limit_min=1,
        script_hash=digest_of(script),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ScriptStore:
    return ScriptStore(tmp_path / "scripts")


def test_the_same_content_is_journaled_once(store: ScriptStore) -> None:
    """A thousand jobs of one script cost one file and one event."""
    stored = store.put(SCRIPT, digest_of(SCRIPT), 1)
    store.applied([*stored, submitted(1)])
    assert len(stored) == 1
    assert store.put(SCRIPT, digest_of(SCRIPT), 2) == []
    assert store.get(digest_of(SCRIPT)) == SCRIPT


def test_no_script_is_no_file(store: ScriptStore) -> None:
    """salloc has none."""
    assert store.put(b"", digest_of(b""), 1) == []
    assert digest_of(b"") == ""
    assert store.get("") == b""


def test_a_file_goes_with_its_last_job_once_that_is_durable(store: ScriptStore) -> None:
    """Two jobs name it; the second purge lets it go, but only when it is on disk."""
    later: list[Callable[[], None]] = []
    store.when_durable = later.append
    store.applied([*store.put(SCRIPT, digest_of(SCRIPT), 1), submitted(1), submitted(2)])
    path = store.path(digest_of(SCRIPT))
    store.applied([ev.JobPurged(time_us=2, job_ids=(1,))])
    assert later == []
    store.applied([ev.JobPurged(time_us=2, job_ids=(2,))])
    assert path.exists()
    later[0]()
    assert not path.exists()


def test_a_file_named_again_meanwhile_stays(store: ScriptStore) -> None:
    """Between the purge and its durability a new job may bring the same script."""
    later: list[Callable[[], None]] = []
    store.when_durable = later.append
    store.applied([*store.put(SCRIPT, digest_of(SCRIPT), 1), submitted(1)])
    store.applied([ev.JobPurged(time_us=2, job_ids=(1,))])
    store.applied([*store.put(SCRIPT, digest_of(SCRIPT), 3), submitted(2)])
    later[0]()
    assert store.get(digest_of(SCRIPT)) == SCRIPT
    assert store.path(digest_of(SCRIPT)).exists()


def test_split_array_tasks_name_their_arrays_script(store: ScriptStore) -> None:
    """The script outlives the array's record while a task needs it."""
    store.applied([*store.put(SCRIPT, digest_of(SCRIPT), 1), submitted(1)])
    store.applied([ev.ArrayTaskSplit(time_us=2, array_job_id=1, task_id=0, job_id=2)])
    store.applied([ev.JobPurged(time_us=3, job_ids=(1,))])
    assert store.path(digest_of(SCRIPT)).exists()


def test_recovery_restores_lost_files_and_removes_strays(
    store: ScriptStore,
) -> None:
    """The journal has the content; files of refused or purged jobs are strays."""
    stray = store.put(b"stray", digest_of(b"stray"), 1)
    assert stray
    event = ev.ScriptStored(time_us=1, digest=digest_of(SCRIPT), content=SCRIPT)
    path = store.path(event.digest)
    path.write_bytes(b"#!/bin")
    store.restore(event)
    assert path.read_bytes() == SCRIPT
    assert store.begin(Cluster()) == []
    assert not path.exists()
    assert not store.path(digest_of(b"stray")).exists()


def test_a_full_disk_is_not_filled_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 6: half a script would take room for nothing, once for each refused job."""
    store, counts = ScriptStore(tmp_path / "scripts"), [10]

    def write(descriptor: int, content: bytes) -> int:
        if not counts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(content[: counts.pop()])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        store.put(SCRIPT, digest_of(SCRIPT), 1)
    assert [path for path in (tmp_path / "scripts").rglob("*") if path.is_file()] == []


def test_one_users_contents_have_a_bound(
    store: ScriptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user whose jobs all had another environment filled the state directory for everybody."""
    monkeypatch.setattr(scripts, "USUAL_BYTES", 10)
    monkeypatch.setattr(scripts, "MOST_BYTES", 100)
    monkeypatch.setattr(scripts, "MOST_BYTES_OF_EACH", 1)
    content, other = b"x" * 60, b"y" * 60
    store.applied(
        [*store.put(content, digest_of(content), 1), submitted(1, content), submitted(2, content)]
    )
    assert store.refusal(40, [1, 2], 1) == ""
    assert "script and environment: 41 bytes" in store.refusal(41, [1, 2], 1)
    assert store.refusal(10, [1, 2], 1) == ""
    assert store.refusal(41, [1, 2], 101) == ""
    store.applied([*store.put(other, digest_of(other), 1), submitted(3, other)])
    assert "jobs have 120 bytes; at most 100" in store.refusal(11, [1, 2, 3], 1)
    assert store.refusal(41, [3], 1) == store.refusal(41, [1], 1) != ""


def test_the_bound_is_asked_at_submission(
    store: ScriptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written; operators have none."""
    monkeypatch.setattr(scripts, "USUAL_BYTES", 10)
    monkeypatch.setattr(scripts, "MOST_BYTES", 100)
    monkeypatch.setattr(scripts, "MOST_BYTES_OF_EACH", 1)
    service = Service.__new__(Service)
    service._scripts = store
    cluster, conf = cluster_of(), conf_of(FOUR_NODES + "MaxJobCount=1\n")
    message = SubmitJob(bytes(16), JobRequest(), b"#!" + bytes(60), b"A=" + bytes(60))

    def ask(*, is_operator: bool) -> Decision | Reject:
        caller = Caller(1001, 1001, "alice", is_operator=is_operator)
        context = Context(conf, START_US, caller)
        decision = Decision(events=[submitted(1, message.script)])
        return service._with_scripts(lambda *_: decision, cluster, message, context)

    refused = ask(is_operator=False)
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_ACCOUNTING_POLICY
    assert not store.path(digest_of(message.script)).exists()
    assert isinstance(ask(is_operator=True), Decision)
    assert store.path(digest_of(message.script)).exists()
