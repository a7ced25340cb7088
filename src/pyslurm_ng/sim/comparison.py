"""Recorded beside simulated: what each user, account and partition would have felt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, median

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.sim.journal_run import JournalRun
from pyslurm_ng.sim.recorded import Key, Run

_BOUND_US = 10_000_000  # tau of the bounded slowdown, as the literature has it
_POINTS = 240


@dataclass(frozen=True, slots=True)
class Figures:
    """How some jobs fared; waits are from being eligible to the first start."""

    jobs: int
    mean_wait_s: float
    median_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    core_hours: float


@dataclass(frozen=True, slots=True)
class Row:
    """One user, account or partition: as it was and as it would have been."""

    name: str
    recorded: Figures
    simulated: Figures

    @property
    def gain_s(self) -> float:
        """By how much the mean wait is shorter in the simulation; negative for longer."""
        return self.recorded.mean_wait_s - self.simulated.mean_wait_s


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a report shows. Only jobs that started in both worlds are compared.

    Attributes:
        utilisation: (moment in us, recorded, simulated) as parts of each world's CPUs.
        waits_s: sorted waits, recorded and simulated.
    """

    total: Row
    users: list[Row]
    accounts: list[Row]
    partitions: list[Row]
    utilisation: list[tuple[int, float, float]]
    waits_s: tuple[list[float], list[float]]
    mean_utilisation: tuple[float, float]
    notes: list[str]
    passes: int
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """Return one object for JSON."""

        def rows(compared: list[Row]) -> list[dict[str, object]]:
            return [{**asdict(row), "gain_s": row.gain_s} for row in compared]

        return {
            "jobs": self.total.recorded.jobs,
            "recorded": asdict(self.total.recorded) | {"utilisation": self.mean_utilisation[0]},
            "simulated": asdict(self.total.simulated) | {"utilisation": self.mean_utilisation[1]},
            "users": rows(self.users),
            "accounts": rows(self.accounts),
            "partitions": rows(self.partitions),
            "notes": self.notes,
            "passes": self.passes,
            "seconds": self.seconds,
        }


def compare(run: JournalRun) -> Comparison:
    """Return how a simulation differs from what was recorded."""
    recording = run.recording
    shared_keys = [key for key in recording.runs if key in run.runs]
    notes = list(recording.notes)
    lost = len(recording.runs) - len(shared_keys)
    if lost:
        notes.append(f"{plural(lost, 'job')} that ran did not start in the simulation; left out")
    if run.moved:
        names = ", ".join(run.moved)
        notes.append(
            f"this configuration has not just the nodes that reservations {names} had: others "
            "stand in for those it lacks"
        )
    for text, count in run.refused.most_common():
        notes.append(f"refused by this configuration, {plural(count, 'time')}: {text}")

    def rows(of: Callable[[Run], str]) -> list[Row]:
        groups: dict[str, list[Key]] = {}
        for key in shared_keys:
            groups.setdefault(of(recording.runs[key]) or "(none)", []).append(key)
        compared = [_row(name, keys, recording.runs, run.runs) for name, keys in groups.items()]
        return sorted(compared, key=lambda row: (-row.gain_s, row.name))

    cpus = (recording.total_cpus, run.total_cpus)
    utilisation = _utilisation(recording.begin_us, recording.end_us, cpus, recording.runs, run.runs)
    waits = tuple(
        sorted(_wait_s(world[key]) for key in shared_keys) for world in (recording.runs, run.runs)
    )
    count = max(len(utilisation), 1)
    return Comparison(
        total=_row("all", shared_keys, recording.runs, run.runs),
        users=rows(lambda job: job.user),
        accounts=rows(lambda job: job.account),
        partitions=rows(lambda job: job.partition),
        utilisation=utilisation,
        waits_s=(waits[0], waits[1]),
        mean_utilisation=(
            sum(point[1] for point in utilisation) / count,
            sum(point[2] for point in utilisation) / count,
        ),
        notes=notes,
        passes=run.controller.soft.passes.cycles,
        seconds=run.seconds,
    )


def _row(name: str, keys: list[Key], recorded: Mapping[Key, Run], ours: Mapping[Key, Run]) -> Row:
    return Row(name, _figures([recorded[k] for k in keys]), _figures([ours[k] for k in keys]))


def _wait_s(run: Run) -> float:
    return max(run.start_us - run.eligible_us, 0) / SECOND_US


def _figures(runs: list[Run]) -> Figures:
    if not runs:
        return Figures(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    waits = [_wait_s(run) for run in runs]
    slowdowns = [
        max(1.0, (wait * SECOND_US + run.run_us) / max(run.run_us, _BOUND_US))
        for wait, run in zip(waits, runs, strict=True)
    ]
    core_us = sum(run.run_us * run.cpus for run in runs)
    return Figures(
        jobs=len(runs),
        mean_wait_s=fmean(waits),
        median_wait_s=median(waits),
        max_wait_s=max(waits),
        mean_bounded_slowdown=fmean(slowdowns),
        core_hours=core_us / 3600 / SECOND_US,
    )


def _utilisation(
    begin_us: int, end_us: int, cpus: tuple[int, int], *worlds: Mapping[Key, Run]
) -> list[tuple[int, float, float]]:
    """Return used parts of both machines over the recorded time, in equal pieces."""
    width = max((end_us - begin_us) / _POINTS, 1)
    used = [_used(begin_us, width, world.values()) for world in worlds]
    whole = [max(count, 1) * width for count in cpus]
    return [
        (int(begin_us + index * width), used[0][index] / whole[0], used[1][index] / whole[1])
        for index in range(_POINTS)
    ]


def _used(begin_us: int, width: float, runs: Iterable[Run]) -> list[float]:
    """Return core-microseconds per piece of time."""
    used = [0.0] * _POINTS
    for run in runs:
        start = run.start_us - begin_us
        end = (run.end_us or run.start_us + run.run_us) - begin_us
        for index in range(max(int(start // width), 0), _POINTS):
            low, high = index * width, (index + 1) * width
            if low >= end:
                break
            used[index] += max(min(end, high) - max(start, low), 0) * run.cpus
    return used
