"""What users call their things sends nothing to the terminal of those who list them."""

from __future__ import annotations

import pytest

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Qos, UserRecord
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from tests.cli.reference_cluster import ReferenceCluster, at, queue
from tests.cli.run_command import run_command

TEXT = "x\x1b[2J\x1b]0;root\x07\x9b31m\u202eabc\u2028\r\x7f\u200b"
LISTINGS = (
    ["squeue", "-o", "%all"],
    ["squeue", "-O", "Name,Comment,WCKey,Account,WorkDir,Command,Network"],
    ["squeue", "--json"],
    ["squeue", "--yaml"],
    ["sprio", "-o", "%i %o %r %u"],
    ["sshare", "-a"],
    ["sinfo", "-R"],
    ["sinfo", "-N", "-o", "%all"],
    ["scontrol", "show", "jobs"],
    ["scontrol", "-o", "show", "jobs"],
    ["scontrol", "show", "nodes"],
    ["scontrol", "show", "assoc_mgr"],
    ["scontrol", "-o", "show", "assoc_mgr"],
    ["scontrol", "show", "steps"],
    ["sdiag"],
)


@pytest.fixture(scope="module")
def site() -> ReferenceCluster:
    """The reference queue, with a job, accounts and a node of which every text is hostile."""
    reference = queue()
    reference.submit(
        99, "alice", "12:07:00", TEXT, account=TEXT, comment=TEXT, wckey=TEXT, extra=TEXT,
        network=TEXT,
    )  # fmt: skip
    accounts = (Association(1, "root"), Association(2, TEXT, parent_id=1, comment=TEXT))
    users = (UserRecord("alice", TEXT, TEXT),)
    facts = NodeFacts(arch=TEXT, os=TEXT, version=TEXT, hostname=TEXT)
    reference.apply(
        [
            ev.AssocChanged(at("12:08:00"), changed=accounts, users=users, version=1),
            ev.QosChanged(at("12:08:00"), changed=(Qos(1, "normal"),)),
            ev.NodeRegistered(at("12:08:00"), 0, facts, NodeState.IDLE, reason=TEXT),
        ]
    )
    return reference


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_a_listing_is_lines_of_printable_text(
    site: ReferenceCluster, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """RELIABILITY 68: an administrator's terminal obeys escape sequences."""
    printed = run_command(monkeypatch, site, "root", words)
    assert printed.code == 0
    assert all(char.isprintable() or char in "\n\t" for char in printed.stdout)
    assert TEXT[-4:] not in printed.stdout
