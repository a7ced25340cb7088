"""The cluster that the tests of one file share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster, missing_programs, start


@pytest.fixture(scope="module")
def live_cluster() -> Iterator[LiveCluster]:
    """Four nodes of 4 CPUs and 2 pretended GPUs; nothing else runs there."""
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
