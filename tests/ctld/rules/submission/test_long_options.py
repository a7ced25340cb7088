"""No option of one job occupies slurmctld, however long its text is.

RELIABILITY 46, 54: lists of 128 KiB took 130 ms of the one thread that everybody's commands need.
"""

from __future__ import annotations

import pytest
from msgspec import inspect

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire.job_messages import SubmitJob
from pyslurm_ng.wire.table import bounds
from tests.world.callers import ALICE
from tests.world.operations import lines_run
from tests.world.site import Site

PIECES = [
    "a,", "a&", "a|", "a:", "a;", "a=1,", "a*1&", "(a)|", "[", "(", "n[1-2],", "n[1],", "n1,",
    "gpu:1,", "gpu:a:1,", "1,", "0-9:2,", "afterok:1,", "1_[1-9]:", "after:1+1,", "singleton,",
    "singleton?", "gres/gpu=1,", "%j", "é",
]  # fmt: skip
USUAL_LINES = 25_000
LINES = {
    "array": 600_000,
    "dependency": 250_000,
    "exclude": 250_000,
    "node_list": 250_000,
    "node_extra": 250_000,
}
"""Lines of Python for the longest texts of each option; one takes some 30 ns."""


def lengths() -> dict[str, int]:
    """Return every text of a request with the characters it may have."""
    length_of = {}
    for bound in bounds("SubmitJob"):
        name = bound.path.removeprefix("request.")
        if isinstance(bound.kind, inspect.StrType) and name in JobRequest.__struct_fields__:
            length_of[name] = bound.kind.max_length or 0
    return length_of


def worst(most: int) -> list[str]:
    """Return texts of a length, of pieces of every grammar."""
    numbered = [",".join(map(str, range(most // 5))), ",".join(f"t{n}:1" for n in range(most // 8))]
    texts = [piece * (most // len(piece) + 1) for piece in PIECES]
    texts += [start * (most // 2) + "a" for start in "[("]
    texts += numbered
    return [text[:most].rstrip(",&|:;?") for text in texts]


def lines_for(room: Site, **options: object) -> int:
    """Return how many lines a submission takes, accepted or refused."""
    message = SubmitJob(bytes(16), JobRequest(**options), b"#!/bin/sh\n")  # type: ignore[arg-type]
    return lines_run(submit_job, room.cluster, message, Context(room.conf, room.now_us, ALICE))


@pytest.mark.parametrize("option", sorted(lengths()))
def test_the_work_for_a_text_is_bounded(option: str) -> None:
    """Some thousand lines of Python for any text, more for the few that are long."""
    room = Site("GresTypes=gpu\nSchedulerParameters=extra_constraints")
    most = lengths()[option]
    took = {text[:20]: lines_for(room, **{option: text}) for text in worst(most)}
    assert max(took.values()) < LINES.get(option, USUAL_LINES), took


def test_a_list_of_nodes_is_read_once_for_all_partitions() -> None:
    """A job may name every partition of the site."""
    more = "\n".join(f"PartitionName=p{n} Nodes=ALL" for n in range(50))
    room = Site(f"EnforcePartLimits=ALL\n{more}")
    nodes = ",".join(["n1"] * 40_000)
    names = ",".join(f"p{n}" for n in range(50))
    lines_of_one = lines_for(room, partition="p0", node_list=nodes, exclude="")
    assert lines_for(room, partition=names, node_list=nodes) < lines_of_one + 50 * 1_000


def test_more_kinds_of_gpus_than_there_are_anywhere_are_refused() -> None:
    """Each kind is looked at on each node, together with each other."""
    room = Site("GresTypes=gpu")
    many = ",".join(f"t{n}:1" for n in range(500))
    assert room.refused(gpus=many) == Errno.ESLURM_INVALID_GRES
    assert room.refused(gpus_per_node=many, nodes_min=1) == Errno.ESLURM_INVALID_GRES


def test_no_gpus_for_each_task_are_no_fault() -> None:
    """A count of 0 divided the controller's number of GPUs: internal error."""
    room = Site("GresTypes=gpu")
    assert room.job(gpus_per_task="0", ntasks=1)
    assert room.job(tres_per_task="gres/gpu:0", ntasks=1)


def test_no_gpus_on_several_nodes_are_no_contradiction() -> None:
    """`-N2 --gpus=0` in a script asks for none; it was taken for fewer GPUs than nodes."""
    room = Site("GresTypes=gpu")
    assert room.running(gpus="0", nodes_min=2, nodes_max=2).state == JobState.RUNNING
    assert room.running(gpus="0", node_list="n2", nodes_min=1).state == JobState.RUNNING
