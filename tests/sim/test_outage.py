"""Six hours without slurmdbd, the controller killed twice in them: each job is accounted once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import decode_frame
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.checks import check_cluster
from tests.dbd.accounting_room import JOURNAL, register, rows

HOURS_US = 6 * 3600 * SECOND_US
# On four nodes three thousand jobs queue up, and the passes over the queue take all the time.
ROOM = """
NodeName=n[5-24] CPUs=8 RealMemory=8000 Gres=gpu:2
PartitionName=wide Nodes=n[1-24] MaxTime=60 DefMemPerCPU=100
"""


class Outage(Chaos):
    """A life without other faults: users come all the time, and the controller dies twice."""

    def run(self) -> list[bytes]:
        """Run six hours and until all jobs have ended; return the whole journal."""
        begin_us = self.world.now_us
        first = encode_batch(configure(Cluster(), self.conf, begin_us, self.topologies))
        chance = self.world.random
        self._calm = True
        self.check_every = 1 + self.users.jobs // 20
        for number in range(self.users.jobs):
            self.world.at(begin_us + chance.randrange(HOURS_US), self.users.client(number))
        for part in (2, 4):
            self.world.at(begin_us + part * HOURS_US // 6, self._crash_controller)
        self.daemons.begin()
        self._tick()
        self.world.run(until_us=begin_us + HOURS_US)
        self._calm_down()
        self.world.run(until_us=self.world.now_us + HOURS_US, stop=self._all_over)
        self._judge()
        check_cluster(self._alive().cluster)
        assert self.crashes == 2 and self.controller is not None
        return [first, *self.payloads, *self.controller.journal.payloads]


@pytest.mark.parametrize(("seed", "jobs"), [(1, 60), pytest.param(2, 3000, marks=pytest.mark.soak)])
def test_nothing_is_lost_or_doubled(seed: int, jobs: int, tmp_path: Path) -> None:
    """slurmdbd comes back and gets the journal in pieces; some are sent again, as after an answer
    that was lost. RELIABILITY 48."""
    life = Outage(seed, Planner(), jobs, conf=ROOM, partitions=("wide",))
    payloads = life.run()
    dice = random.Random(seed)
    database = Database(sqlite_url(f"{tmp_path}/acct.sqlite"))
    database.open()
    register(database)
    frames = [decode_frame(1, number, payload) for number, payload in enumerate(payloads, 1)]
    position = 0
    while position < len(frames):
        count = dice.randint(1, 200)
        for _ in range(dice.choice((1, 1, 2))):
            stored = ingest(database, 1, JOURNAL, position, frames[position : position + count])[1]
        position = min(position + count, len(frames))
        assert stored == position
    assert life.controller is not None
    ended = {
        job.job_id: job.end_us
        for job in life.controller.cluster.jobs.values()
    }  # fmt: skip
    records = rows(database, schema.jobs, "job_id", "is_last", "end_us", "attempt")
    last = Counter(job_id for job_id, is_last, _, _ in records if is_last)
    assert set(last) == set(ended) and set(last.values()) == {1}
    assert {job_id: end_us for job_id, is_last, end_us, _ in records if is_last} == ended
    runs = Counter((job_id, attempt) for job_id, _, _, attempt in records)
    assert set(runs.values()) == {1}
    promised = {number for _, number in life.ledger.promised.items()}
    assert len(promised) == jobs and promised <= set(last)
    database.close()
