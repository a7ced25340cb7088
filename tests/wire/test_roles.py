"""Whose messages for administrators pass a connection."""

from __future__ import annotations

import pytest

from pyslurm_ng.wire import messages, node_messages
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.roles import Roles
from pyslurm_ng.wire.user_ranges import UserRanges

ROWS = {row.kind: row for row in messages.rows()}
assert node_messages.RegisterNode


@pytest.mark.parametrize("kind", ["Shutdown", "Reconfigure"])
def test_a_daemon_that_knows_levels_asks_for_them_itself(kind: str) -> None:
    """An administrator's first command since slurmctld began was refused.

    Who a user is is known once the directory has answered, which is behind the connection.
    """
    user = Peer(1001, 1001, 0, "user", "", "h", "slurm")
    unknown = Roles(64030, lambda peer: frozenset(), UserRanges())
    assert unknown.may_send(ROWS[kind], user)
    alone = Roles(64030, None, UserRanges())  # slurmd and slurmdbd
    assert not alone.may_send(ROWS[kind], user)
    assert alone.may_send(ROWS[kind], Peer(0, 0, 0, "user", "", "h", "slurm"))


def test_messages_of_nodes_are_no_users() -> None:
    """Whatever level a user has."""
    roles = Roles(64030, lambda peer: frozenset(("admin", "operator")), UserRanges())
    root = Peer(0, 0, 0, "user", "", "h", "slurm")
    assert not roles.may_send(ROWS["RegisterNode"], root)
