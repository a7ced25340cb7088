"""Lets recorded time follow the host's clock, and moves all times that are counted from it."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Protocol

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.clock import MOST_STEERED_US, PATIENCE_US, Clock
from pyslurm_ng.ctld.nodes.run_times import RunTimes
from pyslurm_ng.ctld.rules import clocks
from pyslurm_ng.ctld.writer import Writer


class Log(Protocol):
    """Where lines go."""

    def error(self, text: str) -> None:
        """Something is wrong."""


_MARK_US = 10_000_000  # how often the mark is made


class TimeMark:
    """Recorded time as it was a moment ago, in a file: a quiet cluster records nothing for days.

    Without it the next start could not tell a long silence from a long absence. It is no part of
    the state: a mark that is lost or cannot be made costs no more than that.
    """

    _RECORD = struct.Struct(">Q")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made_us = 0

    def read(self) -> int:
        """Return the time in it, 0 if there is none."""
        try:
            return int(self._RECORD.unpack(self._path.read_bytes())[0])
        except (OSError, struct.error):
            return 0

    def make(self, now_us: int) -> None:
        """Write the time down, in place, unless that was done a moment ago."""
        if abs(now_us - self._made_us) < _MARK_US:
            return
        self._made_us = now_us
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.pwrite(descriptor, self._RECORD.pack(now_us), 0)
            finally:
                os.close(descriptor)


class Timekeeper:
    """What a controller does about clocks at its start and once a second."""

    def __init__(
        self, clock: Clock, writer: Writer, run_times: RunTimes, mark: TimeMark, log: Log
    ) -> None:
        self._mark = mark
        self._clock = clock
        self._writer = writer
        self._run_times = run_times
        self._log = log
        self._was_far = False

    def begin(self) -> None:
        """Say what the clock looks like beside the records; move these back if they are ahead."""
        run_times = self._run_times.start_report()
        if run_times:
            self._log.error(run_times)
        cluster, now_us = self._writer.cluster, self._clock.now_us()
        if now_us < cluster.time_us:
            self._writer.record(clocks.all_moved(cluster, now_us, now_us - cluster.time_us))
        self._mark.make(now_us)

    def tick(self) -> bool:
        """Approach the host's clock; return whether its time was taken over at once."""
        clock = self._clock
        ahead_us = clock.steer()
        is_far = abs(ahead_us) > MOST_STEERED_US
        if is_far != self._was_far:
            self._was_far = is_far
            self._log.error(
                f"clock: this host's clock has jumped by {ahead_us / 1e6:.0f} s; recorded time "
                f"goes on without that, and follows in {PATIENCE_US // SECOND_US} s unless the "
                "clock is put right"
                if is_far
                else "clock: this host's clock fits recorded time again"
            )
        shift_us = clock.follow()
        self._mark.make(clock.now_us())
        if not shift_us:
            return False
        self._was_far = False
        self._log.error(
            f"clock: recorded time is moved by {shift_us / 1e6:.0f} s to this host's clock, and "
            "all that is counted from it moves along: no job has run longer or shorter"
        )
        self._writer.record(clocks.all_moved(self._writer.cluster, clock.now_us(), shift_us))
        return True
