"""sbcast and srun --bcast: files on the nodes of a job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons


def in_job(live_cluster: LiveCluster, work: Path, script: str) -> str:
    """Run a script in an allocation of one node; return what it prints, errors too."""
    words = ("salloc", "-Q", "-N1", "bash", "-c", f"exec 2>&1; {script}")
    return live_cluster.run(*words, cwd=work).stdout


def test_a_file_is_sent_and_not_written_over(live_cluster: LiveCluster, work: Path) -> None:
    """With -f it is; -p keeps times. Exit codes are the error numbers."""
    (work / "file").write_text("data\n")
    (work / "file").chmod(0o640)
    os.utime(work / "file", (1_500_000_000, 1_500_000_000))
    said = in_job(
        live_cluster, work,
        f"sbcast file {work}/copy; echo $?; sbcast file {work}/copy; echo $?; "
        f"sbcast -fp file {work}/copy; echo $?; sbcast file /no/such/place; echo $?",
    )  # fmt: skip
    lines = [line.replace("(n", "(N").split("(N")[0] for line in said.splitlines()]
    assert lines == [
        "0", "sbcast: error: REQUEST_FILE_BCAST", "17", "0",
        "sbcast: error: REQUEST_FILE_BCAST", "2",
    ]  # fmt: skip
    copy = work / "copy"
    assert copy.read_text() == "data\n"
    assert copy.stat().st_mode & 0o777 == 0o640
    assert copy.stat().st_mtime == 1_500_000_000


def test_an_empty_file_is_sent_with_a_warning(live_cluster: LiveCluster, work: Path) -> None:
    """As in Slurm, with exit code 0."""
    (work / "file").touch()
    said = in_job(live_cluster, work, f"sbcast file {work}/copy; echo $?")
    assert said.splitlines() == ["sbcast: error: Warning: file `file` is empty.", "0"]
    assert (work / "copy").read_bytes() == b""


def test_large_files_come_whole_packed_or_not(live_cluster: LiveCluster, work: Path) -> None:
    data = os.urandom(3 << 20) + bytes(9 << 20)
    (work / "file").write_bytes(data)
    said = in_job(
        live_cluster, work,
        f"sbcast -s 1m file {work}/plain; sbcast -C -s 5m file {work}/packed",
    )  # fmt: skip
    assert said == ""
    assert (work / "plain").read_bytes() == data
    assert (work / "packed").read_bytes() == data


def test_a_job_is_needed_and_known(live_cluster: LiveCluster, work: Path) -> None:
    (work / "file").write_text("data\n")
    ran = live_cluster.run("sbcast", "file", "/tmp/x", cwd=work)
    assert ran.stderr.startswith("sbcast: error: Need a job id to run this command.")
    ran = live_cluster.run("sbcast", "-j", "99999999", "file", "/tmp/x", cwd=work)
    assert (ran.stderr, ran.returncode) == (
        "sbcast: error: Slurm job 99999999 lookup error: Invalid job id specified\n",
        255,
    )
    ran = live_cluster.run("sbcast", "-j", "99999", "file", "dir/", cwd=work)
    assert ran.stderr == "sbcast: error: Target filename cannot be a directory.\n"


def test_srun_sends_its_program(live_cluster: LiveCluster, work: Path) -> None:
    """To a name of its own on each node, unless a full path is given."""
    (work / "tool").write_text("#!/bin/sh\necho $0\n")
    (work / "tool").chmod(0o755)
    ran = live_cluster.run("srun", "-n1", "--bcast", "./tool", cwd=work)
    path = Path(ran.stdout.strip())
    assert path.parent == work
    assert path.name.startswith("slurm_bcast_")
    assert path.read_text() == (work / "tool").read_text()
    ran = live_cluster.run("srun", "-n1", f"--bcast={work}/there", "./tool", cwd=work)
    assert ran.stdout == f"{work}/there\n"
    ran = live_cluster.run("srun", "-n1", "--bcast=/no/such/place", "./tool", cwd=work)
    assert "No such file or directory" in ran.stderr
    assert ran.stderr.endswith("Step launch aborted.\n")
    assert ran.returncode == 1


def test_a_file_goes_to_the_nodes_of_a_step(live_cluster: LiveCluster, work: Path) -> None:
    """-j names a step, -v tells what is sent where; steps that are not there have no nodes."""
    (work / "file").write_text("data\n")
    said = in_job(
        live_cluster, work,
        "srun -n1 sleep 60 & until squeue -hs -j $SLURM_JOB_ID | grep -q '[.]0 '; do sleep .1; "
        f"done; sbcast -v -j $SLURM_JOB_ID.0 file {work}/copy; "
        f"sbcast -j $SLURM_JOB_ID.7 file {work}/copy; sbcast -j $SLURM_JOB_ID.x file copy; "
        "scancel $SLURM_JOB_ID.0; wait",
    )  # fmt: skip
    lines = said.splitlines()
    assert (work / "copy").read_text() == "data\n"
    assert "sbcast: modes    = 100644" in lines
    assert any(line.startswith("sbcast: jobid      = ") and line.endswith(".0") for line in lines)
    assert any(line.endswith(".7 lookup error: Invalid job id specified") for line in lines)
    assert any(line.startswith("sbcast: fatal: Bad step specified: ") for line in lines)
