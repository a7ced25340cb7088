"""--mpi on real daemons: ranks on several nodes find each other, by a client without a library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyslurm_ng.base import libpmix
from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons
SILENT = """
import os, pathlib, socket, time
port = pathlib.Path("port.0")
while not port.exists() or not port.read_text():
    time.sleep(0.1)
number = int(port.read_text())
pathlib.Path("here").touch()
os.setuid(65534)
for connection in [socket.create_connection(("127.0.0.1", number)) for _ in range(20)]:
    print("refused" if connection.recv(1) == b"" else "taken", flush=True)
"""
"""Connects as another user and says nothing."""
CLIENT = Path(__file__).parents[1] / "d" / "stepd" / "pmi_client.py"


@pytest.fixture(name="client")
def _client(work: Path) -> tuple[str, str]:
    """Return the words of the client, where the tasks' user can read it."""
    copy = work / "pmi_client.py"
    copy.write_text(CLIENT.read_text())
    copy.chmod(0o644)
    return (sys.executable, str(copy))


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("layout", [("-n4", "-N2"), ("-n5", "-N3", "-m", "cyclic")])
def test_ranks_of_several_nodes_read_what_all_have_put(
    live_cluster: LiveCluster, work: Path, client: tuple[str, str], version: str,
    layout: tuple[str, ...],
) -> None:  # fmt: skip
    """Three fences, over srun."""
    got = live_cluster.run(
        "srun", "-O", *layout, "--mpi=pmi2", *client, version, "exchange", cwd=work
    )
    count = int(layout[0][2:])
    assert got.returncode == 0, got.stderr
    assert sorted(got.stdout.splitlines()) == [
        f"rank {rank} has read {count}" for rank in range(count)
    ]


@pytest.mark.skipif(not libpmix.major(), reason="libpmix.so.2 is not installed")
@pytest.mark.parametrize("words", [("collect",), ()])
def test_pmix_over_several_nodes(
    live_cluster: LiveCluster, work: Path, words: tuple[str, ...]
) -> None:
    """With all data in the fence, and with each value fetched from the node that has it."""
    client = str(CLIENT.parents[1] / "pmix" / "client.py")
    source = str(CLIENT.parents[3] / "src")
    got = live_cluster.run(
        "srun", "-n5", "-N3", "-m", "cyclic", "--mpi=pmix", sys.executable, client, "5", *words,
        cwd=work, PYTHONPATH=source,
    )  # fmt: skip
    assert got.returncode == 0, got.stderr
    ranks = sorted(line.partition(" on")[0] for line in got.stdout.splitlines())
    assert ranks == [f"rank {rank} of 5" for rank in range(5)]


@pytest.mark.skipif(not libpmix.major(), reason="libpmix.so.2 is not installed")
def test_a_rank_without_the_steps_secret_is_no_rank(live_cluster: LiveCluster, work: Path) -> None:
    """Every process of a node can connect, and libpmix believes what user it says it is."""
    client = str(CLIENT.parents[1] / "pmix" / "client.py")
    line = "PMIX_NAMESPACE=slurm.pmix.$SLURM_JOB_ID.$SLURM_STEP_ID exec $0 $1 2"
    got = live_cluster.run(
        "srun", "-n2", "-N1", "--mpi=pmix", "bash", "-c", line, sys.executable, client,
        cwd=work, PYTHONPATH=str(CLIENT.parents[3] / "src"),
    )  # fmt: skip
    assert got.returncode == 1 and "rank" not in got.stdout
    assert got.stderr.count("PMIx_Init: error") == 2


@pytest.mark.skipif(not libpmix.major(), reason="libpmix.so.2 is not installed")
def test_a_pmix_server_that_is_killed_leaves_no_directory(
    live_cluster: LiveCluster, work: Path
) -> None:
    """It is a process of the user, which anything of the user's may kill."""
    line = "ls -d $PMIX_SERVER_TMPDIR; kill -9 $(pgrep -P $PPID); sleep 60"
    got = live_cluster.run("srun", "-n1", "--mpi=pmix", "bash", "-c", line, cwd=work)
    assert got.stdout.startswith("/")
    live_cluster.wait_until(
        "the end of the step", lambda: not Path(got.stdout.splitlines()[0]).exists()
    )


