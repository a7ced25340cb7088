"""Reservations are made and shown as Slurm made and showed them."""

from __future__ import annotations

import calendar
import json

import pytest

from pyslurm_ng.cli.control.reservation_values import complaint
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.reservation import reservation_due
from tests.cli.reference_cluster import ReferenceCluster, cases, queue
from tests.cli.run_command import Printed, run_command

RECORDED = {
    case[0]: case
    for folder in ("scontrol", "sinfo", "errors")
    for case in cases(folder)
    if "reservation" in case[0]
}


def run(patch: pytest.MonkeyPatch, reference: ReferenceCluster, line: str) -> Printed:
    """Run a command line as root."""
    return run_command(patch, reference, "root", line.split())


def with_reservations(patch: pytest.MonkeyPatch) -> ReferenceCluster:
    """Return the cluster with the two recorded reservations, made by the recorded commands."""
    reference = queue()
    for name in ("create_reservation", "create_reservation_acct"):
        _, user, words, stdout, stderr, code = RECORDED[name]
        printed = run_command(patch, reference, user, words)
        assert printed == Printed(stdout, stderr, code)
    return reference


@pytest.mark.parametrize("name", ["reservation", "reservation_oneliner", "T_reservations"])
def test_shows_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same lines, with the nodes that Slurm chose."""
    reference = with_reservations(monkeypatch)
    _, user, words, stdout, stderr, code = RECORDED[name]
    assert run_command(monkeypatch, reference, user, words) == Printed(stdout, stderr, code)


def test_none_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, user, words, stdout, stderr, code = RECORDED["reservation_none"]
    assert run_command(monkeypatch, queue(), user, words) == Printed(stdout, stderr, code)


@pytest.mark.parametrize("line", ["scontrol show reservation --json", "sinfo -T --json"])
def test_json_has_every_field(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands print Slurm's object."""
    printed = run(monkeypatch, with_reservations(monkeypatch), line)
    document = json.loads(printed.stdout)
    first = document["reservations"][0]
    start_s = calendar.timegm((2030, 2, 1, 8, 0, 0))
    assert first["start_time"] == {"set": True, "infinite": False, "number": start_s}
    assert first["flags"] == ["MAINT", "IGNORE_JOBS", "SPEC_NODES"]
    assert (first["node_list"], first["core_count"], first["users"]) == ("n4", 16, "root")
    assert document["errors"] == []


