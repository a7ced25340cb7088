"""schemathesis fuzzes every endpoint of slurmrestd, in each version, on a live cluster.

It is an administrator of accounting, so that it reaches everything, but no user that may do
anything to this host. PYSLURM_REST_MINUTES says how long, PYSLURM_CLIENTS which environment to
keep.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.data_parser.envelope import VERSIONS
from tests.clients.web_cluster import USER, WebCluster, make_environment, web_cluster
from tests.daemons.faults import AS_OTHERS

PACKAGE = "schemathesis==4.32.5"
MINUTES = float(os.environ.get("PYSLURM_REST_MINUTES", "10"))
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"
ANSWER_S = 60
"""No request may hang so long, however busy the machine is."""
MOST_GROWTH = 64 << 20
"""Resident bytes between the second version and the last: the first ones fill caches."""

pytestmark = [pytest.mark.soak, *AS_OTHERS]


@pytest.fixture(scope="module")
def cluster() -> Iterator[WebCluster]:
    """A cluster whose fuzzing user may change accounting."""
    with web_cluster() as made:
        made.live.out("sacctmgr", "-Qi", "modify", "user", USER, "set", "adminlevel=administrator")
        yield made


def fuzzed(cluster: WebCluster, program: Path, version: str, folder: Path) -> str:
    """Fuzz one version; return what schemathesis found, "" for nothing."""
    done = subprocess.run(
        [
            program, "run", f"{cluster.address}/openapi.json",
            "--header", f"X-SLURM-USER-TOKEN:{cluster.token()}",
            "--include-path-regex", f"/{version.replace('.', '[.]')}/",
            "--phases", "coverage,fuzzing",
            "--checks", CHECKS, "--continue-on-failure",
            "--max-time", str(int(60 * MINUTES / len(VERSIONS))),
            "--request-timeout", str(ANSWER_S), "--workers", "1", "--no-shrink",
            "--suppress-health-check", "all", "--warnings", "off",
        ],
        cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    print(done.stdout[-1500:])
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_every_endpoint_is_fuzzed(cluster: WebCluster, tmp_path: Path) -> None:
    """No 5xx, no answer that is not as described, no hang, and slurmrestd does not grow."""
    kept = os.environ.get("PYSLURM_CLIENTS")
    program = make_environment(Path(kept) if kept else tmp_path / "fuzz", PACKAGE) / "schemathesis"
    process = cluster.process
    sizes = []
    for version in VERSIONS:
        failures = fuzzed(cluster, program, version, tmp_path)
        assert failures == "", failures[-4000:]
        sizes.append(process.memory_info().rss)
        print(version, "resident MiB", sizes[-1] >> 20, "files", process.num_fds())
    assert process == cluster.process, "slurmrestd was started again"
    assert sizes[-1] - sizes[1] < MOST_GROWTH, [size >> 20 for size in sizes]
    cluster.live.wait_until("connections to end", lambda: process.num_fds() < 200)
    assert cluster.live.run("squeue", "-h").returncode == 0
