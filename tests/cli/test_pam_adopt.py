"""pam_pyslurm_adopt: what its words decide about a login."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.cli import pam_adopt
from pyslurm_ng.conf.quick import find_conf

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
    monkeypatch.setattr(pam_adopt, "_variables", lambda: dict(os.environ))


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


def test_words_that_are_wrong_are_logged_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module hands every word on; a misspelt one leaves its default, and the log says so."""
    logged: list[str] = []
    monkeypatch.setattr(pam_adopt, "_log", logged.append)
    answers(monkeypatch, IN_JOB)
    words = ["action_no_jobs=what", "action_adopt_falure=deny", "action_unknown", "nodename=n1"]
    assert pam_adopt.main(words) == 0
    assert logged == [f"{word}: not known, so it has no effect" for word in words[:3]]


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


@pytest.mark.parametrize(
    ("kind", "module", "out"),
    [
        ("open_session", "pam_pyslurm_adopt", "namespace /base/7/.ns\n"),
        ("open_session", "", ""),
        ("account", "pam_pyslurm_adopt", ""),
    ],
)
def test_the_module_hears_of_private_directories(
    kind: str, module: str, out: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Not pam_exec, which would show the line to the user."""
    answers(monkeypatch, {**IN_JOB, "namespace": "/base/7/.ns"})
    monkeypatch.setenv("PAM_TYPE", kind)
    monkeypatch.setenv("PAM_MODULE", module)
    assert pam_adopt.main([]) == 0
    assert capsys.readouterr().out == out


def test_a_variable_chooses_no_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pam_exec hands on PAM's variables, and pam_env may have read them from a file of the user's.

    With a slurm.conf of the user's nobody could be asked, which lets in by default.
    """
    own = tmp_path / "slurm.conf"
    own.write_text(f"SlurmdPidFile={tmp_path}/none/slurmd.pid\n")
    monkeypatch.setenv("SLURM_CONF", str(own))
    monkeypatch.setattr(pam_adopt, "_service_process", lambda: (2, 3))
    asked: list[str] = []
    monkeypatch.setattr(pam_adopt, "_sockets", lambda path: asked.append(find_conf()) or ["n1"])
    monkeypatch.setattr(pam_adopt, "_answer", lambda path, body: NO_JOB)
    assert pam_adopt.main([]) == 1
    assert asked and asked[0] != str(own)


PROGRAM = """
import ctypes, os, sys
texts = [b"PAM_USER=root", b"PAM_TYPE=close_session", b"PAM_USER=nobody", b"PAM_TYPE=account"]
texts[2:2] = [b"FILL%d=" % i + b"x" * 1000 for i in range(100)]
variables = (ctypes.c_char_p * 105)(*texts, None)
code = "from pyslurm_ng.cli.pam_adopt import _variables as v; "
code += "print(v()['PAM_USER'], v()['PAM_TYPE'])"
words = [os.fsencode(sys.executable), b"-c", code.encode()]
ctypes.CDLL(None).execve(words[0], (ctypes.c_char_p * 4)(*words, None), variables)
"""


def test_what_pam_exec_says_itself_counts() -> None:
    """It is the last of its name: a user's PAM_USER=root let that user in."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "nobody account\n"
