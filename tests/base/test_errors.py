"""Slurm's error numbers and texts."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.base.errors import TEXTS, Errno, Reject, RequestError, error_text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Errno.ESLURM_INVALID_PARTITION_NAME, "Invalid partition name specified"),
        (Errno.ESLURM_INVALID_JOB_ID, "Invalid job id specified"),
        (
            Errno.ESLURM_INVALID_ACCOUNT,
            "Invalid account or account/partition combination specified",
        ),
        (
            Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE,
            "Requested node configuration is not available",
        ),
        (Errno.ESLURM_DEPENDENCY, "Job dependency problem"),
        (Errno.ESLURM_INVALID_ARRAY, "Invalid job array specification"),
        (9999, "Unknown error 9999"),
        (-5, "Unknown negative error number"),
        (
            Errno.SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR,
            "Unable to contact slurm controller (connect failure)",
        ),
    ],
)
def test_texts_are_those_users_know(code: int, text: str) -> None:
    assert error_text(code) == text


def test_every_named_number_has_a_text() -> None:
    named = {name: code for name, code in vars(Errno).items() if name.isupper()}
    assert len(named) > 100
    assert [name for name, code in named.items() if code not in TEXTS] == []


def test_a_reject_reads_as_a_sentence() -> None:
    reject = Reject(Errno.ESLURM_NODES_BUSY, "CPU count per node can not be satisfied")
    assert str(Reject(Errno.ESLURM_NODES_BUSY)) == "Requested nodes are busy"
    assert str(reject) == "CPU count per node can not be satisfied: Requested nodes are busy"
    assert str(RequestError(2016)) == "Requested nodes are busy"


def test_an_unknown_number_says_so() -> None:
    assert error_text(4999) == "Unknown error 4999"


def test_a_full_controller_has_the_systems_text() -> None:
    """EAGAIN: the controller has MaxJobCount jobs."""
    assert error_text(11) == "Resource temporarily unavailable"


@pytest.mark.parametrize("code", range(1, 1000))
def test_the_systems_numbers_have_its_texts(code: int) -> None:
    """Slurm 22.05 prints `Operation not permitted` for `return 1` of job_submit.lua."""
    assert error_text(code) == os.strerror(code)
