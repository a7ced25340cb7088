"""A stream of submissions with a ledger: what was promised, what ran, and whether both agree."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.daemons.faults import as_user
from tests.daemons.live import LiveCluster


class Submitter(threading.Thread):
    """Submits without pause until told to stop; remembers what it was promised.

    Each job adds a line "MARK JOBID RESTARTS" to the ledger when it runs.

    Args:
        user: who submits; the caller unless given.
        most: stop after so many promises.
    """

    def __init__(
        self, cluster: LiveCluster, name: str, ledger: Path, user: str = "", most: int = 1 << 30
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._mark = name
        self._ledger = ledger
        self._user = user
        self._most = most
        self.promises: dict[int, str] = {}
        self.unexpected: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.is_over.is_set() and len(self.promises) < self._most:
            number += 1
            mark = f"{self._mark}.{number}"
            words = (
                "sbatch", "--parsable", "-o", "/dev/null", "--comment", mark, "--wrap",
                f"echo {mark} $SLURM_JOB_ID $SLURM_RESTART_COUNT >> {self._ledger}",
            )  # fmt: skip
            if self._user:
                done = as_user(self._cluster, self._user, *words)
            else:
                done = self._cluster.run(*words)
            if done.returncode == 0:
                job_id = int(done.stdout)
                if job_id in self.promises:
                    self.unexpected.append(f"{job_id} twice")
                self.promises[job_id] = mark
            elif "Traceback" in done.stderr or not done.stderr:
                self.unexpected.append(done.stderr)


@contextmanager
def submissions(
    cluster: LiveCluster, ledger: Path, names: Sequence[str], users: Sequence[str] = ("",)
) -> Iterator[list[Submitter]]:
    """Run a submitter for each name, of the users in turn, until the block ends."""
    submitters = [
        Submitter(cluster, name, ledger, users[number % len(users)])
        for number, name in enumerate(names)
    ]
    for submitter in submitters:
        submitter.start()
    try:
        yield submitters
    finally:
        for submitter in submitters:
            submitter.is_over.set()
        for submitter in submitters:
            submitter.join()


def wait_for_promises(cluster: LiveCluster, submitters: Sequence[Submitter], more: int) -> None:
    """Wait until so many further submissions have been promised, however long each takes."""

    def promised() -> int:
        return sum(len(submitter.promises) for submitter in submitters)

    goal = promised() + more
    cluster.wait_until(f"{more} further promises", lambda: promised() >= goal)


def promises_of(submitters: Sequence[Submitter]) -> dict[int, str]:
    """Return the mark of each promised job; no id may have been given twice."""
    assert [word for submitter in submitters for word in submitter.unexpected] == []
    promises: dict[int, str] = {}
    for submitter in submitters:
        assert not promises.keys() & submitter.promises.keys(), "an id was given twice"
        promises.update(submitter.promises)
    return promises


def check_ledger(ledger: Path, promises: dict[int, str]) -> None:
    """Fail unless each promised job ran once under its own mark."""
    lines = ledger.read_text().splitlines()
    assert len(lines) == len(set(lines)), "a job ran twice"
    ran = {int(line.split()[1]): line.split()[0] for line in lines}
    assert len(ran) == len(lines), "a job ran again under its id"
    lost = {job_id: mark for job_id, mark in promises.items() if ran.get(job_id) != mark}
    assert lost == {}
    # A job whose reply was lost is there once, under its mark.
    assert len(set(ran.values())) == len(ran)
