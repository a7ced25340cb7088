"""Resource limits that go along with a job."""

from __future__ import annotations

import resource

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
