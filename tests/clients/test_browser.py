"""The pages in Debian's chromium, by Selenium: what a visitor does, and axe-core on each page.

PYSLURM_CLIENTS names an environment to keep, PYSLURM_PICTURES a folder for the pictures of the
documentation, such as docs/pictures.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.web_cluster import WebCluster, make_environment, web_cluster
from tests.daemons.faults import AS_OTHERS, directory_for

PROGRAM = Path(__file__).resolve().parent / "programs" / "browser_pages.py"
DEBIAN = ("chromium", "chromium-driver")
SELENIUM = "selenium==4.50.0"
AXE = "axe-playwright-python==0.1.8"
"""It brings axe.min.js; what else it needs is not used."""
LIMIT_S = 1200

pytestmark = [pytest.mark.soak, *AS_OTHERS]


@pytest.fixture(scope="module")
def cluster() -> Iterator[WebCluster]:
    """A cluster of two blocks, with a reservation that is to come."""
    with web_cluster() as made:
        etc = made.live.directory / "etc"
        (etc / "topology.conf").write_text(
            "BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n2\nBlockSizes=1\n"
        )
        with (etc / "slurm.conf").open("a") as conf:
            conf.write("TopologyPlugin=topology/block\n")
        made.live.out("scontrol", "reconfigure")
        made.live.out(
            "scontrol", "create", "reservation", "ReservationName=maintenance",
            "StartTime=now+2days", "Duration=2:00:00", "Nodes=n2", "Users=root", "Flags=maint",
        )  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chromium and its driver of Debian, Selenium and axe-core of PyPI."""
    words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *DEBIAN]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    kept = os.environ.get("PYSLURM_CLIENTS")
    target = Path(kept) if kept else tmp_path_factory.mktemp("browser") / "environment"
    bin_of = make_environment(target, SELENIUM)
    make_environment(target, "--no-deps", AXE)
    return bin_of


def test_a_visitor_uses_each_page(cluster: WebCluster, environment: Path, tmp_path: Path) -> None:
    """Without an error in the console or a serious one for people who cannot see or use a mouse."""
    pictures = Path(os.environ.get("PYSLURM_PICTURES") or tmp_path).resolve()
    link = re.search(r"http://\S+/login\?code=\S+", cluster.status())
    assert link is not None, cluster.status()
    # In /tmp a slurm-1.out of somebody else may be left.
    folder = directory_for(cluster.live, "visits")
    (axe,) = (environment.parent / "lib").glob("python*/site-packages/axe_*/axe.min.js")
    done = subprocess.run(
        [environment / "python", PROGRAM, link[0], axe, pictures, cluster.token(), folder],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.rstrip().endswith("ok"), done.stdout + done.stderr
