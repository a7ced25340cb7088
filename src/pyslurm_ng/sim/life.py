"""What the controller, the nodes and the users of one simulated life have in common."""

from __future__ import annotations

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.buffers.directives import LUA
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sim.checks import Ledger, Violation
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.net import Faults, Network
from pyslurm_ng.sim.world import World


def never_refused(code: int, text: str) -> None:
    """Judge a refusal where none may come."""
    raise Violation(f"a request was refused: {code} {text}")


class Life:
    """One seed's life of a cluster; tests replace what is public here.

    Attributes:
        controller: the one that runs; None while there is none.
    """

    def __init__(self, world: World, conf: SlurmConf, partitions: tuple[str, ...]) -> None:
        """Begin without a controller; users submit to one of these partitions, by chance."""
        self.world = world
        self.conf = conf
        self.faults = Faults.chosen(world)
        self.network = Network(world, self.faults)
        self.ledger = Ledger()
        self.controller: SimController | None = None
        self._partitions = partitions

    def run_time_us(self) -> int:
        """Return how long a script runs."""
        return self.world.random.choice((0, 1, 20, 200)) * SECOND_US

    def request(self, number: int, mark: str) -> JobRequest:
        """Return what a user asks for."""
        chance = self.world.random
        has_buffer = self.conf.burst_buffer_type == LUA and chance.random() < 0.7
        return JobRequest(
            burst_buffer="#BB_LUA pool=fast capacity=3" if has_buffer else "",
            name=f"job{number % 3}",
            comment=mark,
            ntasks=chance.choice((1, 1, 2, 6)),
            gpus=chance.choice(("", "", "1")),
            work_dir="/tmp",
            array=chance.choice(("", "", "", "0-4%2")),
            partition=chance.choice(self._partitions) if self._partitions else "",
        )

    def refused(self, code: int, text: str) -> None:
        """Judge that a submission was refused."""
        never_refused(code, text)

    def caller(self, number: int) -> Caller:
        """Return the identity of a client."""
        return Caller(1001, 1001, "alice", "alice")

    def order_left(self) -> None:
        """Take notice of an order that has just left the controller."""

    def reports_came(self) -> None:
        """Take notice of reports that the controller has just heard."""