def test_update_and_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists and times can be edited; what is gone is not found."""
    reference = with_reservations(monkeypatch)
    line = "scontrol update reservationname=physics_2 accounts+=chem duration=2:00:00 flags=DAILY"
    assert run(monkeypatch, reference, line) == Printed("Reservation updated.\n", "", 0)
    reservation = reference.cluster.reservations["physics_2"]
    assert reservation.accounts == ("physics", "chem")
    assert reservation.end_us - reservation.start_us == 2 * 3_600_000_000
    assert len(reservation.later) == 59
    assert run(monkeypatch, reference, "scontrol delete reservation=maint").code == 0
    printed = run(monkeypatch, reference, "scontrol delete ReservationName=maint")
    text = "delete_reservation ReservationName=maint: Requested reservation is invalid\n"
    assert printed == Printed("", text, 1)
    printed = run(monkeypatch, reference, "scontrol show reservation maint")
    assert printed.code == 1


PLACE = "scontrol create reservation starttime=2031-01-01T00:00:00 users=root"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            f"{PLACE} duration=60 nodes=n9",
            "Error creating the reservation: Invalid node name specified",
        ),
        (
            f"{PLACE} duration=60 nodes=n1 users=nosuchuser_",
            "Error creating the reservation: Invalid user id",
        ),
        (f"{PLACE} duration=x nodes=n1",
         "scontrol: error: Invalid duration duration=x.  No reservation created."),
        (f"{PLACE} duration=5 nodes=n1 maxstartdelay=x",
         "scontrol: error: Invalid duration maxstartdelay=x.  No reservation created."),
        (f"{PLACE} duration=5 node=n1",
         "scontrol: error: Unknown parameter node=n1.  No reservation created."),
        (f"{PLACE} duration=5 nodecnt=x", "scontrol: error: Invalid node count x"),
        (f"{PLACE} duration=5 corecnt=1x", "scontrol: error: Invalid core count 1x"),
        (f"{PLACE} duration=5 tres=x", "scontrol: error: invalid TRES 'x'"),
        (f"{PLACE} duration=5 tres=cpu=x", "scontrol: error: invalid TRES cpu value 'x'"),
        (f"{PLACE} duration=5 tres=foo=2",
         "scontrol: error: couldn't identify configured TRES 'foo'"),
        (
            f"{PLACE} duration=5 nodecnt=1 groups=root",
            "scontrol: error: Users and Groups are mutually exclusive.  You can have one or the "
            "other, but not both.  No reservation created.",
        ),
        (
            "scontrol update reservation=b nodecnt+=1",
            "scontrol: error: The +=/-= notation is not supported when updating nodecnt.  "
            "No reservation update.",
        ),
        (f"{PLACE} duration=5 nodes=n1 flags=x",
         "scontrol: error: Error parsing flags x.  No reservation created."),
        (f"{PLACE} endtime=2030-01-01 nodes=n1",
         "scontrol: error: Start time cannot be after end time.  No reservation created."),
        (f"{PLACE} duration=5",
         "scontrol: error: CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or TRES must be "
         "specified.  No reservation created."),
        (f"{PLACE} duration=5 nodes=n1 x",
         "scontrol: error: Misformatted parameter 'x', most options have a parameter after '='.  "
         "No reservation created."),
        ("scontrol create reservation starttime= duration=5 users=root nodes=n1",
         "Error creating the reservation: Invalid time specified"),
        ("scontrol create reservation starttime=2031-01-01 duration=5 groups=nosuch_ nodes=n1",
         "Error creating the reservation: Invalid group id"),
        ("scontrol create reservation starttime=x duration=5 users=root nodes=n1",
         "Invalid time specification (pos=0): x\n"),
        (f"{PLACE} nodes=n1",
         "scontrol: error: An end time or duration must be given.  No reservation created."),
        (
            "scontrol create reservation duration=5 users=root nodes=n1",
            "scontrol: error: A start time must be given.  No reservation created.",
        ),
        (f"{PLACE} duration=60 nodes=n1 colour=red",
         "scontrol: error: Unknown parameter colour=red.  No reservation created."),
        (
            "scontrol create reservation starttime=2031-01-01 duration=60 nodes=n1",
            "scontrol: error: Either Users/Groups and/or Accounts must be specified.  "
            "No reservation created.",
        ),
        *(
            (
                f"{PLACE} duration=60 users=root flags=weekly,part_nodes {what}",
                "scontrol: error: PART_NODES flag requires specifying a Partition and ALL nodes.  "
                "No reservation created.",
            )
            for what in ("nodes=ALL", "partition=debug nodecnt=1", "partition=debug nodes=n1")
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_its_line(line: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1, one line that names what is wrong, and nothing is made."""
    reference = queue()
    printed = run(monkeypatch, reference, line)
    assert (printed.stdout, printed.code) == ("", 1)
    assert printed.stderr.splitlines()[0] == text.splitlines()[0]
    assert not reference.cluster.reservations


