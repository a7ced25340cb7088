"""A small loop for programs that must start fast and stay small: descriptors and timers."""

import os
import select
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_WAIT_S = 3600.0
_CHUNK_BYTES = 65536


def read_some(descriptor: int) -> "bytes | None":
    """Return what is there to read: b"" at the connection's end, None if nothing is there yet."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def write_some(descriptor: int, unsent: bytearray) -> bool:
    """Write what can be written now, and remove it from `unsent`.

    Returns:
        Whether the connection is still there.
    """
    try:
        while unsent:
            with memoryview(unsent) as view:
                sent = os.write(descriptor, view[:_CHUNK_BYTES])
            del unsent[:sent]
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        return False
    return True


class PollLoop:
    """`select.poll` with a callback for each descriptor, and timers.

    Args:
        on_fault: is called with what a callback raises, and the other callbacks are called all the
            same. Without it `turn` raises it.
    """

    def __init__(self, on_fault: "Callable[[BaseException], None] | None" = None) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, str, Callable[[], None]]] = []
        self._on_fault = on_fault

    def watch(self, descriptor: int, events: int, callback: "Callable[[int], None]") -> None:
        """Call back when one of `events` is there; again to change events."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Forget a descriptor; nothing if it is not watched."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def later(self, delay_s: float, callback: "Callable[[], None]", name: str = "") -> None:
        """Call back after so many seconds; nothing if a timer of this name is set already."""
        if not name or all(known != name for _, known, _ in self._timers):
            self._timers.append((monotonic() + delay_s, name, callback))

    def cancel(self, name: str) -> None:
        """Take back the timer of this name, if there is one."""
        self._timers = [timer for timer in self._timers if timer[1] != name]

    def turn(self, limit_s: float = _LONGEST_WAIT_S) -> None:
        """Serve once: wait at most so long, then call back for what is ready and what is due."""
        now_s = monotonic()
        due_s = min((at_s for at_s, _, _ in self._timers), default=now_s + limit_s)
        wait_s = max(0.0, min(due_s - now_s, limit_s))
        for descriptor, events in self._poll.poll(int(wait_s * 1000) + 1 if wait_s else 0):
            ready = self._callbacks.get(descriptor)
            if ready is not None:
                self._call(ready, events)
        if self._timers:
            self._call_due()

    def _call_due(self) -> None:
        now_s = monotonic()
        due = [timer for timer in self._timers if timer[0] <= now_s]
        if due:
            self._timers = [timer for timer in self._timers if timer[0] > now_s]
            for _, _, callback in due:
                self._call(callback)

    def _call(self, callback: "Callable[..., None]", *arguments: int) -> None:
        try:
            callback(*arguments)
        except Exception as error:
            if self._on_fault is None:
                raise
            self._on_fault(error)
