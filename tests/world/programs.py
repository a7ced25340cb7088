"""Programs of a controller: some that run until the test ends them, some that are only noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyslurm_ng.ctld.programs.job_programs import Done


@dataclass
class Run:
    """A program that runs."""

    program: str
    environment: Mapping[str, str]
    limit_s: int
    done: Done
    is_killed: bool = False

    def kill(self) -> None:
        self.is_killed = True


class HeldPrograms:
    """Starts programs; `runs` has those started, in order."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def run(
        self, patterns: Sequence[str], environment: Mapping[str, str], limit_s: int, done: Done, /
    ) -> Callable[[], object]:
        started = Run(patterns[0], environment, limit_s, done)
        self.runs.append(started)
        return started.kill


class NotedPrograms:
    """Runs nothing; `runs` has the words and the environment of each program, in order."""

    def __init__(self) -> None:
        self.runs: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def run(self, argv: Sequence[str], environment: Mapping[str, str], uid: int = 0, /) -> None:
        self.runs.append((tuple(argv), dict(environment)))
