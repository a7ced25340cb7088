"""A wheel: all commands and daemons by pip alone, without a checkout or a C compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def test_a_wheel_has_the_names_of_the_launcher() -> None:
    path = ROOT / "scripts" / "build_launcher.py"
    spec = importlib.util.spec_from_file_location("build_launcher", path)
    assert spec is not None and spec.loader is not None
    launcher = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    cli = ROOT / "src" / "pyslurm_ng" / "cli"
    commands = {
        name for name in launcher.COMMANDS if (cli / f"{launcher.module_name(name)}.py").exists()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["scripts"]) == commands | set(launcher.DAEMONS) | set(launcher.MANAGEMENT)
    assert set(project["scripts"].values()) == {"pyslurm_ng._run:main"}


@pytest.mark.soak
@pytest.mark.daemons
def test_a_wheel_brings_up_a_cluster_that_runs_a_job(tmp_path: Path) -> None:
    """Its libraries are those of this environment, so that nothing is fetched."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheels = tmp_path / "wheels"
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    directory = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = directory / "bin" / "python"
    [wheel] = wheels.iterdir()
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    site = sysconfig.get_paths(vars={"base": str(directory), "platbase": str(directory)})["purelib"]
    (Path(site) / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    environment = {
        "PATH": f"{directory}/bin:{os.environ['PATH']}",
        "SLURM_CONF": str(tmp_path / "c" / "etc" / "slurm.conf"),
    }

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout

    run("pyslurm-ng", "up", "--dir", str(tmp_path / "c"), "--nodes", "2", "--no-namespaces")
    try:
        assert run("sbatch", "--wait", "--parsable", "-o", "%j.out", "--wrap", "hostname") == "1\n"
        assert (tmp_path / "1.out").read_text() == os.uname().nodename + "\n"
        assert run("srun", "-N2", "-l", "echo", "on").splitlines()[0] in ("0: on", "1: on")
    finally:
        run("pyslurm-ng", "down", "--dir", str(tmp_path / "c"))
