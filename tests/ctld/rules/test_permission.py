"""What operators may not do: what the cluster is, administrators decide."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.permission import coordinates, has_level
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, UserRecord
from pyslurm_ng.wire import messages
from pyslurm_ng.wire.query_messages import DeletePartition, UpdateNodes, UpdatePartition
from tests.world.callers import ROOT
from tests.world.site import Site

OPERATOR = Caller(uid=1003, gid=1003, user_name="op", is_operator=True)
KEY = bytes(16)
CHANGES = [
    UpdateNodes(KEY, "n1", {"weight": "3"}),
    UpdatePartition(KEY, "main", {"State": "DOWN"}),
    UpdatePartition(KEY, "more", {"Nodes": "n1"}, create=True),
    DeletePartition(KEY, "main"),
]


def kind_of(request: msgspec.Struct) -> str:
    return type(request).__name__


@pytest.mark.parametrize("request_", CHANGES, ids=kind_of)
def test_only_administrators_change_nodes_and_partitions(request_: msgspec.Struct) -> None:
    """As in Slurm 22.05, which answers an operator so."""
    site = Site()
    rule = RULES[kind_of(request_)]
    refused = rule(site.cluster, request_, Context(site.conf, site.now_us, OPERATOR))
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_USER_ID_MISSING
    done = rule(site.cluster, request_, Context(site.conf, site.now_us, ROOT))
    assert not isinstance(done, Reject)


def test_coordinators_rule_the_jobs_of_accounts_below_theirs() -> None:
    """As the manual says of coordinators: accounts below count as their own; not those above."""
    site = Site()
    names = ("root", "science", "physics", "optics", "arts")
    above = (0, 1, 2, 3, 1)
    assocs = tuple(
        Association(number, name, parent_id=parent)
        for number, (name, parent) in enumerate(zip(names, above, strict=True), 1)
    )
    bob = UserRecord("bob", "physics", coordinator_of=("physics",))
    site.apply([ev.AssocChanged(site.now_us, changed=assocs, users=(bob,), version=1)])
    caller = Caller(1004, 1004, "bob")
    ruled = [name for name in names if coordinates(site.cluster, caller, name)]
    assert ruled == ["physics", "optics"]
    assert not coordinates(site.cluster, caller, "nosuch")


def test_messages_for_administrators_alone() -> None:
    """Those that are not rules ask for the level by the table."""
    kinds = {row.kind for row in messages.rows() if row.owner_rule == "admin"}
    assert kinds == {
        "CreateNodes", "DeleteNodes", "DeletePartition", "Reconfigure", "SetDampening",
        "SetDebugFlags", "SetDebugLevel",
        "SetSchedulingLog", "Shutdown", "TakeFutureNode", "UpdateNodes", "UpdatePartition",
    }  # fmt: skip
    assert not has_level("admin", OPERATOR) and has_level("admin", ROOT)
    assert has_level("operator", OPERATOR) and not has_level("operator", Caller(5, 5, "games"))
    assert has_level("none", Caller(5, 5, "games"))
