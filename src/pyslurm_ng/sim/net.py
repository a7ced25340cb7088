"""A network that delays, drops, repeats and cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyslurm_ng.sim.world import World


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong; rates are per message or per second of virtual time."""

    drop: float = 0.0
    repeat: float = 0.0
    delay_us: int = 200
    jitter_us: int = 0
    controller_crash_per_s: float = 0.0
    node_crash_per_s: float = 0.0
    cut_per_s: float = 0.0
    reload_per_s: float = 0.0

    @staticmethod
    def chosen(world: World) -> Faults:
        """Return rates drawn from the seed, so that rare combinations get their turn."""
        chance = world.random

        def pick(*rates: float) -> float:
            return chance.choice(rates)

        return Faults(
            drop=pick(0, 0, 0.02, 0.2),
            repeat=pick(0, 0, 0.05, 0.3),
            delay_us=chance.choice((50, 1_000, 200_000)),
            jitter_us=chance.choice((0, 1_000, 2_000_000)),
            controller_crash_per_s=pick(0, 0.002, 0.02),
            node_crash_per_s=pick(0, 0, 0.0005, 0.005),
            cut_per_s=pick(0, 0, 0.001, 0.005),
            reload_per_s=pick(0, 0, 0.01),
        )


class Network:
    """Carries messages between named peers; of those cut off some hear, or are heard, still.

    Attributes:
        deaf: peers that no message reaches.
        dumb: peers whose messages reach no peer.
        broken: pairs of peers of which the second does not hear the first.
        stopped: peers that stand still, with what waits for them to go on.
    """

    def __init__(self, world: World, faults: Faults) -> None:
        self.faults = faults
        self.deaf: set[str] = set()
        self.dumb: set[str] = set()
        self.broken: set[tuple[str, str]] = set()
        self.stopped: dict[str, list[Callable[[], None]]] = {}
        self._world = world

    def cut(self, name: str) -> None:
        """Cut a peer off, in one direction or in both."""
        how = self._world.random.choice(("deaf", "dumb", "both"))
        if how != "dumb":
            self.deaf.add(name)
        if how != "deaf":
            self.dumb.add(name)

    def heal(self, name: str) -> None:
        """Join a peer again."""
        self.deaf.discard(name)
        self.dumb.discard(name)

    def part(self, name: str, other: str) -> None:
        """Break the way between two peers, in one direction or in both."""
        how = self._world.random.choice(("there", "back", "both"))
        if how != "back":
            self.broken.add((name, other))
        if how != "there":
            self.broken.add((other, name))

    def join(self, name: str, other: str) -> None:
        """Mend the way between two peers."""
        self.broken -= {(name, other), (other, name)}

    def stop(self, name: str) -> None:
        """Let a peer stand still: it says nothing, and hears later what comes meanwhile."""
        self.stopped.setdefault(name, [])

    def go_on(self, name: str) -> None:
        """Let a peer go on with what has waited for it."""
        for deliver in self.stopped.pop(name, ()):
            deliver()

    def send(self, sender: str, other: str, deliver: Callable[[], None]) -> None:
        """Carry one message; it may come late, twice, or never."""
        chance, faults = self._world.random, self.faults
        if sender in self.dumb or other in self.deaf or chance.random() < faults.drop:
            return
        if (sender, other) in self.broken or sender in self.stopped:
            return
        copies = 2 if chance.random() < faults.repeat else 1
        for _ in range(copies):
            delay_us = faults.delay_us
            if faults.jitter_us:
                delay_us += chance.randrange(faults.jitter_us)
            self._world.after(delay_us, lambda: self._arrive(other, deliver))

    def _arrive(self, name: str, deliver: Callable[[], None]) -> None:
        waiting = self.stopped.get(name)
        if waiting is None:
            deliver()
        else:
            waiting.append(deliver)
