"""What only a client of the wire would ask for is refused by the name of its field, not later.

RELIABILITY 42: some numbers and words passed every check, and raised in planning or at the start.
"""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_MEM_SET
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.wire.query_messages import HoldJobs, JobsChanged
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

MOST_MIB = 2**53 - 1


@pytest.mark.parametrize(
    "request_of",
    [
        {"mem_per_cpu_mib": MOST_MIB, "nodes_min": 65535},
        {"mem_per_cpu_mib": MOST_MIB, "ntasks": 3},
        {"mem_per_gpu_mib": MOST_MIB, "gpus": "3"},
        {"mem_per_gpu_mib": 2**48 - 1},
        {"mem_per_node_mib": MOST_MIB, "nodes_min": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("more", ["", "MaxMemPerCPU=4000", "SelectType=select/linear"])
def test_memory_that_cannot_be_counted_is_refused(request_of: dict[str, object], more: str) -> None:
    """A pass over the others would raise, and be run again without the job."""
    outcome = Site(f"GresTypes=gpu\n{more}").answer(**request_of)
    assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_INVALID_TASK_MEMORY
    assert "mem_per" in outcome.detail and "MiB" in outcome.detail


@pytest.mark.parametrize("field", ["gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task"])
def test_no_gpus_may_be_asked_for_where_there_are_none(field: str) -> None:
    """`--gpus=0` of a script that runs anywhere."""
    assert not isinstance(Site('GresTypes=""\n').answer(**{field: "0"}), Reject)
    refused = Site('GresTypes=""\n').answer(**{field: "1"})
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_INVALID_GRES


def test_much_memory_waits_as_before() -> None:
    """A terabyte on each of sixty thousand nodes can still be counted."""
    scene = Site(plan=Planner())
    job = scene.job(mem_per_node_mib=1 << 20, nodes_min=60_000)
    scene.run_pass()
    assert not job.start_us


@pytest.mark.parametrize("text", ["nopack", "block:nopack", "plane", "a:b:c:d", "block,pack,pack"])
def test_a_distribution_that_cannot_be_read_is_refused(text: str) -> None:
    """It raised when the job was to be launched."""
    outcome = Site().answer(distribution=text)
    assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_BAD_DIST
    assert outcome.detail.startswith("distribution: ")
    assert Site().job(distribution="*,nopack")
    assert Site().job(distribution="plane", plane_size=2)


@pytest.mark.parametrize("private", [True, False])
def test_names_of_others_jobs_are_private(private: bool) -> None:
    """RELIABILITY 58: `scontrol hold name=X` showed the id of another user's job."""
    scene = Site("PrivateData=jobs" if private else "")
    job = scene.job(ALICE, name="secret")

    def errors(who: object) -> list[tuple[str, int, str]]:
        hold = HoldJobs(bytes(16), name="secret")
        outcome = hold_jobs(scene.cluster, hold, scene.context(who))  # type: ignore[arg-type]
        assert not isinstance(outcome, Reject) and isinstance(outcome.reply, JobsChanged)
        return outcome.reply.errors

    ((text, code, _),) = errors(BOB)
    if private:
        assert (text, code) == ("secret", Errno.ESLURM_INVALID_JOB_ID)
    else:
        assert (text, code) == (str(job.job_id), Errno.ESLURM_USER_ID_MISSING)
    assert errors(ALICE) == errors(ROOT) == []


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [("5", True), ("task=4", True), ("energy=60", True), ("6", False), ("task=0", False),
     ("energy=60,task=6", False)],
)  # fmt: skip
def test_memory_is_sampled_as_often_as_configured(text: str, is_taken: bool) -> None:
    """A job with a limit of memory may ask for it more often, not less."""
    for field in ("mem_per_node_mib", "mem_per_cpu_mib"):
        outcome = Site("JobAcctGatherFrequency=5").answer(acctg_freq=text, **{field: 100})
        assert isinstance(outcome, Reject) is not is_taken
        if isinstance(outcome, Reject):
            assert outcome.code == Errno.ESLURMD_INVALID_ACCT_FREQ
    by_default = Site("JobAcctGatherFrequency=5").answer(acctg_freq=text)
    assert isinstance(by_default, Reject) is not is_taken
    assert Site("JobAcctGatherFrequency=5").job(acctg_freq=text, flags=REQ_MEM_SET)
    assert Site("JobAcctGatherFrequency=0").job(acctg_freq=text, mem_per_node_mib=100)
