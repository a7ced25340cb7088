"""Workloads: Standard Workload Format traces, and generators.

Source of the format: D. Feitelson, "The Standard Workload Format", Parallel Workloads Archive.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import BinaryIO, cast

from pyslurm_ng.base.units import plural

_MOST = 10**10  # seconds of a time, 300 years, or anything else


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a workload; times in seconds from its beginning.

    `run_s` decides when the job ends; a scheduler may know only the other fields.
    """

    number: int
    submit_s: int
    run_s: int
    processors: int
    requested_s: int
    user: int


@dataclass(slots=True)
class Trace:
    """A workload in order of submission, and what was wrong with its file."""

    jobs: list[TraceJob] = field(default_factory=list)
    broken: list[tuple[int, str]] = field(default_factory=list)  # line number, what is wrong
    skipped: int = 0  # jobs that never ran: no processors or no run time known

    def complaints(self, path: str, most: int = 5) -> list[str]:
        """Return one line per broken line, the first `most`, and a count of the rest."""
        lines = [f"{path}:{number}: {text}" for number, text in self.broken[:most]]
        if len(self.broken) > most:
            lines.append(f"{path}: {len(self.broken)} lines in all could not be read")
        return lines


def read_swf(path: str) -> Trace:
    """Read a trace, plain or gzipped, whatever its name.

    Raises:
        OSError, EOFError, zlib.error: the file cannot be read.
    """
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        plain = gzip.GzipFile(fileobj=file) if is_packed else file
        with TextIOWrapper(cast(BinaryIO, plain), encoding="utf-8", errors="replace") as lines:
            return parse_swf(lines)


def parse_swf(lines: Iterable[str]) -> Trace:
    """Read the lines of a trace; broken ones are noted and left out."""
    trace = Trace()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        fields = text.split()
        if len(fields) < 12:
            trace.broken.append((number, f"{plural(len(fields), 'column')} where 18 are expected"))
            continue
        try:
            values = [int(float(word)) for word in fields[:12]]
        except (ValueError, OverflowError):
            trace.broken.append((number, "a column is not a number"))
            continue
        if max(values) > _MOST:
            trace.broken.append((number, f"a column is over {_MOST}"))
            continue
        processors = values[7] if values[7] > 0 else values[4]
        run_s, requested_s = values[3], values[8]
        if processors <= 0 or run_s < 0 or values[1] < 0:
            trace.skipped += 1
            continue
        if requested_s <= 0:
            requested_s = max(run_s, 1)
        trace.jobs.append(
            TraceJob(values[0], values[1], run_s, processors, requested_s, max(0, values[11]))
        )
    trace.jobs.sort(key=lambda job: (job.submit_s, job.number))
    return trace


def random_jobs(
    seed: int, count: int, nodes: int, span_s: int, load: float = 0.9
) -> Iterator[TraceJob]:
    """Yield a workload of log-uniform sizes and run times that offers about `load`.

    Users ask for one to ten times what they need, as recorded logs show.
    """
    chance = random.Random(seed)
    sizes = [min(nodes, 2 ** chance.randint(0, max(1, nodes.bit_length() - 3))) for _ in range(64)]
    mean_size = sum(sizes) / len(sizes)
    mean_run_s = load * nodes * span_s / (count * mean_size)
    time_s = 0.0
    for number in range(1, count + 1):
        time_s += chance.expovariate(count / span_s)
        run_s = max(1, int(chance.expovariate(1 / mean_run_s)))
        asked_s = int(run_s * chance.uniform(1, 10)) + 60
        yield TraceJob(
            number, int(time_s), run_s, chance.choice(sizes), asked_s, chance.randint(1, 50)
        )
