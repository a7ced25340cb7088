"""Counters of sdiag over time. They are noted when somebody looks, at most every ten seconds.

All visitors share them: sdiag tells everybody the same. They are gone with this process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pyslurm_ng.web.page.texts import moment

SAMPLES = 720
LEAST_S = 10.0
WIDTH, HEIGHT = 460, 120
Row = dict[str, Any]
_PLOTS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Jobs", "", (("jobs_running", "run"), ("jobs_pending", "wait"))),
    ("A pass of the scheduler", "ms", (("schedule_cycle_last", "last"),
                                       ("schedule_cycle_mean", "mean"))),
    ("Jobs that the last pass looked at", "", (("bf_last_depth", "looked at"),
                                               ("schedule_queue_length", "queue"))),
    ("Records that wait for slurmdbd", "", (("dbd_agent_queue_size", "wait"),)),
)  # fmt: skip
_NAMES = tuple(name for _, _, lines in _PLOTS for name, _ in lines)


class StatisticsHistory:
    """The newest samples of the counters that are drawn."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=SAMPLES)

    def note(self, statistics: Mapping[str, Any]) -> None:
        """Keep a sample, unless the newest is younger than ten seconds."""
        now_s = self._now()
        if self._samples and 0 <= now_s - self._samples[-1][0] < LEAST_S:
            return
        self._samples.append((now_s, {name: int(statistics.get(name, 0)) for name in _NAMES}))

    def plots(self) -> list[Row]:
        """Return the plots with their lines; there is none before the second sample."""
        if len(self._samples) < 2:
            return []
        return [self._plot(title, unit, lines) for title, unit, lines in _PLOTS]

    def _plot(self, title: str, unit: str, lines: tuple[tuple[str, str], ...]) -> Row:
        first_s, last_s = self._samples[0][0], self._samples[-1][0]
        span_s = max(1.0, last_s - first_s)
        scale = 1000 if unit == "ms" else 1
        most = max(1, *(values[name] for _, values in self._samples for name, _ in lines))

        def points(name: str) -> str:
            return " ".join(
                f"{(when - first_s) * WIDTH / span_s:.0f},"
                f"{HEIGHT - values[name] * HEIGHT / most:.0f}"
                for when, values in self._samples
            )

        newest = self._samples[-1][1]
        return {
            "title": title,
            "unit": unit,
            "most": f"{most / scale:.4g}",
            "begins": moment(int(first_s) * 1_000_000),
            "ends": moment(int(last_s) * 1_000_000),
            "lines": [
                {"name": label, "points": points(name), "newest": f"{newest[name] / scale:.4g}"}
                for name, label in lines
            ],
        }
