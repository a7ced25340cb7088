"""A real slurmctld whose planner raises about one job: the job is held, the daemon serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.kernels.records import project
from tests.ctld.controller import Controller
from tests.world.waiting import wait_until

pytestmark = pytest.mark.daemons
RAISING = """
import runpy
from pyslurm_ng.sched.backfill.walk import Walk
usual = Walk._consider
def raising(self, job, demand):
    if job.request.mincpus == 3:
        raise ZeroDivisionError("nobody foresaw this")
    return usual(self, job, demand)
Walk._consider = raising
from pyslurm_ng.ctld import routes
routes.QUERIES["ShowLicenses"] = lambda *words: 1 // 0
runpy.run_module("pyslurm_ng.ctld", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(tmp_path)
    room.program = ["-c", RAISING]
    yield room
    room.stop()


def reasons(controller: Controller) -> dict[int, str]:
    """Return why each job waits, as squeue has it."""
    reply = controller.call("ShowJobs", flags=2)
    fields = list(reply["fields"])
    columns = [fields.index("job_id"), fields.index("reason")]
    return {int(row[0]): str(row[1]) for row in project(bytes(reply["records"]), columns)}


def submit(controller: Controller, **wants: object) -> int:
    request = {"name": "j", "work_dir": "/", **wants}
    return int(controller.change("SubmitJob", request=request, script=b"#!/bin/sh\n")["job_id"])


def test_a_daemon_lives_with_a_job_that_makes_planning_raise(controller: Controller) -> None:
    """An event holds the job, so a restart holds it, too.

    sdiag counts it, the log names it, and -r resets the count.
    """
    controller.start()
    good, bad, late = submit(controller), submit(controller, mincpus=3), submit(controller)
    wait_until(lambda: reasons(controller)[bad] == "BadConstraints")
    wait_until(lambda: reasons(controller)[late] not in ("None", "BadConstraints"))
    assert reasons(controller)[good] != "BadConstraints"
    assert dict(controller.call("ShowDiagnostics")["faults"]) == {"job": 1}
    assert f"fault (job): job {bad} cannot be scheduled: ZeroDivisionError" in controller.log()
    controller.call("ResetDiagnostics")
    assert controller.call("ShowDiagnostics")["faults"] == []
    controller.kill()
    controller.start()
    assert reasons(controller)[bad] == "BadConstraints"
    assert controller.call("ShowDiagnostics")["faults"] == []


def test_a_request_that_raises_fills_no_log(controller: Controller) -> None:
    """Each is answered with one line; the log has one traceback for a minute of them."""
    from pyslurm_ng.wire.client import SlurmError

    controller.start()
    for _ in range(50):
        with pytest.raises(SlurmError, match="internal error"):
            controller.call("ShowLicenses")
    assert dict(controller.call("ShowDiagnostics")["faults"]) == {"request": 50}
    assert controller.log().count("ZeroDivisionError: integer") <= 2
    assert controller.call("Ping")["role"] == "primary"
