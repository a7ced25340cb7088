"""What a step manager has of the node daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model.job import Step
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted


class Hands(Protocol):
    """What a step manager has of the node daemon."""

    def conf(self) -> SlurmConf:
        """Return the configuration in force."""

    def now_us(self) -> int:
        """Return the time."""

    def credential(self, job: ManagedJob, step: Step, granted: StepGranted,
                   request: CreateStep) -> bytes:  # fmt: skip
        """Return what starts a step, signed."""

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """Call back after a while."""

    def run(self, work: Iterator[None]) -> None:
        """Go on with some work in turns of the loop."""

    def launch(self, job: ManagedJob, granted: StepGranted, launch: nm.LaunchStep) -> None:
        """Begin a step on its nodes without an srun; `not_launched` is told where it fails."""

    def end(self, job: ManagedJob, step: Step) -> None:
        """End a step on the nodes where it runs."""

    def report(self, job: ManagedJob, news: bytes) -> None:
        """Tell the controller."""

    def error(self, text: str) -> None:
        """Write a line into the log."""
