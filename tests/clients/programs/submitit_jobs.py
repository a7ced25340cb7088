"""submitit: one job, an array, a failing job, a checkpoint with requeue."""

import os
import time
from pathlib import Path

import submitit


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")


class Counter:
    """Count slowly; a requeued job goes on from its checkpoint."""

    def __init__(self, counts, start=0):
        self.counts = counts
        self.start = start

    def __call__(self):
        count = self.start
        while count < 20:
            count += 1
            self.start = count
            self.counts.touch()
            time.sleep(0.25)
        return count, int(os.environ.get("SLURM_RESTART_COUNT", 0))

    def checkpoint(self):
        return submitit.helpers.DelayedSubmission(Counter(self.counts, self.start))


def executor(folder, **options):
    made = submitit.AutoExecutor(folder=folder, cluster="slurm")
    made.update_parameters(timeout_min=5, mem_gb=0.5, cpus_per_task=1, **options)
    return made


def main():
    folder = Path("logs")
    added = executor(folder / "%j").submit(add, 2, 3)
    assert added.result() == 5, added.stderr()
    many = executor(folder, slurm_array_parallelism=2).map_array(add, range(5), range(5))
    assert [job.result() for job in many] == [0, 2, 4, 6, 8]
    while any(job.state != "COMPLETED" for job in many):
        time.sleep(1)
    bad = executor(folder).submit(fail)
    assert "on purpose" in str(bad.exception())
    wide = executor(folder, tasks_per_node=2, nodes=2).submit(add, 1, 1)
    assert wide.results() == [2] * 4
    counts = folder.resolve() / "counts"
    slow = executor(folder).submit(Counter(counts))
    while not counts.exists():
        time.sleep(0.2)
    slow._interrupt(timeout=False)  # what the time limit's signal does
    assert slow.result() == (20, 1)
    cancelled = executor(folder).submit(time.sleep, 60)
    cancelled.cancel()
    while not cancelled.done():
        time.sleep(0.2)
    assert cancelled.state.startswith("CANCELLED"), cancelled.state
    print("submitit", submitit.__version__, "ok")


main()
