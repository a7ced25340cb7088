"""Runs ResvProlog when a reservation begins and ResvEpilog when it ends.

A view of the events: the programs get the reservation's name as their only argument, and nothing
waits for them. One that was due when the controller crashed is lost, none runs twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster


class Runner(Protocol):
    """`Programs`."""

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Run a program some time soon."""


class ReservationPrograms:
    """Follows reservations.

    Attributes:
        conf: in force now; names the programs.
    """

    def __init__(
        self,
        cluster: Cluster,
        conf: SlurmConf,
        runner: Runner,
        when_durable: Callable[[Callable[[], None]], None],
    ) -> None:
        self.conf = conf
        self._runner = runner
        self._when_durable = when_durable
        # By name: the start of the occurrence that is in force.
        self._active = {
            name: reservation.start_us
            for name, reservation in cluster.reservations.items()
            if reservation.is_active
        }

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Run what events just applied bring."""
        for event in events:
            if isinstance(event, (ev.ReservationCreated, ev.ReservationUpdated)):
                reservation = event.reservation
                self._change(reservation.name, reservation.start_us if reservation.is_active else 0)
            elif isinstance(event, ev.ReservationDeleted):
                self._change(event.name, 0)

    def _change(self, name: str, start_us: int) -> None:
        """Note an occurrence; one may follow the other without a pause."""
        before_us = self._active.pop(name, 0)
        if start_us:
            self._active[name] = start_us
        if before_us == start_us:
            return
        if before_us:
            self._run(self.conf.resv_epilog, name)
        if start_us:
            self._run(self.conf.resv_prolog, name)

    def _run(self, program: str, name: str) -> None:
        if program:
            self._when_durable(partial(self._runner.run, (program, name), {}))
