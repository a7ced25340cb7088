"""scontrol takes the name of a thing in every spelling that Slurm 22.05 takes, and no other."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import ReferenceCluster, queue
from tests.cli.run_command import Printed, run_command

RESERVATION = "starttime=2030-01-01 duration=10 users=root nodes=n4"
NO_ENTITY = (
    "No valid entity in update command\n"
    'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or '
    '"SlurmctldDebug"\n'
)
FORMAT = "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'\n"


def run(patch: pytest.MonkeyPatch, reference: ReferenceCluster, line: str) -> Printed:
    """Run a command line of scontrol as root."""
    return run_command(patch, reference, "root", ["scontrol", *line.split()])


PARTITION_KEYS = ["partition", "PartitionName", "part", "PARTITION", "partitionNa", "par"]
RESERVATION_KEYS = ["reservation", "ReservationName", "res", "RESERVATIONNAME"]


@pytest.mark.parametrize("key", PARTITION_KEYS)
def test_a_partition_by_any_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of many years write each of them."""
    reference = queue()
    assert run(monkeypatch, reference, f"create {key}=new Nodes=n1") == Printed("", "", 0)
    line = f"update MaxTime=7 {key}=new"
    assert run(monkeypatch, reference, line) == Printed("", "", 0)
    assert reference.cluster.partitions["new"].max_time_min == 7
    for line in (f"show {key}=new", f"show {key} new"):
        assert run(monkeypatch, reference, line).stdout.startswith("PartitionName=new\n")
    assert run(monkeypatch, reference, f"delete {key}=new") == Printed("", "", 0)
    assert "new" not in reference.cluster.partitions
    run(monkeypatch, reference, f"create Nodes=n1 {key}=new")
    assert run(monkeypatch, reference, f"delete {key} new") == Printed("", "", 0)


@pytest.mark.parametrize("key", RESERVATION_KEYS)
def test_a_reservation_by_any_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition beside it is that of the reservation."""
    reference = queue()
    made = run(monkeypatch, reference, f"create {key}=r1 {RESERVATION} partition=main")
    assert made == Printed("Reservation created: r1\n", "", 0)
    changed = run(monkeypatch, reference, f"update duration=20 partition=main {key}=r1")
    assert changed == Printed("Reservation updated.\n", "", 0)
    for line in (f"show {key}=r1", f"show {key} r1"):
        assert run(monkeypatch, reference, line).stdout.startswith("ReservationName=r1 ")
    assert run(monkeypatch, reference, f"delete {key} r1") == Printed("", "", 0)
    made = run(monkeypatch, reference, f"create {RESERVATION} {key}=r2")
    assert made == Printed("Reservation created: r2\n", "", 0)


@pytest.mark.parametrize("key", ["node", "NodeName", "nod", "NODENAM"])
def test_a_node_by_any_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = queue()
    assert run(monkeypatch, reference, f"update weight=9 {key}=n2") == Printed("", "", 0)
    assert reference.cluster.node(1).weight == 9


@pytest.mark.parametrize("words", ["job=23", "JobId=23", "JOB=23", "jobi=23", "jobid 23", "job 23"])
def test_a_job_by_any_key(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition and reservation are settings, and a bare id may follow the key."""
    reference = queue()
    assert run(monkeypatch, reference, f"update {words} comment=x") == Printed("", "", 0)
    assert reference.cluster.jobs[23].request.comment == "x"
    for line in ("show jobid 23", "show JobId=23", "show JOB 23", "show jobs 23", "show j 23"):
        assert run(monkeypatch, reference, line).stdout.startswith("JobId=23 ")


def test_a_job_by_name_may_get_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """JobName= with Reservation= changes the job, not the reservation or the partition."""
    reference = queue()
    run(monkeypatch, reference, f"create reservation=r1 {RESERVATION}")
    for setting in ("reservationname=r1", "partition=main"):
        answer = run(monkeypatch, reference, f"update jobname=nothing {setting}")
        assert "Reservation updated" not in answer.stdout
        assert answer.code == 1 and "job" in answer.stderr.lower()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("update", "too few arguments for update keyword\n"),
        ("create", "too few arguments for create keyword\n"),
        ("delete", "too few arguments for delete keyword\n"),
        ("update pa=main maxtime=10", NO_ENTITY),
        ("update partitions=main maxtime=10", NO_ENTITY),
        ("update nodes=n1 weight=3", NO_ENTITY),
        ("update re=r1 duration=10", NO_ENTITY),
        ("update jobs=23 nice=3", NO_ENTITY),
        ("update name=x", NO_ENTITY),
        ("create foo", "scontrol: error: Invalid creation entity: foo\n"),
        ("create p=x nodes=n1", "scontrol: error: Invalid creation entity: p=x\n"),
        ("create partitions=x", "scontrol: error: Invalid creation entity: partitions=x\n"),
        ("delete foo=1", "Invalid deletion entity: foo=1\n"),
        ("delete jobid=23", "Invalid deletion entity: jobid=23\n"),
        ("delete partitions=main", "Invalid deletion entity: partitions=main\n"),
        ("delete partition", FORMAT),
        ("delete partition a b", FORMAT),
        ("delete partition=main", "delete_partition partition=main: Partition is in use\n"),
        (
            "delete RES=r9",
            "delete_reservation RES=r9: Requested reservation is invalid\n",
        ),
        ("show nodename=n1", "invalid entity:nodename=n1 for keyword:show \n"),
        ("show jobname=x", "invalid entity:jobname=x for keyword:show \n"),
        ("show stepid=23.0", "invalid entity:stepid=23.0 for keyword:show \n"),
        ("show resv r1", "invalid entity:resv for keyword:show \n"),
        ("show host n1", "invalid entity:host for keyword:show \n"),
        ("show p", "invalid entity:p for keyword:show \n"),
        ("write foo", "invalid write argument:foo\n"),
        ("errnumstr", "one arguments required for keyword:errnumstr\n"),
        ("errnumstr 2 3", "one arguments required for keyword:errnumstr\n"),
        ("errnumstr x", "numeric arguments required for keyword:errnumstr\n"),
        ("show s", "invalid entity:s for keyword:show \n"),
        ("show l", "invalid entity:l for keyword:show \n"),
    ],
)
def test_other_words_are_refused_in_slurms_words(
    line: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, queue(), line) == Printed("", said, 1)


def test_a_license_that_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's exit code is 0 here, unlike for a job or a node."""
    assert run(monkeypatch, queue(), "show license nope").code == 0
