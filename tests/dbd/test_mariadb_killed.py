"""RELIABILITY 49: MariaDB dies in the middle of transactions; nothing is lost, nothing doubled."""

from __future__ import annotations

import gc
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

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
from tests.dbd.conftest import unprivileged

ROUNDS = 4
JOBS = 400


class Server:
    """A private MariaDB that can be killed and started again."""

    def __init__(self, place: Path) -> None:
        self.socket = f"{place}/socket"
        self._place = place
        self._options = unprivileged(place)
        install = shutil.which("mariadb-install-db")
        assert install is not None
        subprocess.run(
            [install, "--no-defaults", *self._options, f"--datadir={place}/data",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True,
            capture_output=True,
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        server = shutil.which("mariadbd")
        assert server is not None
        self.process = subprocess.Popen(
            [server, "--no-defaults", *self._options, f"--datadir={self._place}/data",
             f"--socket={self.socket}", "--skip-networking"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(600):
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.socket) == 0:
                    return
            time.sleep(0.05)
        pytest.skip("mariadbd does not start here")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.mark.daemons
# PyMySQL cannot say goodbye on a connection whose server is gone.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_server_loses_and_doubles_nothing() -> None:
    """Each message is sent until it is acknowledged, as the controller's link does."""
    if not shutil.which("mariadbd"):
        pytest.skip("mariadbd is not installed")
    kill_and_check()
    gc.collect()  # the driver's dead connections, while their complaints are expected


def kill_and_check() -> None:
    """Store jobs while the server is killed and started; compare what is stored."""
    place = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
    server = Server(place)
    dice = random.Random(49)
    database = Database(mysql_url("localhost", 0, "root", None, "acct", server.socket))
    finish = threading.Event()
    try:
        database.open()
        register(database)
        frames = [Frame(1, 1, [configured(at("12:00:00"))])]
        for job_id in range(1, JOBS + 1):
            begin = at("12:00:00") + job_id
            frames.append(Frame(1, len(frames) + 1, [submitted(begin, job_id)]))
            frames.append(Frame(1, len(frames) + 1, started(begin, job_id, on(1))))
            frames.append(Frame(1, len(frames) + 1, finished(begin, job_id, 3, 0)))

        def kill_now_and_then() -> None:
            for _ in range(ROUNDS):
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
            assert steps.scalar() == JOBS
        assert sorted(row.job_id for row in states) == list(range(1, JOBS + 1))
        assert {row.state for row in states} == {"COMPLETED"}
        assert failures, "the server was never missed: the test shows nothing"
    finally:
        finish.set()
        database.close()
        server.kill()
        shutil.rmtree(place)
