"""RELIABILITY 19: each sync of the state disk takes half a second longer than it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctld.controller import Controller
from tests.ctld.submitter import Submitter

pytestmark = pytest.mark.daemons
LOOKS = 20


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(tmp_path, "MaxJobCount=1000000\n", sync_s=0.5)
    yield room
    room.stop()


def groups(controller: Controller) -> int:
    """Return how many syncs have brought batches to the disk."""
    return int(controller.call("ShowDiagnostics")["counters"]["journal_groups"])


def test_queries_do_not_wait_for_syncs_and_submissions_share_them(
    controller: Controller,
) -> None:
    """squeue stays fast, and a hundred jobs a second are accepted.

    The test counts syncs, not seconds: a query that waited for the disk would see one or two.
    """
    controller.start()
    submitters = [Submitter(controller, f"s{number}") for number in range(4)]
    for submitter in submitters:
        submitter.start()
    for submitter in submitters:
        assert submitter.enough.wait(60)
    controller.call("ShowJobs")  # the first one waits until it is recorded that ids may be seen
    before, promised = groups(controller), sum(len(submitter.promised) for submitter in submitters)
    for _ in range(LOOKS):
        assert controller.call("ShowJobs")["records"]
    syncs = groups(controller) - before
    promised = sum(len(submitter.promised) for submitter in submitters) - promised
    assert syncs < LOOKS / 2
    assert syncs == 0 or promised / syncs > 50 * 0.5  # of one sync or the next
    # What was promised is there after a crash, and no id that was seen is another job's.
    seen = controller.call("ShowConfig")["lines"]
    controller.kill()
    controller.start()
    known = controller.call("ShowJobs", flags=1)
    assert len(known["records"]) > 0
    assert next_id(controller) >= next_id_of(seen)


def next_id(controller: Controller) -> int:
    """Return the id of the next job."""
    return next_id_of(controller.call("ShowConfig")["lines"])


def next_id_of(lines: list[str]) -> int:
    """Return the same out of lines of `scontrol show config`."""
    line = next(line for line in lines if line.startswith("NEXT_JOB_ID"))
    return int(line.rpartition("=")[2])
