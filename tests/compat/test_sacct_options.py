"""What each option of sacct chooses, or changes in what is printed.

Two jobs that differ in everything: each filter that fits the second alone has to leave it alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import msgspec
import pytest

from pyslurm_ng.dbd import registration
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import Reason
from pyslurm_ng.wire.dbd_messages import RegisterCluster
from tests.cli.accounting_commands import Commands
from tests.dbd.accounting_room import (
    JOURNAL,
    Room,
    at,
    configured,
    finished,
    manage,
    on,
    record,
    serving,
    started,
    submitted,
)
from tests.world.people import know_people

T = at("12:00:00")
RAN = at("12:00:01")
OVER = at("12:10:00")
SCRIPT = b"#!/bin/sh\nexec train\n"
ENVIRONMENT = b"HOME=/home/bob\0LANG=C\0"


def story() -> Iterator[list[ev.AnyEvent]]:
    """Job 1 of alice, job 2 of bob, array 12 that waits, job 30 of two components."""
    yield [configured(T)]
    yield [submitted(T, 1, name="plain", constraint="big")]
    yield started(RAN, 1, on(1))
    yield finished(OVER, 1, 3, 0)
    texts = [ev.ScriptStored(T, "s2", SCRIPT), ev.ScriptStored(T, "e2", ENVIRONMENT)]
    plain = submitted(
        T, 2, name="other", constraint="ib&fast", wckey="green", ntasks=5, nodes_min=2,
        time_limit_min=600,
    )  # fmt: skip
    other = {
        "uid": 1002, "gid": 1002, "user_name": "bob", "group_name": "bob", "account": "chem",
        "qos": "high", "assoc_id": 6, "partition": "gpu", "script_hash": "s2", "env_hash": "e2",
    }  # fmt: skip
    yield [*texts, msgspec.structs.replace(plain, **other)]
    granted, batch = started(RAN, 2, on(2, 2), on(3, 3), partition="gpu")
    assert isinstance(granted, ev.JobAllocated)
    because = msgspec.structs.replace(granted, scheduler="Backfill", waited_for=Reason.Dependency)
    yield [because, batch]
    yield finished(OVER, 2, 5, 1 << 8)
    yield [submitted(T, 12, name="sweep", array_pending=((1, 3, 1),), eligible_us=RAN)]
    for offset in (0, 1):
        component = submitted(T, 30 + offset, name="het")
        yield [msgspec.structs.replace(component, het_job_id=30, het_offset=offset)]
        yield started(RAN, 30 + offset, on(4))
        yield finished(OVER, 30 + offset, 3, 0)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A slurmdbd with the jobs of `story`, of a cluster that stores scripts and environments."""
    directory = tmp_path_factory.mktemp("d")
    database = Database(sqlite_url(f"{directory}/a.sqlite"))
    database.open()
    request = RegisterCluster(
        cluster="demo", control_host="127.0.0.1", control_port=6817, journal_id=JOURNAL,
        tres=["gres/gpu"], store_flags=["job_script", "job_env"],
    )  # fmt: skip
    registration.register(database, request)
    for events in story():
        record(database, *events)
    manage(database, "add qos high")
    with serving(database, directory) as served:
        yield served
    database.close()


@pytest.fixture
def sacct(
    room: Room, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Commands:
    know_people(monkeypatch)
    return Commands(room.conf_path, monkeypatch, capfd)


def lines(sacct: Commands, *words: str) -> list[str]:
    """Return what sacct prints without headings, and nothing else."""
    printed = sacct.run("sacct", "-n", *words)
    assert (printed.stderr, printed.code) == ("", 0)
    return printed.stdout.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        "--accounts=chem",
        "--associations=6",
        "--constraints=ib",
        "--flags=SchedBackfill",
        "--gid=1002",
        "--group=1002",
        "--ncpus=5",
        "--ncpus=4-6",
        "--nnodes=2",
        "--nnodes=2-3",
        "--nodelist=n[3-4]",
        "--partition=gpu",
        "--qos=high",
        "--reason=Dependency",
        "--timelimit-min=600",
        "--timelimit-min=300 --timelimit-max=700",
        "--uid=1002",
        "--user=1002",
        "--wckeys=green",
    ],
)
def test_a_filter_leaves_what_it_names(sacct: Commands, words: str) -> None:
    """Of jobs 1 and 2 only the second; by its letter, too, where the option has one."""
    both = ("-X", "-P", "-o", "jobid", "-j", "1,2")
    assert lines(sacct, *both) == ["1", "2"]
    assert lines(sacct, *both, *words.split()) == ["2"]


