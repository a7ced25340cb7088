"""Rules and pages as Prometheus reads them, by promtool of Debian's package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pyslurm_ng.wire.daemon_pages import server_lines
from tests.ctld.metrics.scene import lines_of, scene

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler")


@pytest.fixture(scope="module", name="promtool")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return promtool; nothing is installed on this host."""
    installed = shutil.which("promtool")
    if installed:
        return installed
    folder = tmp_path_factory.mktemp("prometheus")
    got = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, check=False)
    packages = list(folder.glob("prometheus_*.deb"))
    if got.returncode or not packages:
        pytest.skip("Debian's package of prometheus cannot be had")
    subprocess.run(["dpkg", "-x", str(packages[0]), str(folder / "root")], check=True)
    return str(folder / "root" / "usr" / "bin" / "promtool")


def said(promtool: str, *words: str, text: str = "") -> tuple[int, str]:
    """Return exit code and output."""
    ran = subprocess.run(
        [promtool, *words], input=text, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.soak
def test_rules_are_rules(promtool: str) -> None:
    """Prometheus does not start with a broken file."""
    code, output = said(promtool, "check", "rules", str(ROOT / "etc" / "prometheus-rules.yml"))
    assert code == 0 and "SUCCESS" in output, output


@pytest.mark.soak
@pytest.mark.parametrize("page", PAGES)
def test_slurms_families_can_be_read(promtool: str, page: str) -> None:
    """Their names are Slurm's, of which the linter does not like all; the format is right."""
    text = "\n".join([*lines_of(page, scene()), ""])
    assert "error while linting" not in said(promtool, "check", "metrics", text=text)[1]


@pytest.mark.soak
def test_our_families_have_no_fault(promtool: str) -> None:
    """Counters are called so."""
    lines = server_lines("pyslurm_node", {"connections": 1}, {"role": 2}, {"Ping": 3}, {"x": 4})
    assert said(promtool, "check", "metrics", text="\n".join([*lines, ""])) == (0, "")