def test_a_burst_buffer_alone_is_kept_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Slurm does where BurstBufferType is not set."""
    reference = queue()
    line = f"{PLACE} duration=60 burstbuffer=100GB flags=any_nodes reservation=b"
    assert run(monkeypatch, reference, line).code == 0
    shown = run(monkeypatch, reference, "scontrol show reservation b").stdout
    assert "Nodes=(null) NodeCnt=0" in shown and "BurstBuffer=100GB" in shown
    shown = run(monkeypatch, reference, "scontrol show reservation --json").stdout
    assert json.loads(shown)["reservations"][0]["burst_buffer"] == "100GB"
    for entity in ("burst", "bbstat", "dwstat"):
        assert run(monkeypatch, reference, f"scontrol show {entity}") == Printed("", "", 0)


def test_json_says_what_the_text_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may use it, and the comment."""
    reference = queue()
    line = f"{PLACE} duration=60 nodes=n1 allowedpartitions=gpu comment=why reservation=b"
    assert run(monkeypatch, reference, line).code == 0
    shown = run(monkeypatch, reference, "scontrol show reservation --json").stdout
    first = json.loads(shown)["reservations"][0]
    assert (first["allowed_partitions"], first["comment"], first["qos"]) == ("gpu", "why", "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("endtime=", "Error updating the reservation: Invalid time specified"),
        ("NodeC+=1", "scontrol: error: The +=/-= notation is not supported when updating "
                     "NodeC.  No reservation update."),
        ("node=n2", "scontrol: error: Unknown parameter node=n2.  No reservation update."),
    ],
)  # fmt: skip
def test_what_an_update_refuses(words: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen beside Slurm 22.05; `node=` in a line about a reservation is no node to change."""
    reference = queue()
    assert run(monkeypatch, reference, f"{PLACE} duration=60 nodes=n1 reservation=b").code == 0
    printed = run(monkeypatch, reference, f"scontrol update reservation=b {words}")
    assert (printed.stderr.splitlines()[0], printed.code) == (text, 1)


def test_node_of_a_new_partition_is_short_for_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = queue()
    assert run(monkeypatch, reference, "scontrol create partitionname=new node=n1").code == 0
    assert "Nodes=n1\n" in run(monkeypatch, reference, "scontrol show partition new").stdout


def test_a_refused_update_prints_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Slurm 22.05 does.

    Another partition is a field of the reservation, not the thing to update.
    """
    reference = queue()
    assert run(monkeypatch, reference, f"{PLACE} duration=60 nodes=n1 reservation=b").code == 0
    text = "Invalid partition name specified\n"
    line = "scontrol update reservation=b partitionname=nosuch"
    assert run(monkeypatch, reference, line) == Printed(
        "", f"Error updating the reservation: {text}slurm_update error: {text}", 1
    )
    assert run(monkeypatch, reference, "scontrol update reservation=b partitionname=gpu").code == 0


def test_too_few_nodes_of_the_partition_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two more lines on stdout, as in Slurm, unless nodes were named."""
    printed = run(monkeypatch, queue(), f"{PLACE} duration=60 nodecnt=5")
    assert printed.stdout == (
        "Note, unless nodes are directly requested a reservation must exist in a single "
        "partition.\nIf no partition is requested the default partition is assumed.\n"
    )
    assert printed.stderr == "Error creating the reservation: Requested nodes are busy\n"


def test_overlap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = with_reservations(monkeypatch)
    line = "scontrol create reservation start=2030-03-01T11:00:00 duration=60 nodes=n3 users=root"
    text = (
        "Error creating the reservation: Requested reservation overlaps with another reservation\n"
    )
    assert run(monkeypatch, reference, line) == Printed("", text, 1)
    assert run(monkeypatch, reference, f"{line} flags=OVERLAP").code == 0


def test_nodes_show_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """scontrol names the reservation and its flags, sinfo marks maintenance."""
    reference = queue()
    line = "scontrol create res start=now duration=60 nodes=n2 users=root flags=maint reservation=m"
    monkeypatch.setattr("time.time", lambda: reference.now_us / 1e6)
    assert run(monkeypatch, reference, line) == Printed("Reservation created: m\n", "", 0)
    due = reservation_due.due(reference.cluster, reference.conf, reference.now_us, UTC)
    reference.apply(due)
    shown = run(monkeypatch, reference, "scontrol show node n2").stdout
    assert "State=IDLE+MAINTENANCE+RESERVED" in shown
    assert "\n   ReservationName=m" in shown
    states = run(monkeypatch, reference, "sinfo -h -N -n n2 -o %T").stdout
    assert set(states.split()) == {"maint"}


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("Users=nosuchuser_", "Error updating the reservation: Invalid user id\n"
         "slurm_update error: Invalid user id\n"),
        ("x=y", "scontrol: error: Unknown parameter x=y.  No reservation update.\n"),
        ("Skip=1", "scontrol: error: Unknown parameter Skip=1.  No reservation update.\n"),
        ("Flags-=x", "scontrol: error: Error parsing flags -x.  No reservation update.\n"),
        ("EndTime=x", "Invalid time specification (pos=0): x\n"
         "scontrol: error: Invalid end time EndTime=x.  No reservation update.\n"),
    ],
)  # fmt: skip
def test_bad_updates(words: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = with_reservations(monkeypatch)
    name = next(iter(reference.cluster.reservations.values())).name
    line = f"scontrol update ReservationName={name} {words}"
    assert run(monkeypatch, reference, line) == Printed("", lines, 1)


@pytest.mark.parametrize(
    ("value", "said"),
    [("2", ""), ("1,2", ""), ("1k", ""), ("2M,3", ""), ("1x", "Invalid node count 1x"),
     ("k", "Invalid node count k"), ("1,-2", "Invalid node count 1,-2")],
)  # fmt: skip
def test_counts_of_nodes_take_suffixes(value: str, said: str) -> None:
    """Counts may be several, each with k or m behind it."""
    assert complaint("nodecnt", f"nodecnt={value}", value) == said
