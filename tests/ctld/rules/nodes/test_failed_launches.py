"""RELIABILITY 54c: a node that eats jobs is drained, one job after another of several users."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.nodes.failed_launches import IN_A_ROW, REASON
from pyslurm_ng.ctld.rules.nodes.reports import judge
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.update.update_nodes import update_nodes
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import NodeFlag
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter, UpdateNodes
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

BAD = 3
"""The only node of its partition."""


class FailingSite(Site):
    """A site of which one node launches nothing, or something."""

    def tell(self, report: nm.JobReport) -> None:
        self.apply(judge(self.cluster, BAD, report, self.conf, self.now_us))

    def launch(self, who: Caller, *, fails: bool, code: int = Errno.ESLURMD_JOB_NOTRUNNING) -> None:
        """Let a job of a user start on the node, and be over or not."""
        job = self.job(who, partition="debug", time_limit_min=5)
        self.run_pass()
        (launch,) = self.cluster.duties[BAD].values()
        key = (job.job_id, job.attempt)
        if fails:
            self.tell(nm.LaunchFailed(*key, launch.duty_id, code, "no such thing"))
        else:
            self.tell(nm.DutyDone(*key, launch.duty_id))
            self.tell(nm.BatchEnded(*key, 0, 0, self.now_us, self.now_us, END_CLEAN))
        for duty in list(self.cluster.duties.get(BAD, {}).values()):
            self.tell(nm.JobTerminated(*key, duty.duty_id))

    @property
    def reason(self) -> str:
        """Why the node is drained; "" when it is not."""
        node = self.cluster.node(BAD)
        return node.reason if node.flags & NodeFlag.DRAIN else ""


def failing(*users: Caller) -> FailingSite:
    """Return a site on which a job of each of these users failed in turn."""
    site = FailingSite()
    for who in users:
        site.launch(who, fails=True)
    return site


def test_a_node_is_drained_after_failures_in_a_row() -> None:
    """Its reason says why, nothing more starts there, and no other node is touched."""
    site = failing(*[ALICE, BOB] * 2)
    assert not site.reason
    site.launch(BOB, fails=True)
    assert site.reason == REASON == "5 failed launches in a row"
    waiting = site.job(BOB, partition="debug", time_limit_min=5)
    site.run_pass()
    assert not waiting.start_us
    others = [node for node in site.cluster.living_nodes() if node.node_id != BAD]
    assert not any(node.flags & NodeFlag.DRAIN for node in others)
    assert Cluster.from_bytes(site.cluster.to_bytes()).node(BAD).reason == REASON


def test_one_user_drains_no_node() -> None:
    """What one user asks for may be impossible everywhere; a second user's failure tells."""
    site = failing(*[ALICE] * (2 * IN_A_ROW))
    assert not site.reason
    site.launch(BOB, fails=True)
    assert site.reason == REASON


@pytest.mark.parametrize(
    "code", [Errno.ESLURMD_CREATE_BATCH_DIR_ERROR, Errno.ESLURMD_CREDENTIAL_REVOKED]
)
def test_a_broken_node_is_drained_on_a_site_of_one_user(code: int) -> None:
    """No request can break a spool or a key, and the node would eat the user's whole queue."""
    site = failing(*[ALICE] * IN_A_ROW)
    assert not site.reason
    for count in range(IN_A_ROW):
        assert not site.reason, count
        site.launch(ALICE, fails=True, code=code)
    assert site.reason == REASON


def test_a_launch_resets_the_count_of_failures() -> None:
    """Failures that come now and then do not mean that the node is broken."""
    site = failing(ALICE, BOB, ALICE, BOB)
    site.launch(BOB, fails=False)
    assert not site.cluster.node(BAD).failed_launches
    for who in (ALICE, BOB, ALICE, BOB):
        site.launch(who, fails=True)
    assert not site.reason


def test_resuming_the_node_resets_the_count() -> None:
    site = failing(ALICE, BOB, ALICE, BOB, ALICE)
    assert site.reason
    resume = UpdateNodes(bytes(16), "n4", {"state": "RESUME"})
    outcome = update_nodes(site.cluster, resume, site.context(ROOT))
    site.apply(list(outcome.events))  # type: ignore[union-attr]
    site.launch(ALICE, fails=True)
    assert not site.reason


@pytest.mark.parametrize("times", [1, 2 * IN_A_ROW])
def test_a_cancelled_job_counts_for_nothing(times: int) -> None:
    """Its credential is refused because it is over."""
    site = failing(ALICE, BOB, ALICE, BOB)
    for _ in range(times):
        job = site.job(BOB, partition="debug", time_limit_min=5)
        site.run_pass()
        (launch,) = site.cluster.duties[BAD].values()
        cancel = CancelJobs(bytes(16), JobFilter(jobs=[str(job.job_id)]))
        outcome = cancel_jobs(site.cluster, cancel, site.context(ROOT))
        site.apply(list(outcome.events))  # type: ignore[union-attr]
        late = nm.LaunchFailed(job.job_id, 0, launch.duty_id, 4011, "Job credential revoked")
        site.tell(late)
        for duty in list(site.cluster.duties.get(BAD, {}).values()):
            site.tell(nm.JobTerminated(job.job_id, 0, duty.duty_id))
    assert not site.reason
