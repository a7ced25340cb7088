"""PrivateData: each word hides others' records in each command that shows them."""

from __future__ import annotations

import dataclasses

import pytest

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, UserRecord
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from tests.cli.reference_cluster import ReferenceCluster, at, queue
from tests.cli.run_command import Printed, run_command

WORDS = ("jobs", "nodes", "partitions", "reservations", "usage", "users", "accounts", "events")
OWN = {"usage", "users"}
# Of each command: what shows a record that is alice's (or for nobody), and the words that hide it.
TABLE = (
    (["squeue", "-h", "-o", "x%Ax"], "x22x", {"jobs"}),
    (["squeue", "-h", "-O", "JobID", "--only-job-state"], "22", {"jobs"}),
    (["squeue", "-h", "-j", "22", "-o", "x%Ax"], "x22x", {"jobs"}),
    (["squeue", "-s", "-h"], "22.batch", {"jobs"}),
    (["squeue", "--json"], '"train"', {"jobs"}),
    (["sprio", "-h"], "             27 ", {"jobs"}),
    (["scontrol", "show", "jobs"], "JobName=train", {"jobs"}),
    (["scontrol", "show", "job", "22"], "JobName=train", {"jobs"}),
    (["scontrol", "show", "job", "22", "--json"], '"train"', {"jobs"}),
    (["scontrol", "show", "steps"], "StepId=22.batch", {"jobs"}),
    (["scontrol", "show", "step", "22.batch"], "StepId=22.batch", {"jobs"}),
    (["scontrol", "show", "nodes"], "NodeName=n1 ", {"nodes"}),
    (["scontrol", "show", "node", "n1"], "NodeName=n1 ", {"nodes"}),
    (["scontrol", "show", "nodes", "--json"], '"n1"', {"nodes"}),
    (["sinfo", "-h", "-N", "-o", "%N"], "n1", {"nodes"}),
    (["sinfo", "-h", "-a", "-o", "x%Rx"], "xhersx", {"partitions"}),
    (["scontrol", "-a", "show", "partitions"], "PartitionName=hers", {"partitions"}),
    (["scontrol", "-a", "show", "partition", "hers"], "PartitionName=hers", {"partitions"}),
    (["scontrol", "show", "reservations"], "ReservationName=alices", {"reservations"}),
    (["scontrol", "show", "reservation", "alices"], "ReservationName=alices", {"reservations"}),
    (["sinfo", "-T"], "alices", {"reservations"}),
    (["sshare", "-a", "-P"], "|alice|", OWN),
    (["sshare", "-a", "--json"], '"alice"', OWN),
    (["scontrol", "show", "assoc_mgr", "flags=assoc"], "UserName=alice", OWN),
    (["scontrol", "show", "assoc_mgr", "flags=users"], "UserName=alice", {"users"}),
)
NAMED = {
    "step": "slurm_get_job_steps error: Invalid job id specified\n",
    "node": "Node n1 not found\n",
    "partition": "Partition hers not found\n",
    "reservation": "Reservation alices not found\n",
}
"""What scontrol says of one record that is hidden, as of one that does not exist."""


@pytest.fixture(scope="module")
def site() -> ReferenceCluster:
    """The reference queue, with a partition, a reservation and an association of alice."""
    reference = queue()
    partition = Partition("hers", node_ids=(0,), nodes_text="n1", allow_groups=("alice",))
    reservation = Reservation("alices", at("12:00:00"), at("13:00:00"), (0,), users=("alice",))
    tree = (
        Association(1, "root", lineage="/"),
        Association(2, "physics", parent_id=1, lineage="/physics/"),
        Association(3, "physics", "alice", parent_id=2, lineage="/physics/0-alice/"),
        Association(4, "physics", "bob", parent_id=2, lineage="/physics/0-bob/"),
    )
    users = (UserRecord("alice", "physics"), UserRecord("bob", "physics"))
    reference.apply(
        [
            ev.PartitionUpdated(at("12:08:00"), partition),
            ev.ReservationCreated(at("12:08:00"), reservation),
            ev.AssocChanged(at("12:08:00"), changed=tree, users=users, version=1),
        ]
    )
    return reference


def seen_by(
    site: ReferenceCluster,
    patch: pytest.MonkeyPatch,
    user: str,
    hidden: tuple[str, ...],
    words: list[str],
) -> Printed:
    """Return what a command prints for a user with some words of PrivateData."""
    site.conf = dataclasses.replace(site.conf, private_data=hidden)
    return run_command(patch, site, user, words)


@pytest.mark.parametrize(
    ("words", "sign", "hiding"), TABLE, ids=[" ".join(row[0]) for row in TABLE]
)
def test_a_record_is_hidden_by_its_words_alone(
    site: ReferenceCluster,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    sign: str,
    hiding: set[str],
) -> None:
    """From others; its owner and root see it. Nodes are for operators, as are partitions of groups
    in which no user of the recordings is."""
    for hidden in WORDS:
        printed = seen_by(site, monkeypatch, "bob", (hidden,), words)
        assert (sign in printed.stdout) == (hidden not in hiding), (hidden, printed)
        assert "Traceback" not in printed.stderr
    for user in ("root",) if hiding & {"nodes", "partitions"} else ("alice", "root"):
        printed = seen_by(site, monkeypatch, user, WORDS, words)
        assert sign in printed.stdout, (user, printed)


@pytest.mark.parametrize(
    "words",
    [row[0] for row in TABLE if row[0][-2] in NAMED],
    ids=" ".join,
)
def test_a_hidden_record_is_not_found(
    site: ReferenceCluster, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """scontrol tells no difference between hidden and unknown: exit code 1."""
    printed = seen_by(site, monkeypatch, "bob", WORDS, words)
    assert (printed.stdout + printed.stderr, printed.code) == (NAMED[words[-2]], 1)


def test_a_hidden_job_is_unknown(site: ReferenceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its id were free: neither a table nor a task of it tells that it is there."""
    for job_id in ("22", "22_1", "999"):
        for words in (["squeue", "-j", job_id], ["scontrol", "show", "job", job_id]):
            printed = seen_by(site, monkeypatch, "bob", ("jobs",), words)
            assert (printed.stdout, printed.code) == ("", 1)
            assert printed.stderr == "slurm_load_jobs error: Invalid job id specified\n"