@pytest.mark.skipif(not libpmix.major(), reason="libpmix.so.2 is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_other_users_do_not_keep_ranks_waiting(live_cluster: LiveCluster, work: Path) -> None:
    """libpmix waits for what each connection has to say, one after the other."""
    program = work / "silent.py"
    program.write_text(SILENT)
    client = str(CLIENT.parents[1] / "pmix" / "client.py")
    line = (
        "echo ${PMIX_SERVER_URI4##*:} > port.$SLURM_PROCID; "
        'while [ ! -e here ]; do sleep 0.1; done; sleep 1; exec "$@"'
    )
    with subprocess.Popen(
        [sys.executable, str(program)], cwd=work, stdout=subprocess.PIPE, text=True
    ) as silent:
        got = live_cluster.run(
            "srun", "-n2", "-N1", "--mpi=pmix", "bash", "-c", line, "bash", sys.executable, client,
            "2", cwd=work, PYTHONPATH=str(CLIENT.parents[3] / "src"),
        )  # fmt: skip
        assert silent.communicate()[0] == "refused\n" * 20
    assert got.returncode == 0, got.stderr


def test_components_are_one_world(
    live_cluster: LiveCluster, work: Path, client: tuple[str, str]
) -> None:
    """The process above their sruns passes on what they put."""
    words = ("--mpi=pmi2", *client, "2", "exchange")
    got = live_cluster.run("srun", "-n1", *words, ":", "-n2", "-N2", *words, cwd=work)
    assert got.returncode == 0, got.stderr
    assert sorted(got.stdout.splitlines()) == [f"rank {rank} has read 3" for rank in range(3)]


@pytest.mark.parametrize("word", ["abort7", "raw:00ff00ff0a0a0a", "exit3"])
def test_one_rank_ends_the_step_on_all_nodes(
    live_cluster: LiveCluster, work: Path, client: tuple[str, str], word: str
) -> None:
    """An abort, garbage, a death: no rank waits in its fence for ever."""
    got = live_cluster.run(
        "srun", "-n3", "-N3", "--mpi=pmi2", *client, "1", f"only:2:{word}", "fence", cwd=work
    )
    assert got.returncode != 0
    assert "Job step aborted" in got.stderr
    assert len([line for line in got.stderr.splitlines() if "] error: " in line]) == 1


def test_variables_are_slurms(live_cluster: LiveCluster, work: Path) -> None:
    """SLURM_MPI_TYPE says what was chosen, and nothing where nothing was."""
    show = ("bash", "-c", "env | grep -E '^(PMI_[^F]|SLURM_MPI)' | sort")
    got = live_cluster.out("srun", "-n1", "--mpi=pmi2", *show, cwd=work).splitlines()
    assert got[0].startswith("PMI_JOBID=") and got[0].endswith(".0")
    assert got[1:] == ["PMI_RANK=0", "PMI_SIZE=1", "SLURM_MPI_TYPE=pmi2"]
    assert live_cluster.run("srun", "-n1", *show, cwd=work).stdout == ""


def test_a_step_inside_a_task_does_not_inherit_its_connection(
    live_cluster: LiveCluster, work: Path
) -> None:
    """Its descriptor is not open there."""
    inner = "srun --overlap --mpi=none -n1 env"
    got = live_cluster.run("srun", "-n1", "--mpi=pmi2", "bash", "-c", inner, cwd=work)
    assert got.returncode == 0 and "PMI_RANK" not in got.stdout


def test_the_launcher_of_another_program_has_no_mpi_of_ours(
    live_cluster: LiveCluster, work: Path
) -> None:
    """mpirun starts the ranks itself."""
    script = "srun --external-launcher env"
    got = live_cluster.run(
        "salloc", "-Q", "-n1", "env", "SLURM_MPI_TYPE=pmi2", "bash", "-c", script, cwd=work
    )
    assert got.returncode == 0 and "PMI_RANK" not in got.stdout
