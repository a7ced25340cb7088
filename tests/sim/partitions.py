"""A cluster whose network comes apart, and whose daemons stand still, under each `node_loss`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.programs.fences import Fences
from pyslurm_ng.ctld.programs.job_programs import Done
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model.job import JobRequest, is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.checks import Violation
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.net import Faults
from pyslurm_ng.sim.programs import Silence

PARTITIONS = 10
_EVERY_S = 60


class Partitions(Chaos):
    """A life with ten faults of the network; `ledger.overlap_us` says what came of them.

    Attributes:
        partitions: how many faults there were.
    """

    def __init__(self, seed: int, plan: object, policy: str, *, fences: bool = False) -> None:
        words = f"node_loss={policy}" + (",fence_program=/fence" if fences else "")
        conf = (
            f"SlurmctldParameters={words}\nSchedulerParameters=requeue_delay=1\n"
            "PartitionName=long Nodes=n[1-4] DefMemPerCPU=100\n"
        )
        super().__init__(seed, plan, 24, conf=conf)  # type: ignore[arg-type]
        chance = self.world.random
        self.faults = Faults(
            drop=chance.choice((0, 0.02)), delay_us=200, jitter_us=chance.choice((0, 100_000))
        )
        self.network.faults = self.faults
        self.partitions = 0

    def run(self) -> None:
        """Let ten faults come one after the other, some at once; then calm."""
        self.users.begin()
        self.daemons.begin()
        self._tick()
        for number in range(PARTITIONS):
            self.world.after((30 + number * _EVERY_S) * SECOND_US, self._break)
        self.world.run(until_us=self.world.now_us + (PARTITIONS + 2) * _EVERY_S * SECOND_US)
        self._calm_down()
        self.world.run(until_us=self.world.now_us + 14400 * SECOND_US, stop=self._all_over)
        self._judge()

    def request(self, number: int, mark: str) -> JobRequest:
        """Return a job of one node that may be put back into the queue."""
        return JobRequest(name="job", comment=mark, ntasks=1, work_dir="/tmp", partition="long")

    def run_time_us(self) -> int:
        """Return a time in which there are several faults."""
        return self.world.random.choice((20, 200, 900)) * SECOND_US

    def _start_controller(self, payloads: list[bytes]) -> None:
        super()._start_controller(payloads)
        controller = self._alive()
        self._fences = Fences(
            controller.writer,
            controller.soft,
            self.conf,
            _Fencing(self, controller),
            now_us=lambda: self.world.now_us,
            log=Silence(),
        )

    def _tick(self) -> None:
        """One that stands still does nothing in its time either."""
        if "ctl" in self.network.stopped:
            self.world.after(5 * SECOND_US, self._tick)
            return
        if self.controller is not None:
            self._fences.tick()
        super()._tick()

    def _break(self) -> None:
        """Break one thing for some time, and perhaps the controller with it."""
        chance, network = self.world.random, self.network
        if chance.random() < 0.15 and self.controller is not None:
            self._crash_controller()
        elif chance.random() < 0.15:
            network.stop("ctl")
            self.world.after(chance.choice((10, 50)) * SECOND_US, lambda: network.go_on("ctl"))
        name = chance.choice([node.name for node in self.daemons.nodes])
        others = [node.name for node in self.daemons.nodes if node.name != name]
        how = chance.choice(("node", "way", "way", "between", "group", "stop", "crash"))
        pairs: list[tuple[str, str]] = []
        if how == "node":
            network.cut(name)
        elif how == "way":
            pairs = [(name, "ctl")]
        elif how == "between":
            pairs = [(name, "ctl"), (name, chance.choice(others))]
        elif how == "group":
            pairs = [(name, "ctl"), (chance.choice(others), "ctl")]
        elif how == "stop":
            network.stop(name)
        else:
            self.daemons.crash(self.daemons.node(name))
        for first, other in pairs:
            network.part(first, other)
        self.partitions += 1

        def heal() -> None:
            network.heal(name)
            for node, other in pairs:
                network.join(node, other)
            if how == "stop":
                network.go_on(name)

        self.world.after(chance.choice((10, 45, 100, 400)) * SECOND_US, heal)

    def overlap_s(self) -> float:
        """Return how long, in all, some job ran in two places at once."""
        return self.ledger.overlap_us / 1e6


class _Fencing:
    """A fence_program: it fails at times, and else has switched the node off and on."""

    def __init__(self, life: Partitions, controller: SimController) -> None:
        self._life = life
        self._controller = controller

    def run(
        self, patterns: Sequence[str], environment: Mapping[str, str], limit_s: int, done: Done, /
    ) -> Callable[[], object]:
        life, name = self._life, environment["SLURM_NODE_NAME"]

        def end() -> None:
            if life.controller is not self._controller:
                return
            fails = life.world.random.random() < 0.3
            if not fails:
                life.daemons.crash(life.daemons.node(name))
            done(HookResult(256 if fails else 0, "exit code 1" if fails else ""))

        life.world.after(5 * SECOND_US, end)
        return lambda: None


class Outage(Partitions):
    """A controller that is away for an hour, killed or standing still, while jobs run.

    Attributes:
        lasted: (job, attempt) of the runs that went on through the outage.
    """

    lasted: set[tuple[int, int]]

    def run(self) -> None:
        """Let jobs begin, take the controller away, bring it back; none of the jobs ends of it."""
        for number in range(self.users.jobs):
            self.users.client(number)()
        self.daemons.begin()
        self._tick()
        self._pass(120)
        begun = self._runs()
        if not begun:
            raise Violation("no job runs")
        self._take_away()
        self._pass(7200)
        self._expect(begun)
        self.lasted = begun
        self._calm_down()

    def run_time_us(self) -> int:
        """Return a time that is not over before the outage is."""
        return 24 * 3600 * SECOND_US

    def _take_away(self) -> None:
        if self.world.random.random() < 0.5:
            self.network.stop("ctl")
            self.world.after(3600 * SECOND_US, lambda: self.network.go_on("ctl"))
            return
        controller = self._alive()
        controller.runner.stop()
        kept = self.payloads + controller.journal.crash()
        self.controller = None
        self.world.after(3600 * SECOND_US, lambda: self._start_controller(kept))

    def _pass(self, seconds: int) -> None:
        self.world.run(until_us=self.world.now_us + seconds * SECOND_US)

    def _runs(self) -> set[tuple[int, int]]:
        """Return (job, attempt) of all that run by the books."""
        cluster = self._alive().cluster
        jobs = (cluster.jobs[job_id] for job_id in cluster.job_index.active)
        return {
            (job.job_id, job.attempt)
            for job in jobs
            if job.state == JobState.RUNNING and not is_completing(job)
        }

    def _expect(self, begun: set[tuple[int, int]]) -> None:
        """Raise Violation unless all these run still, in the books and on nodes."""
        there = {key for node in self.daemons.nodes for key in node.scripts}
        if not begun <= self._runs() or not begun <= there:
            raise Violation(f"{len(begun - self._runs())} of {len(begun)} jobs ended in an outage")