def test_jobs_of_oneself_or_of_all(sacct: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """--allusers; without it only root sees others' jobs."""
    words = (
        "-X",
        "-P",
        "-o",
        "jobid",
        "-S",
        "2026-11-20",
        "-E",
        "2026-11-21",
        "--name=plain,other",
    )
    monkeypatch.setattr(os, "getuid", lambda: 1002)
    assert lines(sacct, *words) == ["2"]
    assert lines(sacct, *words, "--allusers") == ["1", "2"]


def test_a_limit_from_above(sacct: Commands) -> None:
    """--timelimit-max bounds a range that --timelimit-min begins."""
    words = ("-X", "-P", "-o", "jobid", "-j", "1,2", "--timelimit-min=10")
    assert lines(sacct, *words, "--timelimit-max=100") == ["1"]
    assert lines(sacct, *words, "--timelimit-max=1000") == ["1", "2"]


def test_waiting_tasks_in_one_line_or_each_in_its_own(sacct: Commands) -> None:
    """--array."""
    words = ("-X", "-P", "-o", "jobid", "-j", "12")
    assert lines(sacct, *words) == ["12_[1-3]"]
    assert lines(sacct, *words, "--array") == ["12_1", "12_2", "12_3"]


def test_one_component_or_the_whole_job(sacct: Commands) -> None:
    """--whole-hetjob; `no` shows the components that are named, also if that is the leader."""
    words = ("-X", "-P", "-o", "jobid", "-j", "30+1")
    assert lines(sacct, *words) == ["30+1"]
    assert lines(sacct, *words, "--whole-hetjob=no") == ["30+1"]
    assert lines(sacct, *words, "--whole-hetjob") == ["30+0", "30+1"]
    assert lines(sacct, *words, "--whole-hetjob=yes") == ["30+0", "30+1"]
    leader = (*words[:-1], "30")
    assert lines(sacct, *leader) == ["30+0", "30+1"]
    assert lines(sacct, *leader, "--whole-hetjob=no") == ["30+0"]


@pytest.mark.parametrize(
    ("words", "head"),
    [
        ("", "JobID JobName Partition Account AllocCPUS State ExitCode"),
        ("--brief", "JobID State ExitCode"),
        # The first and last of the 54 fields that the recorded `sacct -l` has.
        ("--long", "JobID JobIDRaw JobName Partition MaxVMSize ... 54 ... TRESUsageOutTot"),
    ],
)
def test_sets_of_fields(sacct: Commands, words: str, head: str) -> None:
    """--brief and --long, against the headings that Slurm printed."""
    printed = sacct.run("sacct", "-X", "-j", "2", *words.split()).stdout.splitlines()
    fields = printed[0].split()
    if "..." in head:
        assert " ".join([*fields[:5], "...", str(len(fields)), "...", fields[-1]]) == head
    else:
        assert " ".join(fields) == head


def test_bars_with_and_without_one_at_the_end(sacct: Commands) -> None:
    """--parsable ends each line with a bar."""
    words = ("-X", "-o", "jobid,jobname", "-j", "2")
    assert lines(sacct, *words, "--parsable") == ["2|other|"]
    assert lines(sacct, *words, "--parsable2") == ["2|other"]


def test_a_stored_script_and_environment(sacct: Commands) -> None:
    """--batch-script and --env-vars, between the lines that Slurm printed."""
    rule = "-" * 80
    assert lines(sacct, "--batch-script", "-j", "2") == [
        "Batch Script for 2", rule, "#!/bin/sh", "exec train",
    ]  # fmt: skip
    assert lines(sacct, "--env-vars", "-j", "2") == [
        "Environment used for 2 (must be batch to display)", rule, "HOME=/home/bob", "LANG=C",
    ]  # fmt: skip
    assert lines(sacct, "--batch-script", "-j", "1")[2:] == ["NONE"]
    assert lines(sacct, "--batch-script", "-j", "99") == []


def test_the_same_as_a_document(sacct: Commands) -> None:
    """--json has the filters, too."""
    printed = sacct.run("sacct", "--json", "-j", "1,2", "--qos=high")
    assert [job["job_id"] for job in json.loads(printed.stdout)["jobs"]] == [2]
