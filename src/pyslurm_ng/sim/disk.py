"""A journal in memory: durable after a while, torn by a crash, full or failing on demand."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.sim.world import World


class MemoryJournal:
    """What the writer takes for its journal; satisfies `ctld.writer.Journal`.

    A batch is safe `latency_us` after it was appended; batches that come meanwhile share the next
    sync, as with the real one. `crash` forgets what was not safe, but for a random part of it: a
    torn disk may hold more than it acknowledged, never less.
    """

    def __init__(
        self,
        world: World,
        durable: Callable[[int], None],
        *,
        latency_us: int = 0,
        keep: bool = True,
    ) -> None:
        self.space_low = False
        self.is_stalled = False
        self.payloads: list[bytes] = []
        self.appended = 0
        self.synced = 0
        self._world = world
        self._durable = durable
        self._latency_us = latency_us
        self._keep = keep
        self._syncing = False
        self._life = 0

    @property
    def is_busy(self) -> bool:
        """Whether new requests should be refused: never, since memory is never full."""
        return False

    def append(self, payload: bytes) -> int:
        """Queue one batch and return its sequence."""
        self.appended += 1
        if self._keep:
            self.payloads.append(payload)
        if not self._latency_us:
            self.synced = self.appended
            self._durable(self.appended)
        elif not self._syncing:
            self._begin_sync()
        return self.appended

    def _begin_sync(self) -> None:
        self._syncing = True
        target, life = self.appended, self._life

        def done() -> None:
            if life != self._life:
                return
            self._syncing = False
            self.synced = target
            if self.appended > target:
                self._begin_sync()
            self._durable(target)

        self._world.after(self._latency_us, done)

    def crash(self) -> list[bytes]:
        """Return what a restart finds: all that was safe, and perhaps some that was not."""
        self._life += 1
        kept_until = self._world.random.randint(self.synced, self.appended)
        self.payloads = self.payloads[:kept_until]
        self._syncing = False
        return list(self.payloads)
