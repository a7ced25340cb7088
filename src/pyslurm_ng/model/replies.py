"""Replies to changing requests, remembered for a day so that a retry gets the same one.

A busy site has a million of them at a time, so each is two byte strings, not a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator

_UID_BYTES = 4
_TIME_BYTES = 8


class Replies:
    """Bodies of replies by user and request id, oldest first."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[bytes, bytes] = {}

    def add(self, uid: int, request_id: bytes, time_us: int, body: bytes) -> None:
        """Remember a reply given at `time_us`; times never fall."""
        key = uid.to_bytes(_UID_BYTES, "big") + request_id
        self._kept[key] = time_us.to_bytes(_TIME_BYTES, "big") + body

    def find(self, uid: int, request_id: bytes) -> bytes | None:
        """Return the body of the reply to this user's request, if it is remembered."""
        kept = self._kept.get(uid.to_bytes(_UID_BYTES, "big") + request_id)
        return None if kept is None else kept[_TIME_BYTES:]

    def forget(self, until_us: int) -> None:
        """Forget what was given at or before `until_us`."""
        kept = self._kept
        while kept:
            oldest = next(iter(kept))
            if int.from_bytes(kept[oldest][:_TIME_BYTES], "big") > until_us:
                break
            del kept[oldest]

    def __contains__(self, key: tuple[int, bytes]) -> bool:
        return self.find(*key) is not None

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, bytes, int, bytes]]:
        """Yield (uid, request id, time, body), oldest first."""
        for key, value in self._kept.items():
            uid = int.from_bytes(key[:_UID_BYTES], "big")
            at_us = int.from_bytes(value[:_TIME_BYTES], "big")
            yield uid, key[_UID_BYTES:], at_us, value[_TIME_BYTES:]
