"""The cluster that the tests of many files share."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[LiveCluster]:
    """Four nodes of 4 CPUs and 2 pretended GPUs."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        # Jobs of other users have to get through to their files.
        os.chmod(name, 0o755)
        cluster = start(
            Path(name) / "c", "--nodes", "4", "--cpus", "4", "--memory", "2048", "--gpus", "2"
        )
        try:
            yield cluster
        finally:
            cluster.down()


@pytest.fixture(scope="module")
def live_cluster(shared_cluster: LiveCluster) -> Iterator[LiveCluster]:
    """The cluster while the tests of one file have it to themselves; they leave no job."""
    yield shared_cluster
    shared_cluster.run("scancel", "--me")
    shared_cluster.wait_for_jobs()


@pytest.fixture
def work(live_cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory for one test's files; its jobs are cancelled afterwards."""
    name = re.sub(r"\W", "-", f"{request.path.stem}-{request.node.name}")[:80]
    directory = live_cluster.directory.parent / name
    directory.mkdir(mode=0o755, exist_ok=True)
    yield directory
    live_cluster.run("scancel", "--me")
