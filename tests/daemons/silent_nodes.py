"""Three nodes that are lost after six seconds of silence, and a job whose node is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.daemons.faults import (
    wait_for_text,
    without_faults,
)
from tests.daemons.live import LiveCluster, start

TIMEOUT_S = 6


def states(cluster: LiveCluster) -> dict[str, str]:
    """Return what sinfo shows of each node: `idle`, `mix*`, `down*`."""
    lines = cluster.out("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
    return dict(line.split() for line in lines)


def is_well(shown: dict[str, str]) -> bool:
    return all(state in ("idle", "mix", "alloc", "comp") for state in shown.values())


RUNS_LONG = """
if [ -e {ledger}.pid ] && kill -0 $(cat {ledger}.pid) 2>/dev/null; then echo overlap >> {ledger}; fi
echo $$ > {ledger}.pid
echo run $SLURM_RESTART_COUNT on $SLURMD_NODENAME >> {ledger}
sleep 600
"""


def set_policy(cluster: LiveCluster, words: str) -> None:
    """Let the cluster go by other words of SlurmctldParameters."""
    path = cluster.directory / "etc" / "slurm.conf"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("SlurmctldParameters=")]
    path.write_text("\n".join([*kept, f"SlurmctldParameters={words}", ""]))
    cluster.out("scontrol", "reconfigure")
    cluster.wait_until("all nodes in service", lambda: is_well(states(cluster)))


def shown(cluster: LiveCluster, job: int, field: str) -> str:
    """Return a field of `scontrol show job`."""
    text = cluster.out("scontrol", "-o", "show", "job", str(job))
    words = [word for word in text.split() if word.startswith(f"{field}=")]
    return words[0].partition("=")[2] if words else ""


class Victim:
    """A job that runs on a node of its own until it is told to end."""

    def __init__(self, cluster: LiveCluster, name: str) -> None:
        self.cluster = cluster
        self.ledger = cluster.directory / f"ledger.{name}"
        script = RUNS_LONG.format(ledger=self.ledger)
        self.job = cluster.submit("--requeue", "-o", "/dev/null", "--wrap", script)
        wait_for_text(cluster, self.ledger)
        self.node = self.lines()[0].split()[-1]
        self.pid = int((cluster.directory / f"ledger.{name}.pid").read_text())

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    def wait_for_reason(self, reason: str) -> None:
        self.cluster.wait_until(reason, lambda: shown(self.cluster, self.job, "Reason") == reason)

    def wait_for_second_run(self) -> None:
        self.cluster.wait_until("second run", lambda: len(self.runs()) > 1)
        assert self.runs()[1].startswith("run 1 on "), self.lines()

    def runs(self) -> list[str]:
        return [line for line in self.lines() if line.startswith("run ")]

    def comment(self) -> str:
        """Return SystemComment, as sacct has it as well."""
        words = ("sacct", "-X", "-n", "-P", "-j", str(self.job), "-o", "SystemComment")
        self.cluster.wait_until("comment in sacct", lambda: bool(self.cluster.out(*words).strip()))
        (line,) = self.cluster.out(*words).splitlines()
        assert line in self.cluster.out("scontrol", "show", "job", str(self.job))
        return line

    def end(self) -> None:
        self.cluster.out("scancel", str(self.job))
        self.cluster.wait_for_jobs(self.job)
        self.cluster.wait_until("all nodes in service", lambda: is_well(states(self.cluster)))


def three_nodes(directory: Path, parameters: str = "") -> Iterator[LiveCluster]:
    """Run three nodes until the test module is over; no daemon may have had a fault by then.

    Args:
        parameters: words of SlurmctldParameters.
    """
    extra = directory / "extra.conf"
    extra.write_text(
        f"SlurmdTimeout={TIMEOUT_S}\nKillWait=1\nDefMemPerCPU=1\nReturnToService=2\n"
        "SchedulerParameters=requeue_delay=1\n"
        + (f"SlurmctldParameters={parameters}\n" if parameters else "")
    )
    made = start(directory / "c", "--nodes", "3", "--cpus", "8", "--conf", str(extra))
    with without_faults(made):
        yield made
