"""How much of SlurmdSpoolDir the running steps of each user have.

Nearly all steps have some kilobytes. But a step may have an environment of megabytes, and a job
thousands of steps: without shares one user could fill the spool, and the node would be drained.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TypeAlias

from pyslurm_ng.d.spec.node_setup import SpecError

_Key: TypeAlias = tuple[int, int, int]

SHARE_BYTES = 64 << 20
SHARES = 4
"""One user has a quarter of the free space, or 64 MiB if that is more."""


class SpoolShares:
    """The shares of one node's users; `directory` is the spool."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: dict[_Key, tuple[int, int]] = {}  # uid and bytes of a step's file
        self._of_user: Counter[int] = Counter()

    def check(self, uid: int) -> None:
        """See that a user may begin one more step.

        Raises:
            SpecError: the user's steps have taken their share; the text has both sizes.
        """
        used_bytes = self._of_user[uid]
        if used_bytes < SHARE_BYTES:
            return
        space = os.statvfs(self._directory)
        most = max(SHARE_BYTES, (space.f_bfree * space.f_frsize + used_bytes) // SHARES)
        if used_bytes >= most:
            raise SpecError(
                f"steps of uid {uid} that run hold {used_bytes >> 20} MiB of this node's "
                "SlurmdSpoolDir, "
                f"mostly environments; {most >> 20} MiB are allowed"
            )

    def take(self, key: _Key, uid: int, path: str) -> None:
        """Count a step's file."""
        self._held[key] = uid, os.stat(path).st_size
        self._of_user[uid] += self._held[key][1]

    def give_back(self, key: _Key) -> None:
        """Count it no longer: the step has ended."""
        uid, size = self._held.pop(key)
        self._of_user[uid] -= size
