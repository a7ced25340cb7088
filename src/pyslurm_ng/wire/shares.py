"""Fair shares of a daemon's sockets and memory: what each user holds, and which users must wait.

A *holder* is a uid, the administrators and daemons together (`PRIVILEGED`), or the strangers
together (`STRANGERS`: TCP connections that have not proved anything yet). Bytes count when they
have arrived; the length that a frame declares reserves nothing.

* **Bytes in flight** of a holder are its unfinished frames and its requests without an answer,
  each with `CALL_BYTES` for what is kept about it.
  Its share is the users' room divided by the number of holders with any. Over its share a holder's
  frames are received one at a time, and none while its waiting requests alone fill the share.
* **Connections**: when there is no more room, a newcomer that has fewer takes the place of a
  connection of the holder that has most. Administrators have further places of their own.
* **Strangers** hold at most `MAX_UNAUTHENTICATED_BYTES` each. When there are too many, the oldest
  of the address that has most goes.
* **Open calls** (allocations, steps) and **unread answers** have a bound per holder; calls beyond
  it are told to come back (`BACKOFF`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

PRIVILEGED = -1
STRANGERS = -2
CALL_BYTES = 1024
"""About what a request without an answer takes beside its body."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """Bounds of one server; `users_bytes` and `share_floor` count bytes that have arrived.

    `connections_waiting` are those of one port that were accepted and have not begun.
    """

    connections: int = 16_384
    connections_waiting: int = 8_192
    connections_per_uid: int = 4_096
    connections_per_address: int = 4_096
    reserved_for_admins: int = 64
    strangers: int = 512
    users_bytes: int = 128 << 20
    share_floor: int = 1 << 20
    open_calls_per_uid: int = 4_096
    open_bytes_per_uid: int = 64 << 20
    unread_bytes_per_uid: int = 64 << 20


class Connection(Protocol):
    """What `Shares` needs of a connection."""

    address: str

    def resume(self) -> None:
        """Receive again; there may be room."""

    def give_way(self) -> None:
        """Say that others need the place, and close."""

    @property
    def is_idle(self) -> bool:
        """Whether all its requests are answered."""


class TooMany(Exception):
    """There is no place for one more connection; the text says for which user."""


class Holder:
    """What one uid, or one of the groups, holds now.

    Attributes:
        partial_bytes: of unfinished frames.
        waiting_bytes: of whole requests without an answer.
        held: connections that are not read from until there is room.
        going: the one connection that may receive though the share is used up.
    """

    __slots__ = (
        "connections", "going", "held", "lane", "open_bytes", "open_calls", "partial_bytes",
        "unanswered", "unread_bytes", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.connections: dict[Connection, None] = {}
        self.partial_bytes = 0
        self.waiting_bytes = 0
        self.unread_bytes = 0
        self.unanswered = 0  # calls, but for those that stay open
        self.open_calls = 0
        self.open_bytes = 0
        self.held: dict[Connection, None] = {}
        self.going: Connection | None = None

    def __str__(self) -> str:
        if self.lane == PRIVILEGED:
            return "administrators"
        return "strangers" if self.lane == STRANGERS else f"uid {self.lane}"

    def opened_call(self, held_bytes: int) -> None:
        """Count a call that is answered when an allocation or step ends."""
        self.open_calls += 1
        self.open_bytes += held_bytes

    def closed_call(self, held_bytes: int) -> None:
        """Give back the room of a call that stayed open and has ended."""
        self.open_calls -= 1
        self.open_bytes -= held_bytes

    @property
    def is_empty(self) -> bool:
        """Whether the share is empty."""
        return not (
            self.connections or self.partial_bytes or self.waiting_bytes or self.unread_bytes
        )


class Shares:
    """The holders of one server.

    Args:
        limits: bounds.
        later: calls a function in a later turn of the loop.
    """

    def __init__(self, limits: ShareLimits, later: Callable[[Callable[[], None]], object]) -> None:
        self.limits = limits
        self.holders: dict[int, Holder] = {}
        self.users_bytes = 0
        self._users_holding = 0
        self._user_connections = 0
        self._by_address: Counter[str] = Counter()
        self._strange_of: Counter[str] = Counter()
        self._later = later

    def holder(self, lane: int) -> Holder:
        """Return a holder, new if it holds nothing yet."""
        holder = self.holders.get(lane)
        if holder is None:
            holder = self.holders[lane] = Holder(lane)
        return holder

    # -- connections -----------------------------------------------------------------------

    def enter(self, connection: Connection, lane: int) -> Holder:
        """Give a connection a place among its holder's; raise `TooMany` when there is none."""
        holder = self.holder(lane)
        try:
            if lane == STRANGERS:
                self._make_place_for_stranger(connection.address)
            else:
                self._make_place(holder, connection.address)
        except TooMany:
            self._forget_if_empty(holder)
            raise
        holder.connections[connection] = None
        if lane == STRANGERS:
            self._strange_of[connection.address] += 1
        else:
            self._user_connections += lane != PRIVILEGED
            if connection.address:
                self._by_address[connection.address] += 1
        return holder

    def leave(self, connection: Connection, holder: Holder) -> None:
        """Take a connection out; the bytes it held must have been given back."""
        if holder.connections.pop(connection, holder) is holder:
            return
        holder.held.pop(connection, None)
        if holder.lane == STRANGERS:
            _less(self._strange_of, connection.address)
        else:
            self._user_connections -= holder.lane != PRIVILEGED
            if connection.address:
                _less(self._by_address, connection.address)
        if holder.going is connection:
            holder.going = None
        self.let_go(holder)
        self._forget_if_empty(holder)

    def _make_place(self, holder: Holder, address: str) -> None:
        limits = self.limits
        if holder.lane == PRIVILEGED:
            if len(holder.connections) >= limits.reserved_for_admins:
                self._make_room(holder)
            return
        if len(holder.connections) >= limits.connections_per_uid:
            raise TooMany(
                f"too many connections of {holder}: at most {limits.connections_per_uid} "
                "are allowed"
            )
        if address and self._by_address[address] >= limits.connections_per_address:
            raise TooMany(
                f"too many connections of address {address}: at most "
                f"{limits.connections_per_address} are allowed"
            )
        self._make_room(holder)

    def _make_room(self, newcomer: Holder) -> None:
        """When all places are taken, take one from the user that has most of them."""
        if self._user_connections < self.limits.connections:
            return
        users = [holder for lane, holder in self.holders.items() if lane >= 0]
        most = max(users, key=lambda holder: len(holder.connections), default=None)
        if most is None:
            return
        # Administrators may have more, so they are not compared.
        has = len(newcomer.connections) if newcomer.lane >= 0 else 0
        if len(most.connections) <= has + 1:
            raise TooMany("too many connections")
        idle = (connection for connection in reversed(most.connections) if connection.is_idle)
        victim = next(idle, None) or next(reversed(most.connections))
        victim.give_way()
        self.leave(victim, most)

    def _make_place_for_stranger(self, address: str) -> None:
        strangers = self.holder(STRANGERS)
        if len(strangers.connections) < self.limits.strangers:
            return
        crowd = max(self._strange_of, key=self._strange_of.__getitem__)
        oldest = next(stranger for stranger in strangers.connections if stranger.address == crowd)
        oldest.give_way()
        self.leave(oldest, strangers)

    # -- bytes in flight -------------------------------------------------------------------

    def share_of(self, holder: Holder) -> int:
        """Return how many bytes in flight a holder may have now."""
        if holder.lane < 0:
            return self.limits.users_bytes
        return max(self.limits.share_floor, self.limits.users_bytes // max(1, self._users_holding))

    def charge(self, holder: Holder, partial: int, waiting: int) -> None:
        """Add to what a holder has in flight, or take away."""
        before = holder.partial_bytes + holder.waiting_bytes
        holder.partial_bytes += partial
        holder.waiting_bytes += waiting
        if holder.lane >= 0:
            after = before + partial + waiting
            self._users_holding += (after > 0) - (before > 0)
            self.users_bytes += partial + waiting

    def received_call(self, holder: Holder, held_bytes: int) -> None:
        """Count a whole request until it is answered."""
        holder.unanswered += 1
        self.charge(holder, 0, held_bytes)

    def may_receive(self, holder: Holder, connection: Connection) -> bool:
        """Return whether a connection may go on with a frame; if not, it is resumed later."""
        share = self.share_of(holder)
        if holder.partial_bytes + holder.waiting_bytes <= share:
            return True
        if holder.going is None and holder.waiting_bytes <= share:
            holder.going = connection
        if holder.going is connection:
            return True
        holder.held[connection] = None
        return False

    def has_received(self, holder: Holder, connection: Connection) -> None:
        """A frame is whole: the next connection of its holder may go on."""
        if holder.going is connection:
            holder.going = None
        if holder.held:
            self.let_go(holder)

    def let_go(self, holder: Holder) -> None:
        """Resume a holder's waiting connections as far as its share allows."""
        if not holder.held:
            return
        share = self.share_of(holder)
        if holder.partial_bytes + holder.waiting_bytes <= share * 3 // 4:
            connections, holder.held = holder.held, {}
            for connection in connections:
                self._later(connection.resume)
        elif holder.going is None and holder.waiting_bytes <= share:
            first = next(iter(holder.held))
            del holder.held[first]
            holder.going = first
            self._later(first.resume)

    def let_all_go(self) -> None:
        """Look at every holder: shares grow when others leave."""
        for holder in list(self.holders.values()):
            self.let_go(holder)
            self._forget_if_empty(holder)

    def _forget_if_empty(self, holder: Holder) -> None:
        if holder.is_empty and not holder.open_calls:
            self.holders.pop(holder.lane, None)

    # -- open calls, answers ---------------------------------------------------------------

    def refusal_of_open(self, holder: Holder, held_bytes: int) -> str:
        """Return why a holder may not have one more call that stays open; "" if it may."""
        limits = self.limits
        if holder.lane < 0:
            return ""
        if holder.open_calls >= limits.open_calls_per_uid:
            return (
                f"{limits.open_calls_per_uid} allocations and steps of {holder} wait or run "
                "with their commands; one must end before the next"
            )
        if holder.open_calls and holder.open_bytes + held_bytes > limits.open_bytes_per_uid:
            return (
                f"requests of {holder} that stay open hold {holder.open_bytes} bytes; at most "
                f"{limits.open_bytes_per_uid} are allowed"
            )
        return ""

    def refusal_of_answer(self, holder: Holder) -> str:
        """Return why a holder gets no more answers until it has read some; "" if it does."""
        if holder.lane < 0 or holder.unread_bytes <= self.limits.unread_bytes_per_uid:
            return ""
        return (
            f"{holder.unread_bytes} bytes of answers to {holder} have not been read; at most "
            f"{self.limits.unread_bytes_per_uid} are kept"
        )

    def counts(self) -> dict[str, int]:
        """Return what is held now, for `sdiag`."""
        holders = self.holders.values()
        most = max((len(holder.connections) for holder in holders if holder.lane >= 0), default=0)
        strangers = self.holders.get(STRANGERS)
        return {
            "connections": sum(len(holder.connections) for holder in holders),
            "connections_of_one": most,
            "connections_unproved": 0 if strangers is None else len(strangers.connections),
            "bytes_in_flight": sum(
                holder.partial_bytes + holder.waiting_bytes for holder in holders
            ),
            "bytes_unread": sum(holder.unread_bytes for holder in holders),
            "open_calls": sum(holder.open_calls for holder in holders),
            "connections_held": sum(len(holder.held) for holder in holders),
        }


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
