"""What users and daemons may ask of a stream server, and in which queue they wait."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.table import MessageRow
from pyslurm_ng.wire.user_ranges import UserRanges

_ADMINISTRATORS = ("admin", "operator")


class Roles:
    """The roles of senders.

    Attributes:
        privileged: uids with role admin: root and SlurmUser.
        user_ranges: which uids count as one user's.
    """

    def __init__(
        self,
        service_uid: int,
        roles_of: Callable[[Peer], frozenset[str]] | None,
        user_ranges: UserRanges,
    ) -> None:
        """`roles_of` returns further roles of a user (operator, admin), as far as they are known.

        With it the daemon asks for the level of messages for administrators itself.
        """
        self.user_ranges = user_ranges
        self.privileged = frozenset((0, service_uid))
        self._roles_of = roles_of

    def lane_of(self, peer: Peer) -> int:
        """Return the queue in which this peer's requests wait for their turn."""
        if peer.role != "user" or peer.uid in self.privileged:
            return PRIVILEGED
        is_operator = self._roles_of is not None and bool(self._roles_of(peer))
        return PRIVILEGED if is_operator else self.user_ranges.lane_of(peer.uid)

    def may_send(self, row: MessageRow, peer: Peer) -> bool:
        """Return whether the peer has one of the roles that the message asks for."""
        if peer.role != "user":
            return peer.role in row.roles
        if "user" in row.roles:
            return True
        # The user directory says later which users are operators. So a daemon that knows such users
        # asks for their level itself, behind the connection.
        is_judged = peer.uid in self.privileged or self._roles_of is not None
        return is_judged and not row.roles.isdisjoint(_ADMINISTRATORS)
