"""What runs under one limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyslurm_ng.sched.frame.measures import Ask


@dataclass(slots=True)
class Used:
    """What runs under one limit: jobs, amounts by TRES, TRES-minutes still to come, nodes.

    `node_ids` has how many of the jobs are on each node; {} if no limit needs it.
    """

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)
    run_min: dict[str, int] = field(default_factory=dict)
    node_ids: dict[int, int] = field(default_factory=dict)

    def add(self, ask: Ask, run_min: int, jobs: int = 1, *, with_nodes: bool = True) -> None:
        """Count one more job, which is to run `run_min` minutes; or with -1 for `jobs` one less."""
        self.jobs += jobs
        for name, count in ask.amounts.items():
            self.tres[name] = self.tres.get(name, 0) + count * jobs
            self.run_min[name] = self.run_min.get(name, 0) + count * run_min * jobs
        for node_id in ask.node_ids() if with_nodes else ():
            job_count = self.node_ids.get(node_id, 0) + jobs
            if job_count:
                self.node_ids[node_id] = job_count
            else:
                del self.node_ids[node_id]

    def copied(self) -> Used:
        """Return the same, which counts on its own from here."""
        return Used(self.jobs, dict(self.tres), dict(self.run_min), dict(self.node_ids))


NOTHING = Used()
Counter = tuple[str | int, ...]
"""Whose jobs count: `assoc` and its id, or `qos`, its name and perhaps a user or account in it."""
