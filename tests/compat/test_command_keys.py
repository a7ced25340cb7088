"""Effects of keys that commands read: each test changes slurm.conf and runs a command by it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.cli.step import program_broadcast
from tests.daemons.live import LiveCluster, missing_programs, start

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """One node; commands are run by copies of its slurm.conf that say more."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    made = start(tmp_path_factory.mktemp("keys") / "c", "--nodes", "1", "--cpus", "4")
    yield made
    made.down()


def by_conf(cluster: LiveCluster, text: str) -> dict[str, str]:
    """Return the environment that lets commands read more lines of slurm.conf."""
    usual = Path(cluster.environment["SLURM_CONF"])
    own = usual.with_name("more.conf")
    own.write_text(f"{usual.read_text()}\n{text}\n")
    return {"SLURM_CONF": str(own)}


def program(directory: Path, name: str, text: str) -> str:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_programs_of_srun(cluster: LiveCluster, tmp_path: Path) -> None:
    """SrunProlog and SrunEpilog run beside every srun that names no other."""
    say = f"echo $SLURM_SCRIPT_CONTEXT >> {tmp_path}/log"
    mine, other = (
        program(tmp_path, "mine", say),
        program(tmp_path, "other", f"echo o >> {tmp_path}/log"),
    )
    more = by_conf(cluster, f"SrunProlog={mine}\nSrunEpilog={mine}")
    cluster.out("srun", "-n1", "true", **more)
    assert (tmp_path / "log").read_text() == "prolog_srun\nepilog_srun\n"
    cluster.out("srun", "-n1", f"--prolog={other}", "--epilog=none", "true", **more)
    assert (tmp_path / "log").read_text().splitlines()[2:] == ["o"]


def test_srun_port_range(cluster: LiveCluster) -> None:
    """SrunPortRange: nodes reach srun at a port of it."""
    more = by_conf(cluster, "SrunPortRange=30100-30199")
    port = cluster.out("srun", "-n1", "sh", "-c", "echo $SLURM_SRUN_COMM_PORT", **more)
    assert 30100 <= int(port) <= 30199


def test_srun_needs_a_free_port_of_its_range(cluster: LiveCluster) -> None:
    """Another port could be one that a firewall closes; the step is given back."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        more = by_conf(cluster, f"SrunPortRange={port}-{port}")
        ran = cluster.run("srun", "-n1", "true", **more)
    assert (ran.returncode, ran.stderr) == (
        1,
        f"srun: error: all ports in range ({port}, {port}) exhausted, cannot establish listening "
        "port\n",
    )


def test_wait_time(cluster: LiveCluster) -> None:
    """WaitTime=1: a second after the first task has ended the others are killed."""
    more = by_conf(cluster, "WaitTime=1")
    words = ("srun", "-n2", "sh", "-c", "[ $SLURM_PROCID = 0 ] || exec sleep 3600")
    ran = cluster.run(*words, **more)
    assert "srun: First task exited 1s ago" in ran.stderr
    assert ran.returncode != 0


def test_bcast_dest_dir(cluster: LiveCluster, tmp_path: Path) -> None:
    """BcastParameters=DestDir: where a program goes if srun names no place."""
    tool = program(tmp_path, "tool", "echo $0")
    directory = tmp_path / "there"
    directory.mkdir()
    more = by_conf(cluster, f"BcastParameters=DestDir={directory}")
    assert (
        Path(cluster.out("srun", "-n1", "--bcast", tool, cwd=tmp_path, **more)).parent == directory
    )


class Sent:
    """Takes the place of the network: keeps what would be sent."""

    def __init__(self, command: str, conf: object, granted: object, **how: Any) -> None:
        self.how = how
        Sent.last, self.files = self, list[str]()

    def send(self, source: str, path: str, *, make_directory: bool = False) -> int:
        self.files.append(source)
        return 0

    last: Sent


@pytest.mark.parametrize(
    ("conf", "is_compressed", "has_libraries"),
    [
        ({}, False, False),
        ({"BcastParameters": "Compression=lz4"}, True, False),
        ({"BcastParameters": "send_libs"}, False, False),
        ({"BcastParameters": "send_libs", "BcastExclude": "none"}, False, True),
        ({"BcastExclude": "none"}, False, False),
    ],
)
def test_bcast_parameters(
    monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], is_compressed: bool, has_libraries: bool
) -> None:
    """BcastParameters=Compression packs, =send_libs sends libraries but those of BcastExclude."""
    monkeypatch.setattr(program_broadcast, "Broadcast", Sent)
    options: Any = SimpleNamespace(settings={"bcast": "/tmp/x"}, request={})
    program_broadcast.send_program(
        options, conf, {"job_id": 1, "step_id": 0}, os.path.realpath("/bin/ls")
    )
    assert Sent.last.how["compress"] == is_compressed
    assert (len(Sent.last.files) > 1) == has_libraries
