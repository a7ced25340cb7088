"""A controller's writer in this process: its disk, its loop and its clock are the test's."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model.cluster import Cluster
from tests.model.clusters import START_US, cluster_of
from tests.world.writer_ends import HeldJournal

Function = Callable[[], None]


class WriterRoom:
    """A writer whose disk is done, and whose functions run, when the test says so.

    It is also the clock and the loop that parts of a controller are given.

    Attributes:
        at_us: the present.
        soon: functions for the next turn of the loop.
        later: functions with the time when they are due.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        spared: Spared = raise_it,
        queries_hurry: bool = False,
    ) -> None:
        """Begin.

        Args:
            cluster: the state; by default four idle nodes.
            spared: is told what was raised about one thing only.
            queries_hurry: queries wait for the disk a tenth of a second at most.
        """
        self.at_us = START_US
        self.soon: list[Function] = []
        self.later: list[tuple[int, Function]] = []
        self.cluster = cluster_of() if cluster is None else cluster
        self.journal = HeldJournal()
        self.writer = Writer(
            self.cluster,
            self.journal,
            call_soon=self.call_soon,
            on_bug=self.on_bug,
            spared=spared,
            call_later=self.call_later if queries_hurry else None,
        )

    def on_bug(self, text: str, error: BaseException) -> None:
        """Fail the test: a rule's events broke an invariant."""
        raise AssertionError(text) from error

    def now_us(self) -> int:
        return self.at_us

    def monotonic_us(self) -> int:
        return self.at_us

    def call_soon(self, function: Function, /) -> None:
        self.soon.append(function)

    def call_later(self, delay_s: float, function: Function, /) -> None:
        self.later.append((self.at_us + round(delay_s * 1e6), function))

    def turn(self) -> None:
        """End one turn of the loop."""
        due, self.soon[:] = list(self.soon), []
        for function in due:
            function()

    def settle(self) -> None:
        """End turns until nothing is due; the disk does nothing."""
        while self.soon:
            self.turn()

    def sync(self, upto: int | None = None) -> None:
        """Let the disk be done with all records, or with those up to one."""
        self.settle()
        self.writer.on_durable(self.journal.appended if upto is None else upto)
        self.settle()

    def sleep(self, seconds: float) -> None:
        """Let time pass; the disk does nothing."""
        self.at_us += round(seconds * 1e6)
        due = [function for at_us, function in self.later if at_us <= self.at_us]
        self.later = [call for call in self.later if call[0] > self.at_us]
        for function in due:
            function()
        self.settle()
