"""The commands' tables of states are those of the model."""

from __future__ import annotations

import pytest

from pyslurm_ng.base import numbers as n, state_names
from pyslurm_ng.cli.squeue import BRIEF_FIELDS as BRIEF_OF_SQUEUE
from pyslurm_ng.ctld.queries.jobs import BRIEF_FIELDS
from pyslurm_ng.model import states


def test_job_states() -> None:
    """Names and numbers."""
    assert [state.name for state in states.JobState] == [name for name, _ in state_names.JOB_STATES]
    flags = {name: bit for bit, name, _ in state_names.JOB_FLAGS}
    assert all(states.JobFlag[name] == bit for name, bit in flags.items())


def test_node_states() -> None:
    """Names, flags and numbers."""
    assert [state.name for state in states.NodeState] == list(state_names.NODE_STATES)
    assert {flag.name: int(flag) for flag in states.NodeFlag if flag} == state_names.NODE_FLAG


@pytest.mark.parametrize(
    ("state", "flags", "words"),
    [
        ("IDLE", "", ("idle", "idle")),
        ("MIXED", "PLANNED", ("mixed-", "mix-")),
        ("IDLE", "PLANNED", ("planned", "plnd")),
        ("IDLE", "DRAIN", ("drained", "drain")),
        ("MIXED", "DRAIN", ("draining", "drng")),
        ("IDLE", "COMPLETING", ("completing", "comp")),
        ("DOWN", "NOT_RESPONDING", ("down*", "down*")),
        ("IDLE", "NOT_RESPONDING", ("idle*", "idle*")),
        ("IDLE", "CLOUD POWERED_DOWN", ("idle~", "idle~")),
        ("ALLOCATED", "POWERING_UP", ("allocated#", "alloc#")),
        ("DOWN", "DRAIN", ("drained", "drain")),
    ],
)
def test_states_have_sinfos_words_and_suffixes(
    state: str, flags: str, words: tuple[str, str]
) -> None:
    """sinfo's words with their suffixes."""
    bits = sum(state_names.NODE_FLAG[name] for name in flags.split())
    assert state_names.node_state_words(state_names.NODE_STATES.index(state), bits) == words


def test_squeue_knows_what_the_controller_sends_at_once() -> None:
    """Otherwise it would ask for details that it does not need, or miss columns."""
    assert set(BRIEF_FIELDS) == BRIEF_OF_SQUEUE


def test_a_job_requeued_into_hold_is_pending() -> None:
    """Only JSON tells that it was; a special exit has a state of its own."""
    assert state_names.job_state(0, n.JOB_FLAG_REQUEUE_HOLD) == "PENDING"
    assert state_names.job_state_compact(0, n.JOB_FLAG_REQUEUE_HOLD) == "PD"
    both = n.JOB_FLAG_REQUEUE_HOLD | n.JOB_FLAG_SPECIAL_EXIT
    assert state_names.job_state(0, both) == "SPECIAL_EXIT"
    assert state_names.parse_job_state("requeue_hold") == (-1, n.JOB_FLAG_REQUEUE_HOLD)
