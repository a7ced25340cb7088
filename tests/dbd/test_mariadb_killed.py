"""RELIABILITY 49: MariaDB dies in the middle of transactions; nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import threading

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, mysql_url, with_retries
from pyslurm_ng.dbd.ingest.batches import Frame, ingest
from tests.dbd.accounting_room import (
    JOURNAL,
    at,
    configured,
    finished,
    on,
    register,
    started,
    submitted,
)
from tests.dbd.mariadb import Server


@pytest.mark.daemons
@pytest.mark.parametrize(
    ("rounds", "jobs"), [(2, 100), pytest.param(30, 3000, marks=pytest.mark.soak)]
)
def test_a_killed_server_loses_and_doubles_nothing(rounds: int, jobs: int) -> None:
    """Each message is sent until it is acknowledged, as the controller's link does."""
    server = Server()
    dice = random.Random(49)
    database = Database(mysql_url("localhost", 0, "root", None, "acct", server.socket))
    finish = threading.Event()
    try:
        database.open()
        register(database)
        frames = [Frame(1, 1, [configured(at("12:00:00"))])]
        for job_id in range(1, jobs + 1):
            begin = at("12:00:00") + job_id
            frames.append(Frame(1, len(frames) + 1, [submitted(begin, job_id)]))
            frames.append(Frame(1, len(frames) + 1, started(begin, job_id, on(1))))
            frames.append(Frame(1, len(frames) + 1, finished(begin, job_id, 3, 0)))

        def kill_now_and_then() -> None:
            for _ in range(rounds):
                if finish.wait(dice.uniform(0.05, 0.4)):
                    return
                server.kill()
                server.start()

        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        failures: list[str] = []
        position = 0
        while position < len(frames) or killer.is_alive():
            piece = frames[position : position + dice.randint(1, 12)]
            if not piece:
                piece = frames[-5:]  # go on sending what is known already
            after = piece[0].sequence - 1

            def send(piece: list[Frame] = piece, after: int = after) -> int:
                return ingest(database, 1, JOURNAL, after, piece)[1]

            stored = with_retries(
                send,
                lambda attempt: not finish.wait(0.02),
                lambda error: failures.append(str(error)),
            )
            assert stored >= piece[-1].sequence
            position = max(position, piece[-1].sequence)
        killer.join()
        with database.read() as connection:
            states = connection.execute(
                sa.select(schema.jobs.c.job_id, schema.jobs.c.state, schema.jobs.c.end_us)
            ).all()
            steps = connection.execute(sa.select(sa.func.count()).select_from(schema.steps))
            assert steps.scalar() == jobs
        assert sorted(row.job_id for row in states) == list(range(1, jobs + 1))
        assert {row.state for row in states} == {"COMPLETED"}
        assert failures, "the server was never missed: the test shows nothing"
    finally:
        finish.set()
        database.close()
        server.remove()
