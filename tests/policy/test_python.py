"""JobSubmitPlugins=python: job_submit.py beside slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.policy.description import Said
from pyslurm_ng.policy.job_submit_python import JobSubmitPython
from pyslurm_ng.policy.lua_script import ScriptError
from tests.policy.surroundings import Surroundings, description

_HEAD = "from pyslurm_ng.policy.site import Errno, Refused\n"


def plugin(tmp_path: Path, text: str) -> JobSubmitPython:
    (tmp_path / "job_submit.py").write_text(_HEAD + text)
    return JobSubmitPython(str(tmp_path))


def test_fields_are_read_and_set(tmp_path: Path) -> None:
    """What was not given is None; nice has no offset; partitions are those of the user."""
    site = plugin(
        tmp_path,
        "def job_submit(job, partitions, uid):\n"
        "    assert job.time_limit is None and job.account is None and job.user_name == 'alice'\n"
        "    job.time_limit = partitions['main']['max_time']\n"
        "    job.nice = (job.nice or 0) + 5\n"
        "    job.environment['SEEN'] = str(sorted(partitions)) + job.environment['HOME']\n"
        "    job.tell('two\\nlines')\n",
    )
    said = Said()
    job = description(said, b"HOME=/home\0")
    assert site.decide(job, None, Surroundings(), said) == 0
    assert (job.request["time_limit_min"], job.request["nice"]) == (60, 5)
    assert job.environment_bytes() == b"HOME=/home\0SEEN=['main']/home\0"
    assert said.user_lines == ["two", "lines"]


def test_a_request_is_refused_with_a_text_and_a_number(tmp_path: Path) -> None:
    """Changes have a function of their own, which may be missing."""
    site = plugin(
        tmp_path,
        "def job_submit(job, partitions, uid):\n"
        "    raise Refused('no', Errno.ESLURM_ACCESS_DENIED)\n",
    )
    said = Said()
    assert site.decide(description(said), None, Surroundings(), said) == 2002
    assert said.user_lines == ["no"]
    assert site.decide(description(said), {"job_id": 1}, Surroundings(), said) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 / 0", "line 3: ZeroDivisionError: division by zero"),
        ("job.nosuch = 1", "line 3: AttributeError: a job has no field nosuch that can be set"),
        ("job.time_limit = 'x'", "job_fields.FieldError: time_limit: number expected, got string"),
        ("raise SystemExit(3)", "line 3: SystemExit: 3"),
    ],
)
def test_an_error_refuses_the_request(tmp_path: Path, line: str, said: str) -> None:
    """The user and the log read which line of the site's file it was."""
    site = plugin(tmp_path, f"def job_submit(job, partitions, uid):\n    {line}\n")
    spoken = Said()
    assert site.decide(description(spoken), None, Surroundings(), spoken) == -1
    assert said in spoken.user_lines[0]
    assert said in spoken.log_lines[0][1]


def test_a_file_that_changes_is_loaded_again(tmp_path: Path) -> None:
    """A broken one leaves the one before in force."""
    site = plugin(tmp_path, "def job_submit(job, partitions, uid):\n    return 5\n")
    said = Said()
    assert site.decide(description(said), None, Surroundings(), said) == 5
    (tmp_path / "job_submit.py").write_text("def job_submit(:\n")
    assert site.decide(description(said), None, Surroundings(), said) == 5
    assert "line 1: SyntaxError: " in said.log_lines[-1][1]
    assert "using previous file" in said.log_lines[-1][1]
    (tmp_path / "job_submit.py").write_text("def job_submit(*words): pass\n")
    assert site.decide(description(said), None, Surroundings(), said) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("x = 1\n", "missing required function job_submit"),
        ("1 / 0\n", "division by zero"),
    ],
)
def test_what_cannot_be_loaded_is_named(tmp_path: Path, text: str | None, said: str) -> None:
    """slurmctld then does not start."""
    if text is not None:
        (tmp_path / "job_submit.py").write_text(text)
    with pytest.raises(ScriptError, match=said):
        JobSubmitPython(str(tmp_path))


def test_a_text_of_a_user_in_the_log_is_no_line_of_the_daemon(tmp_path: Path) -> None:
    """A site's script logged a comment with a line break; what followed looked like slurmctld's."""
    site = plugin(
        tmp_path,
        "def job_submit(job, partitions, uid):\n    job.log('comment ' + job.comment)\n",
    )
    spoken = Said()
    job = description(spoken, comment="x\n_job_complete: JobId=7 done")
    assert site.decide(job, None, Surroundings(), spoken) == 0
    first, second = (line for _, line in spoken.log_lines)
    assert first.endswith("comment x") and second == "    _job_complete: JobId=7 done"
