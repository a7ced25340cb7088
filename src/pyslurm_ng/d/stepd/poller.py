"""The supervisor's wait for whatever comes next."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Poller:
    """`select.poll` with a callback for each descriptor.

    Args:
        on_fault: called with what a callback raises; the other callbacks are called all the same.
    """

    def __init__(self, on_fault: "Callable[[BaseException], None]") -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._on_fault = on_fault

    def watch(self, descriptor: int, events: int, callback: "Callable[[int], None]") -> None:
        """Call back when one of `events` is there; again to change events."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, events)

    def drop(self, descriptor: int) -> None:
        """Forget a descriptor; nothing if it is not watched."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def run(self, timeout_ms: int) -> None:
        """Wait at most so long (-1: for ever) and call back for what is ready."""
        for descriptor, events in self._poll.poll(timeout_ms):
            callback = self._callbacks.get(descriptor)
            if callback is None:
                continue
            try:
                callback(events)
            except Exception as error:  # noqa: BLE001 - costs what it came with, nothing else
                self._on_fault(error)
