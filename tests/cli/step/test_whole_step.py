"""What the steps of several components are together."""

from __future__ import annotations

import os

from pyslurm_ng.cli.step.het_steps import Meeting, _arrange
from pyslurm_ng.cli.step.whole_step import WholeStep, of_component, wholes

FIRST = of_component(
    {"nodes": ["n3"], "tasks": [[0, 1]]},
    {"SLURM_JOB_NODELIST": "n3", "SLURM_JOB_CPUS_PER_NODE": "2"},
)
SECOND = of_component(
    {"nodes": ["n1", "n2"], "tasks": [[0, 1], [2]]},
    {"SLURM_JOB_NODELIST": "n[1-2,4]", "SLURM_JOB_CPUS_PER_NODE": "2(x2),1"},
)


def test_ranks_and_nodes_go_on_from_one_component_to_the_next() -> None:
    """All components have the same lists, in their order. Each has its place in them."""
    first, two = (whole.launch_fields() for whole in wholes([FIRST, SECOND]))
    assert (first.pop("first_rank"), first.pop("first_node")) == (0, 0)
    assert (two.pop("first_rank"), two.pop("first_node")) == (2, 1)
    assert (
        first
        == two
        == {
            "append": True,
            "all_ranks": 5,
            "all_nodes": "n[3,1-2]",
            "all_node_count": 3,
            "all_tasks_per_node": "2(x2),1",
            "all_job_nodes": "n[3,1-2,4]",
            "all_job_node_count": 4,
            "all_ranks_of_nodes": "(0,1,2),(1,1,2),(2,1,1)",
            "all_cpus_per_node": "2(x3),1",
        }
    )


def talk(parts: list[WholeStep | None]) -> list[WholeStep | None]:
    """Let components meet; of None there is no word."""
    reads, writes, meetings = [], [], []
    for part in parts:
        counts, tell = os.pipe()
        answers, answer = os.pipe()
        meetings.append((Meeting(tell, answers), tell, answers))
        reads.append(counts)
        writes.append(answer)
        if part is not None:
            meetings[-1][0].tell(part)
        os.close(tell)
    _arrange(reads, writes)
    wholes_heard = [meeting.hear() for meeting, _, _ in meetings]
    for _, _, answers in meetings:
        os.close(answers)
    return wholes_heard


def test_components_get_the_same_answer() -> None:
    """Each gets what all others have."""
    first, two = talk([FIRST, SECOND])
    assert first is not None and two is not None
    assert (first.tasks, two.tasks, two.first_rank, two.first_node) == (5, 5, 2, 1)


def test_no_component_begins_when_one_has_failed() -> None:
    """Its pipe is closed without an answer."""
    assert talk([FIRST, None]) == [None, None]
