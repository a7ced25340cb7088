"""pam_pyslurm_adopt: what its words decide about a login."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pyslurm_ng.cli import pam_adopt

DENIED = "Access denied by pam_slurm_adopt: you have no active jobs on this node\n"
NO_JOB = {"node": "n1", "jobs": 0, "job_id": 0, "problem": ""}
IN_JOB = {"node": "n1", "jobs": 2, "job_id": 7, "problem": ""}
SEVERAL = {"node": "n1", "jobs": 2, "job_id": 0, "problem": ""}
FAILED = {"node": "n1", "jobs": 1, "job_id": 0, "problem": "it is ending"}


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAM_USER", "nobody")
    monkeypatch.setenv("PAM_TYPE", "account")
    monkeypatch.setattr(pam_adopt, "_log", lambda text: None)


def answers(monkeypatch: pytest.MonkeyPatch, *daemons: dict[str, Any]) -> None:
    monkeypatch.setattr(pam_adopt, "_service_process", lambda: (2, 3))
    monkeypatch.setattr(pam_adopt, "_ask", lambda *words: list(daemons))


@pytest.mark.parametrize(
    ("answer", "words", "code"),
    [
        (NO_JOB, [], 1),
        (NO_JOB, ["action_no_jobs=ignore"], 0),
        (IN_JOB, [], 0),
        (SEVERAL, ["action_unknown=deny"], 1),
        (SEVERAL, ["action_unknown=allow"], 0),
        (FAILED, [], 0),
        (FAILED, ["action_adopt_failure=deny"], 1),
        (NO_JOB, ["action_no_jobs=what", "odd"], 1),
    ],
)
def test_words(
    answer: dict[str, Any], words: list[str], code: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    answers(monkeypatch, answer)
    assert pam_adopt.main(words) == code
    is_refused = code and answer is NO_JOB
    assert capsys.readouterr().out == (DENIED if is_refused else "")


def test_root_and_other_phases_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, NO_JOB)
    monkeypatch.setenv("PAM_TYPE", "close_session")
    assert pam_adopt.main([]) == 0
    monkeypatch.setenv("PAM_TYPE", "account")
    monkeypatch.setenv("PAM_USER", "root")
    assert pam_adopt.main([]) == 0


def test_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No parent, no slurmd, no such user: action_generic_failure, and init is in no job."""
    assert pam_adopt.main(["conf=/nonexistent", "action_generic_failure=deny"]) == 1
    assert pam_adopt.main(["conf=/nonexistent"]) == 0
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert pam_adopt.main(["action_generic_failure=deny"]) == 1
    monkeypatch.setenv("PAM_USER", "no such user")
    assert pam_adopt.main(["action_generic_failure=deny"]) == 1
