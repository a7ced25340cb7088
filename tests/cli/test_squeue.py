"""squeue prints what Slurm printed on the reference cluster."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import cases, queue
from tests.cli.run_command import run_command

# Not repeated: a suspended job, structured output (test_json), SLUIDs.
ELSEWHERE = {"after_suspend", "json", "json_one", "yaml", "o_all", "o_wide"}
RECORDED = [case for case in cases("squeue") if case[0] not in ELSEWHERE]


@pytest.mark.parametrize("case", RECORDED, ids=[case[0] for case in RECORDED])
def test_prints_as_recorded(
    case: tuple[str, str, list[str], str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same lines, same messages, same exit code."""
    _, user, words, stdout, stderr, code = case
    printed = run_command(monkeypatch, queue(), user, words)
    assert printed.stderr == stderr
    assert printed.code == code
    ours, theirs = without_estimates(printed.stdout), without_estimates(stdout)
    assert sorted(ours) == sorted(theirs)
    assert [line for line in ours if is_ordered(line)] == [
        line for line in theirs if is_ordered(line)
    ]


@pytest.mark.parametrize("ids", ["99999998,99999999", "99999999,99999999"])
def test_several_unknown_jobs_are_no_error(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one id alone is; AiiDA doubles an id for that."""
    printed = run_command(monkeypatch, queue(), "alice", ["squeue", "-h", "-j", ids])
    assert (printed.code, printed.stdout, printed.stderr) == (0, "", "")


def without_estimates(text: str) -> list[str]:
    """Leave out job 32, whose node count Slurm estimates as 2 here and as 1 in its TRES."""
    return [line for line in text.splitlines() if "32" not in line.split()[:1]]


def is_ordered(line: str) -> bool:
    """Leave out jobs of equal sort keys, which Slurm prints in the order of a hash table."""
    return not any(
        word in line for word in ("later", "het", "post", "depfail", "uhold", "held", "%@")
    )
