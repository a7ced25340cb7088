"""Resource limits that go along with a job."""

from __future__ import annotations

import os
import resource

import pytest

from pyslurm_ng.cli.submit import option_values, submission


def test_all_limits_are_what_the_kernel_says() -> None:
    expected = [
        (name, *resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
        for name in option_values.RLIMITS
    ]
    assert submission.limits("", {}) == expected


def test_only_those_asked_for_go_along() -> None:
    assert [name for name, _, _ in submission.limits("STACK,NOFILE", {})] == ["NOFILE", "STACK"]
    assert submission.limits("NONE", {}) == []


@pytest.mark.parametrize(
    ("text", "mask"), [("0077", 0o77), ("27", 0o27), ("7777", 0o777), ("x", 0o22), ("", 0o22)]
)
def test_slurm_umask_is_the_umask_of_jobs_and_steps(
    text: str, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An octal number; any other text leaves the umask of the command."""
    monkeypatch.setenv("SLURM_UMASK", text)
    before = os.umask(0o22)
    try:
        assert submission.files_umask() == mask
    finally:
        os.umask(before)
