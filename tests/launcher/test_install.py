"""`make install PREFIX=DIR`: an administrator's layout that needs no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "build" / "launcher" / "pyslurm-launcher").exists(),
    reason="the launcher is not built: run `make build`",
)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("install") / "opt"
    subprocess.run(
        [str(ROOT / "scripts" / "install.sh"), str(directory), sys.executable], check=True
    )
    return directory


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_everything_is_in_its_place(prefix: Path) -> None:
    assert names(prefix) == {"bin", "sbin", "etc", "lib", "share"}
    package = ROOT / "src" / "pyslurm_ng"
    for directory, daemon in (("ctld", "slurmctld"), ("d", "slurmd"), ("dbd", "slurmdbd")):
        if (package / directory / "__main__.py").exists():
            assert daemon in names(prefix / "sbin")
            assert daemon not in names(prefix / "bin")
    commands = {path.stem for path in (package / "cli").glob("s*.py")}
    assert commands & {"squeue", "sinfo", "sbatch", "scontrol"} <= names(prefix / "bin")
    assert "pyslurm-ng" in names(prefix / "bin")
    assert names(prefix / "lib") == {"pyslurm-ng", "security"}


def test_modules_come_from_the_installation(prefix: Path) -> None:
    """The checkout may be removed afterwards; only the system's interpreter is shared."""
    code = """
import sys, zmq, msgpack, msgspec, sqlalchemy, pymysql, psutil, pynvml, click
import pyslurm_ng.kernels.records, pyslurm_ng._install
print(pyslurm_ng._install.PREFIX)
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None))
"""
    python = prefix / "lib" / "pyslurm-ng" / "bin" / "pyslurm-python"
    result = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True, env={}, cwd="/"
    )
    told, *files = result.stdout.splitlines()
    assert told == str(prefix)
    assert not [file for file in files if file.startswith(f"{ROOT}/")]
    assert sum(file.startswith(f"{prefix}/lib/pyslurm-ng/") for file in files) > 50


def test_bytecode_is_ready(prefix: Path) -> None:
    """A user cannot write there, so what is not compiled now is compiled at every start."""
    package = prefix / "lib" / "pyslurm-ng" / "pyslurm_ng"
    for source in package.rglob("*.py"):
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")), source


def test_configuration_in_etc_survives_another_install(prefix: Path) -> None:
    """An upgrade keeps what is configured."""
    (prefix / "etc" / "slurm.conf").write_text("ClusterName=mine\n")
    subprocess.run([str(ROOT / "scripts" / "install.sh"), str(prefix), sys.executable], check=True)
    assert (prefix / "etc" / "slurm.conf").read_text() == "ClusterName=mine\n"
    assert names(prefix / "lib") == {"pyslurm-ng", "security"}


def test_management_command_runs_from_there(prefix: Path) -> None:
    result = subprocess.run(
        [str(prefix / "bin" / "pyslurm-ng"), "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath},
        cwd="/",
    )
    assert (result.returncode, result.stdout) == (0, "pyslurm-ng 26.11.0-ng0.1\n")


def test_prefix_that_cannot_be_quoted_is_refused(tmp_path: Path) -> None:
    result = subprocess.run(
        [str(ROOT / "scripts" / "install.sh"), str(tmp_path / "a b"), sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("install: error: PREFIX may not contain blanks")
