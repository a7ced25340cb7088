"""A state directory with a journal in it, as the tests of the journal use it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter


class Room:
    """One state directory; each `start` is a new epoch, as each start of a controller is."""

    def __init__(self, state: Path) -> None:
        self.layout = Layout(state)
        self.layout.create()
        self.durable: list[int] = []
        self.fatal: list[str] = []
        self.is_told = threading.Event()

    def recover(self, *, ignore_errors: bool = False) -> tuple[Recovery, list[bytes]]:
        """Read everything; return the pass and the payloads in order."""
        recovery = Recovery(self.layout, ignore_errors=ignore_errors)
        payloads = [frame.payload for frames in recovery.frames() for frame in frames]
        return recovery, payloads

    def start(self, *, ignore_errors: bool = False, segment_bytes: int = 64 << 20) -> JournalWriter:
        """Recover and begin to write."""
        recovery, _ = self.recover(ignore_errors=ignore_errors)
        position = recovery.position._replace(epoch=recovery.next_epoch)
        return JournalWriter(
            self.layout.journal,
            recovery.journal_id,
            position,
            first_sequence=recovery.next_sequence,
            on_durable=self.durable.append,
            on_fatal=self._failed,
            reserve=Reserve(self.layout.reserve),
            segment_bytes=segment_bytes,
        )

    def write(self, payloads: list[bytes], *, segment_bytes: int = 64 << 20) -> list[int]:
        """Write one epoch with these payloads, each in a group of its own."""
        writer = self.start(segment_bytes=segment_bytes)
        sequences = []
        for payload in payloads:
            sequences.append(writer.append(payload))
            while writer.durable < sequences[-1]:
                time.sleep(0.0001)  # lets the writer's thread run
        writer.close()
        return sequences

    def segments(self) -> list[Path]:
        """The segment files, oldest first."""
        return sorted(self.layout.journal.glob("*.journal"))

    def _failed(self, why: str) -> None:
        self.fatal.append(why)
        self.is_told.set()
