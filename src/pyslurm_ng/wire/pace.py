"""How fast the peer of a stream sends and reads, and when it is too slow to be kept."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.wire.shares import ShareLimits


@dataclass(frozen=True, slots=True)
class StreamLimits(ShareLimits):
    """Bounds of one server; rates in bytes per second.

    `frame_s` is the time for one request from its first byte to its last, less the time in which we
    did not read. `unread_s` is how long a known user may take nothing of an answer: `sacct | less`
    waits for a person. What is kept so long is bounded by `unread_bytes_per_uid`.
    """

    outstanding: int = 1_024
    waiting_per_uid: int = 4_096
    write_buffer_bytes: int = 1 << 30
    handshake_s: float = 10.0
    frame_s: float = 120.0
    idle_s: float = 600.0
    grace_s: float = 10.0
    unread_s: float = 3600.0
    least_rate: int = 1_024


class Pace:
    """What one peer has sent and taken since its last mark, held against a server's bounds.

    All times are seconds of the loop's clock. `drained` is how many bytes the peer has taken of all
    that was sent to it.
    """

    __slots__ = (
        "_began_s", "_drained_mark", "_frame_s", "_held_s", "_limits", "_mark_s", "_received",
        "_received_mark", "_taken", "_taken_s",
    )  # fmt: skip

    def __init__(self, limits: StreamLimits, now: float) -> None:
        self._limits = limits
        self._began_s = self._mark_s = self._taken_s = now
        self._frame_s = self._held_s = 0.0
        self._received = self._received_mark = self._drained_mark = self._taken = 0

    def mark(self, now: float, drained: int) -> None:
        """Count time and bytes from now on."""
        self._taken, self._taken_s = drained, now
        self._mark_rates(now, drained)

    def _mark_rates(self, now: float, drained: int) -> None:
        self._mark_s = now
        self._received_mark = self._received
        self._drained_mark = drained

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come yet."""
        return not self._received

    def received(self, count: int) -> None:
        """Note bytes that came."""
        self._received += count

    def frame_begun(self, now: float) -> None:
        """Note that a frame has begun, if none is on its way already."""
        self._frame_s = self._frame_s or now

    def frame_ended(self) -> None:
        """Note that a whole frame is here."""
        self._frame_s = 0.0

    def held(self, now: float) -> None:
        """Note that nothing is received for lack of room: this time is not the peer's fault."""
        self._held_s = now

    def let_go(self, now: float, drained: int) -> None:
        """Note that receiving goes on."""
        if self._frame_s:
            self._frame_s += now - self._held_s
        self.mark(now, drained)

    def is_past_grace(self, now: float) -> bool:
        """Return whether the grace period since the last mark is over."""
        return now - self._mark_s > self._limits.grace_s

    def is_late_to_speak(self, now: float) -> bool:
        """Return whether the time for a first request is over."""
        return now - self._began_s > self._limits.handshake_s

    def fault_at_rest(self, now: float, drained: int, *, is_awaited: bool) -> str:
        """Return "idle" for a peer that nothing is expected of and that was still for long, or "".

        `is_awaited`: the peer waits for us, so that its silence does not count.
        """
        has_moved = self._received != self._received_mark or drained != self._drained_mark
        if has_moved or is_awaited:
            self.mark(now, drained)
        elif now - self._mark_s > self._limits.idle_s:
            return "idle"
        return ""

    def fault_in_motion(
        self, now: float, drained: int, *, is_sending: bool, is_receiving: bool, is_known: bool
    ) -> str:
        """Return why a peer that is to send or to read is too slow: a count of refusals; or "".

        `is_known`: the peer has proved who it is, so it may pause its reading.
        """
        if is_receiving and self._frame_s and now - self._frame_s > self._limits.frame_s:
            return "frame_timeout"
        if drained != self._taken:
            self._taken, self._taken_s = drained, now
        if not self.is_past_grace(now):
            return ""
        # Both directions have a least rate: a peer may not trickle a request or its reading.
        least = self._limits.least_rate * (now - self._mark_s)
        if is_receiving and self._received - self._received_mark < least:
            return "too_slow"
        if is_sending:
            is_slow = drained - self._drained_mark < least
            may_pause = is_known and now - self._taken_s <= self._limits.unread_s
            if is_slow and not may_pause:
                return "too_slow"
        self._mark_rates(now, drained)
        return ""
