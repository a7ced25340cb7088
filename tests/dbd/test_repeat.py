"""Work that slurmdbd repeats goes on after errors, which are counted, and ends when it is told."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest
import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd.repeat import RepeatedWork


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (sa.exc.OperationalError("", {}, Exception("gone")), {"database": 1}),
        (ValueError("a bug"), {"internal": 1}),
        (CancelledError(), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_counted_by_kind(error: Exception, counts: dict[str, int]) -> None:
    """Cancelled work is no fault: the daemon ends."""
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    faults = Faults(log)
    is_called = threading.Event()

    def work() -> None:
        is_called.set()
        raise error

    thread = RepeatedWork("tests", work, faults)
    thread.start()
    is_called.wait()
    assert not thread.is_stopping
    thread.close()
    thread.join()
    assert dict(faults.counts) == counts
    assert thread.is_stopping


def test_work_that_never_began_can_be_ended() -> None:
    """The daemon ends it also when its start fails."""
    thread = RepeatedWork("tests", lambda: None, Faults(DaemonLog("slurmdbd")))
    thread.close()
    thread.join()
    assert thread.is_stopping
