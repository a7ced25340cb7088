"""RawUsage=0: what an account and those below it lose, and with them the accounts above."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.rules.assoc import mirror, usage_resets
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, OwnerUsage, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.dbd_messages import AssociationUpdate
from tests.ctld.followers.usage_runs import ends, started, told
from tests.model.clusters import START_US, conf_of
from tests.sched.whole_nodes import WHOLE_NODES

CONF = conf_of(f"{WHOLE_NODES}\nPriorityDecayHalfLife=0\n")
RESET_US = START_US + 10 * MINUTE_US
TREE = (
    Association(1, "physics"),
    Association(2, "physics", "ann", parent_id=1),
    Association(3, "physics", "bob", parent_id=1),
)


def in_use() -> tuple[Cluster, UsageIndex, int]:
    """Return a cluster where ann's job of two CPUs runs, and bob's have used 40 minutes of CPUs."""
    cluster, _, job = started(TREE[0].limits, Qos(1, "normal"))
    told_all = UsageIndex(cluster, CONF)
    told(cluster, told_all, ev.AssocChanged(START_US, changed=TREE, version=2))
    sums = [OwnerUsage("assoc", number, START_US, 1200, {"cpu": 2400}) for number in (1, 3)]
    told(cluster, told_all, ev.UsageKept(START_US, START_US - 1, tuple(sums)))
    return cluster, UsageIndex(cluster, CONF), job.job_id


def used_min(index: UsageIndex, now_us: int) -> list[float]:
    """Return the CPU minutes of physics, ann, bob and QOS normal."""
    spent = index.counted(now_us)[1]
    owners = [("assoc", 1), ("assoc", 2), ("assoc", 3), ("qos", "normal")]
    return [round(spent(owner).tres_s.get("cpu", 0) / 60, 2) for owner in owners]


def everyone(cluster: Cluster, index: UsageIndex) -> list[UsageIndex]:
    """Return the index, and that of a controller that starts now."""
    return [index, UsageIndex(Cluster.from_bytes(cluster.to_bytes()), CONF)]


@pytest.mark.parametrize(
    ("assoc_ids", "remaining"),
    [
        ((2,), [40, 0, 40, 20]),
        ((3,), [20, 20, 0, 20]),
        ((1, 2, 3), [0, 0, 0, 20]),
    ],
)
@pytest.mark.parametrize("runs_on", [True, False])
def test_accounts_above_have_used_so_much_less(
    assoc_ids: tuple[int, ...], remaining: list[float], *, runs_on: bool
) -> None:
    """Siblings and QOS keep theirs, and what runs counts from then on, as in Slurm 22.05."""
    cluster, index, job_id = in_use()
    assert used_min(index, RESET_US) == [60, 20, 40, 20]
    if not runs_on:
        ends(cluster, index, job_id, RESET_US)
    told(cluster, index, *index.reset(assoc_ids, (), RESET_US + 1))
    for known in everyone(cluster, index):
        assert used_min(known, RESET_US + 1) == remaining
    now_us = RESET_US + 5 * MINUTE_US
    told(cluster, index, *index.due(now_us, UTC))
    more = [10, 10, 0, 10] if runs_on else [0, 0, 0, 0]
    for known in everyone(cluster, index):
        assert used_min(known, now_us + 1) == [a + b for a, b in zip(remaining, more, strict=True)]
    if runs_on:
        ends(cluster, index, job_id, now_us + 1)
        for known in everyone(cluster, index):
            assert used_min(known, now_us + 1) == [
                a + b for a, b in zip(remaining, more, strict=True)
            ]


def test_a_qos_is_reset_alone() -> None:
    """What associations have used stays."""
    cluster, index, _ = in_use()
    told(cluster, index, *index.reset((), ("normal",), RESET_US))
    for known in everyone(cluster, index):
        assert used_min(known, RESET_US) == [60, 20, 40, 0]
        assert used_min(known, RESET_US + MINUTE_US) == [62, 22, 40, 2]


def test_only_what_was_reset_since_it_came_is_reset() -> None:
    """New associations with an old time have nothing to lose; what is known is not taken twice."""
    cluster, index, _ = in_use()
    known = Association(2, "physics", "ann", parent_id=1, usage_reset_us=RESET_US)
    new = Association(4, "chem", usage_reset_us=START_US)
    qos = Qos(1, "normal", usage_reset_us=RESET_US)
    update = AssociationUpdate("store", 3, False, [known, new], [], [qos], [], [], [], [])
    assert usage_resets(cluster, update) == ([2], ["normal"])
    told(cluster, index, *mirror(cluster, update, RESET_US))
    assert usage_resets(cluster, update) == ([], [])
