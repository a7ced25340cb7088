"""What a walk asks the limits of associations and QOS before a job starts or is promised room."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand import het
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask, Limits
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.limits.asks import given_ask, least_ask


class LimitGate:
    """The gate of one walk; without limits it is open.

    `stopped` has the partitions that are closed behind a job over a limit: assoc_limit_stop.
    """

    def __init__(self, limits: Limits | None, *, stops: bool) -> None:
        self.stopped: dict[str, Wait] = {}
        self.is_open = limits is None
        self._limits = limits
        self._stops = stops
        self._asks: dict[int, Ask] = {}  # by identity of the demand

    def over_least(self, job: Waiting, demand: Demand) -> Wait | None:
        """Return the limit that a job breaks at any start; then it keeps no room."""
        if self._limits is None:
            return None
        return self._limits.may_start(job, self._least(demand))

    def is_clear(self, job: Waiting, demand: Demand) -> bool:
        """Return whether it is plain that no limit keeps a job from a promise."""
        return self._limits is None or self._limits.is_clear(job, self._least(demand))

    def _least(self, demand: Demand) -> Ask:
        ask = self._asks.get(id(demand))
        if ask is None:
            ask = self._asks[id(demand)] = least_ask(demand)
        return ask

    def over_given(self, job: Waiting, demand: Demand, nodes: tuple[NodeAlloc, ...]) -> Wait | None:
        """Return the limit that a start on these nodes, with all they have, would break."""
        if self._limits is None:
            return None
        return self._limits.may_start(job, given_ask(demand, nodes))

    def over_together(self, placed: Iterable[het.Placed]) -> Wait | None:
        """Return the limit in the way of all components of a job together."""
        if self._limits is None:
            return None
        asked = [
            (placed_part.part.job, given_ask(placed_part.demand, placed_part.nodes or ()))
            for placed_part in placed
        ]
        return self._limits.may_start_all(asked)

    def took(self, job: Waiting, demand: Demand, nodes: tuple[NodeAlloc, ...]) -> None:
        """Count a start."""
        if self._limits is not None:
            self._limits.took(job, given_ask(demand, nodes))

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether all limits let a job be promised room."""
        return self._limits is None or self._limits.may_reserve(job, partition, priority)

    def stop(self, demand: Demand, wait: Wait) -> Wait:
        """With assoc_limit_stop, start no job behind one that waits for a limit."""
        if self._stops:
            name = demand.partition.name
            text = f"a job before it in {name} is over a limit: {wait.text}"
            self.stopped.setdefault(name, Wait(Reason.Priority, text))
        return wait
