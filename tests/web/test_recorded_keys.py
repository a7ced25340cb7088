"""Answers have the keys that Slurm 26.11 answered with, and values of the same types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.front import front
from tests.web.recorded import differences, recorded

PATHS = {
    "/slurm/v0.0.46/ping": "/slurm/v0.0.46/ping",
    "/slurm/v0.0.46/conf": "/slurm/v0.0.46/conf",
    "/slurm/v0.0.46/diag": "/slurm/v0.0.46/diag",
    "/slurm/v0.0.46/jobs": "/slurm/v0.0.46/jobs",
    "/slurm/v0.0.46/job/27": "/slurm/v0.0.46/job/11636",
    "/slurm/v0.0.46/jobs/state": "/slurm/v0.0.46/jobs/state",
    "/slurm/v0.0.46/job/999999": "/slurm/v0.0.46/job/999999",
    "/slurm/v0.0.46/nodes": "/slurm/v0.0.46/nodes",
    "/slurm/v0.0.46/partitions": "/slurm/v0.0.46/partitions",
    "/slurm/v0.0.46/reservations": "/slurm/v0.0.46/reservations",
    "/slurm/v0.0.46/licenses": "/slurm/v0.0.46/licenses",
    "/slurm/v0.0.46/shares": "/slurm/v0.0.46/shares",
    "/slurm/v0.0.46/resources/999999": "/slurm/v0.0.46/resources/11636",
}


@pytest.mark.parametrize("path", PATHS)
def test_same_keys(path: str) -> None:
    """Whoever reads Slurm's answers reads ours."""
    answer: dict[str, Any] = front(user="root").get(path).json()
    answer.pop("meta")
    assert differences(answer, recorded(PATHS[path])) == []
