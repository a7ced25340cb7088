"""Which of a run's processes does which tests next."""

from __future__ import annotations

import os
from collections.abc import Sequence

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WAITING = ("tests/daemons/", "tests/d/", "tests/clients/", "tests/launcher/")
"""Whose tests mostly wait: for daemons, for what they start, for a time limit."""
LONGEST = (
    "tests/daemons/test_partitions_live.py",
    "tests/daemons/test_hostile_load.py",
    "tests/daemons/test_clock_jumps.py",
    "tests/daemons/test_replays_live.py",
    "tests/daemons/test_silence_live.py",
    "tests/daemons/test_faults_daemons.py",
    "tests/daemons/test_ends_live.py",
    "tests/daemons/test_preempt_live.py",
    "tests/daemons/test_full_disks.py",
    "tests/d/stepd/test_ends.py",
)
"""What takes longest of these begins first: the last file of a run keeps only one process busy."""


def waits(unit: str) -> bool:
    """Return whether a file's tests mostly wait."""
    return unit.startswith(WAITING)


class FilesApart(LoadScopeScheduling):
    """Keeps one file's tests in one process, since they share daemons, except simulations.

    Those share nothing, and some of their files take minutes: the last file of a run would hold up
    one process while the others wait.

    There are more processes than CPUs. As many as there are CPUs begin with tests that compute, the
    others with tests that wait, so that the CPUs have work until both kinds come to an end.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith("tests/sim/") else nodeid.partition("::")[0]

    def schedule(self) -> None:
        tests = next(iter(self.registered_collections.values()))
        self._numbers = {test: number for number, test in enumerate(tests)}
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        # As the class above does, which looks through all tests for the number of each.
        computes = list(self.assigned_work).index(node) < (os.cpu_count() or 1)
        name = next_unit(list(self.workqueue), computes)
        unit = self.workqueue.pop(name)
        self.assigned_work[node][name] = unit
        node.send_runtest_some(
            [self._numbers[test] for test, is_over in unit.items() if not is_over]
        )


def next_unit(queue: Sequence[str], computes: bool) -> str:
    """Return what a process takes of a queue: of its own kind while there is any.

    Args:
        computes: whether its own kind are tests that compute.
    """
    own = [unit for unit in queue if waits(unit) != computes]
    longest = [unit for unit in LONGEST if unit in own]
    return (longest or own or queue)[0]
