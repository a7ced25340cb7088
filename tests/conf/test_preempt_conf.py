"""What of preemption and shared cores a slurm.conf may say."""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from tests.model.clusters import FOUR_NODES

PREEMPT = "PreemptType=preempt/partition_prio\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("PreemptMode=SUSPEND\n" + PREEMPT, "SUSPEND needs GANG"),
        ("PreemptMode=CANCEL\n", "needs PreemptType"),
        ("PreemptMode=CANCEL,REQUEUE\n" + PREEMPT, "one of CANCEL, REQUEUE and SUSPEND"),
        (
            "PreemptMode=CANCEL\n" + PREEMPT + "PartitionName=x Nodes=n1 PreemptMode=SUSPEND\n",
            "SUSPEND needs GANG in the PreemptMode of the cluster",
        ),
        (
            "PreemptMode=CANCEL\n" + PREEMPT + "PartitionName=x Nodes=n1 PreemptMode=OFF,CANCEL\n",
            "one of OFF, CANCEL, REQUEUE and SUSPEND",
        ),
    ],
)
def test_bad_combinations_are_refused(lines: str, expected: str) -> None:
    """They are named with file and line before any job could suffer from them."""
    with pytest.raises(ConfErrors) as error:
        parse_slurm_conf(FOUR_NODES + lines)
    assert expected in str(error.value)


def test_gang_alone_and_modes_of_partitions_are_fine() -> None:
    conf = parse_slurm_conf(
        FOUR_NODES
        + "PreemptMode=CANCEL,GANG\n"
        + PREEMPT
        + "PartitionName=x Nodes=n1 PreemptMode=SUSPEND\n"
    )
    assert conf.warnings == () and conf.partitions[-1].preempt_mode == ("SUSPEND",)
    assert parse_slurm_conf(FOUR_NODES + "PreemptMode=GANG\n").preempt_mode == ("GANG",)


def test_what_has_no_effect_is_named() -> None:
    conf = parse_slurm_conf(
        FOUR_NODES
        + "PreemptMode=CANCEL\nPreemptParameters=reorder_count=3,youngest_first\n"
        + PREEMPT
        + "SchedulerType=sched/builtin\nPartitionName=x Nodes=n1 OverSubscribe=FORCE\n"
    )
    text = "\n".join(conf.warnings)
    assert "PreemptParameters=reorder_count has no effect" in text and "youngest_first" not in text
    assert "PreemptType=preempt/partition_prio has no effect with SchedulerType" in text
    assert "OverSubscribe of partition x has no effect" in text
