"""What operators may not do: what the cluster is, administrators decide."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.permission import has_level
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


def test_messages_for_administrators_alone() -> None:
    """Those that are not rules ask for the level by the table."""
    kinds = {row.kind for row in messages.rows() if row.owner_rule == "admin"}
    assert kinds == {
        "CreateNodes", "DeleteNodes", "DeletePartition", "Reconfigure", "SetDampening",
        "SetDebugFlags", "SetDebugLevel",
        "SetSchedulingLog", "Shutdown", "UpdateNodes", "UpdatePartition",
    }  # fmt: skip
    assert not has_level("admin", OPERATOR) and has_level("admin", ROOT)
    assert has_level("operator", OPERATOR) and not has_level("operator", Caller(5, 5, "games"))
    assert has_level("none", Caller(5, 5, "games"))
