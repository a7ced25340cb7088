"""What bash offers behind a word: options of the command, values that the cluster has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.daemons.live import BIN

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "etc" / "bash-completion" / "pyslurm-ng"
TRY = """
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=()
_pyslurm_ng
printf '%s\\n' "${COMPREPLY[@]}"
"""
# What stands for commands that would ask a daemon; the others answer by themselves.
ANSWERS = {
    "sinfo": 'case "$*" in *-N*) printf "n1\\nn2\\n" ;; *) printf "debug\\nlong\\n" ;; esac',
    "squeue": 'case "$*" in *-o*) printf "17\\n18\\n" ;; *) exec {bin}/squeue "$@" ;; esac',
    "sacctmgr": 'case "$*" in *qos*) printf "normal\\nhigh\\n" ;; *) {bin}/sacctmgr "$@" ;; esac',
}

pytestmark = pytest.mark.skipif(
    not (BIN / "squeue").exists(), reason="no commands: run `make build`"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH where what asks daemons is answered at once."""
    folder = tmp_path_factory.mktemp("bin")
    for name, text in ANSWERS.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text.format(bin=BIN)}\n")
        program.chmod(0o755)
    return os.pathsep.join([str(folder), str(BIN), os.environ["PATH"]])


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("squeue --par", "--partitions="),
        ("squeue --noc", "--noconvert"),
        ("squeue --partition = d", "debug"),
        ("sbatch -p =", ""),
        ("sbatch -p l", "long"),
        ("sbatch --qos = ", "normal high"),
        ("srun -w n1,", "n1,n1 n1,n2"),
        ("scancel ", "17 18"),
        ("scontrol relea", "release"),
        ("scontrol hold 1", "17 18"),
        ("scontrol show no", "node"),
        ("scontrol show node n2", "n2"),
        ("sacctmgr mod", "modify"),
        ("sacctmgr list q", "qos"),
        ("squeue -t PEN", "PENDING"),
        ("sbatch --mail-type = E", "END"),
        ("sbatch job", ""),
    ],
)
def test_offers(line: str, offered: str, path: str) -> None:
    """One word more each time the user presses the tabulator."""
    done = subprocess.run(
        ["bash", "-c", TRY, "bash", str(SCRIPT), *line.split(" ")],
        env={**os.environ, "PATH": path, "USER": "root"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == offered.split(), done


HOSTILE = ["$(touch made)", "`touch made`", "${x:=$(touch made)}", "a;touch made", "a b",
           "\x1b[31m"]  # fmt: skip


def test_names_are_never_run(path: str, tmp_path: Path) -> None:
    """Coordinators name accounts, users name jobs: not by completion, nor by the line it makes.

    RELIABILITY 68.
    """
    sinfo = tmp_path / "sinfo"
    names = "".join(f"printf '%s\\n' '{name}'\n" for name in HOSTILE)
    sinfo.write_text(f"#!/bin/sh\n{names}")
    sinfo.chmod(0o755)

    def run(script: str, *words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", script, "bash", str(SCRIPT), *words],
            env={**os.environ, "PATH": os.pathsep.join([str(tmp_path), path])},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return done.stdout.splitlines()

    offered = run(TRY, "sbatch", "-p", "")
    assert run(f"printf '%s\\n' {' '.join(offered)}") == HOSTILE[:-1]
    assert run(TRY, "sbatch", "-p", "a") == ["a\\;touch\\ made", "a\\ b"]
    assert not (tmp_path / "made").exists()


def test_each_command_is_completed() -> None:
    """And installed under its name, where bash-completion looks."""
    named = SCRIPT.read_text().rpartition("complete -o default -F _pyslurm_ng")[2]
    commands = named.replace("\\", "").split()
    assert {"sbatch", "squeue", "scancel", "scontrol", "sacctmgr", "srun"} <= set(commands)
    assert all((BIN / name).exists() for name in commands)
