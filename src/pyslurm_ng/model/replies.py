"""Replies to changing requests, remembered for a day so that a retry gets the same one.

A busy site has a million of them at a time, so each is two byte strings, not a tuple. A user that
makes them without pause has room for a quarter of a million; then the user's oldest are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

MOST_OF_USER = 64 << 20
"""Bytes of what is remembered for one user."""
_ENTRY_BYTES = 200
"""What Python takes for one besides the user's bytes."""
_UID_BYTES = 4
_TIME_BYTES = 8


class _OfUser:
    """One user's keys, oldest first, and what they and their replies take."""

    __slots__ = ("keys", "size")

    def __init__(self) -> None:
        self.keys: deque[bytes] = deque()
        self.size = 0


class Replies:
    """Bodies of replies by user and request id, oldest first."""

    __slots__ = ("_kept", "_users")

    def __init__(self) -> None:
        self._kept: dict[bytes, bytes] = {}
        self._users: dict[int, _OfUser] = {}

    def add(self, uid: int, request_id: bytes, time_us: int, body: bytes) -> None:
        """Remember a reply given at `time_us`; times never fall."""
        key = uid.to_bytes(_UID_BYTES, "big") + request_id
        user = self._users.get(uid)
        if user is None:
            user = self._users[uid] = _OfUser()
        if key not in self._kept:
            user.keys.append(key)
            user.size += _ENTRY_BYTES
        user.size += len(body) - len(self._kept.get(key, b"")[_TIME_BYTES:])
        self._kept[key] = time_us.to_bytes(_TIME_BYTES, "big") + body
        while user.size > MOST_OF_USER and len(user.keys) > 1:
            self._drop_oldest(uid, user)

    def _drop_oldest(self, uid: int, user: _OfUser) -> None:
        body = self._kept.pop(user.keys.popleft())[_TIME_BYTES:]
        user.size -= _ENTRY_BYTES + len(body)
        if not user.keys:
            del self._users[uid]

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
            uid = int.from_bytes(oldest[:_UID_BYTES], "big")
            self._drop_oldest(uid, self._users[uid])

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
