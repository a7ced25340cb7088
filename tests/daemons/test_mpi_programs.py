"""MPI programs of real libraries under srun, over four nodes, and by their own launchers.

PYSLURM_MPI_COMPILERS names further compilers, as `pmi2=/venv/bin/mpicc:pmix=/other/bin/mpicc`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pyslurm_ng.base import libpmix
from tests.daemons.live import LiveCluster

pytestmark = [pytest.mark.daemons, pytest.mark.soak]
SOURCE = Path(__file__).with_name("mpi_programs.c")
NAMED = os.environ.get("PYSLURM_MPI_COMPILERS", "")
LIBRARIES = [
    ("pmi2", "mpicc.mpich"),
    ("pmix", "mpicc.openmpi"),
    *(tuple(pair.split("=", 1)) for pair in NAMED.split(":") if pair),
]
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip


@pytest.fixture(name="program", params=LIBRARIES, ids=lambda pair: Path(pair[1]).as_posix())
def _program(request: pytest.FixtureRequest, live_cluster: LiveCluster) -> tuple[str, str, str]:
    """Return the kind of PMI, the program, and where the library's launcher is."""
    kind, compiler = request.param
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"{compiler} is not installed")
    if kind == "pmix" and not libpmix.major():
        pytest.skip("libpmix.so.2 is not installed")
    launcher = Path(path).with_name(Path(path).name.replace("mpicc", "mpirun"))
    target = live_cluster.directory.parent / f"program-{path.replace('/', '-')}"
    if not target.exists():
        subprocess.run([path, "-O1", "-o", str(target), str(SOURCE)], check=True)
        target.chmod(0o755)
    return kind, str(target), str(launcher)


def srun(
    cluster: LiveCluster, work: Path, kind: str, *words: str
) -> subprocess.CompletedProcess[str]:
    # Open MPI 4 cannot make a window over nodes that are one host, by its own launcher neither.
    osc = "pt2pt" if any("openmpi" in word for word in words) else "^ucx"
    return cluster.run(
        "srun", "-O", f"--mpi={kind}", *words, cwd=work, **SETTINGS, OMPI_MCA_osc=osc
    )  # fmt: skip


SHAPES = {
    "allreduce": ("-n8 -N4", "allreduce of 8: 36"),
    "ring": ("-n8 -N4", "ring of 8: 7"),
    "cyclic": ("-n8 -N4 -m cyclic", "allreduce of 8: 36"),
    "one-sided": ("-n8 -N4", "one-sided of 8: 8"),
    "file": ("-n8 -N4", "file of 8: out"),
    "spawn": ("-n2 -N2", "spawn: refused"),
    "names": ("-n4 -N2", "names of 4: a-port-of-rank-0"),
    "hello": ("-n64 -N4", "hello of 64"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_program_runs(
    live_cluster: LiveCluster, work: Path, program: tuple[str, str, str], name: str
) -> None:
    kind, path, _ = program
    shape, line = SHAPES[name]
    words = ["file", "out"] if name == "file" else [name.replace("cyclic", "allreduce")]
    got = srun(live_cluster, work, kind, *shape.split(), path, *words)
    assert (got.returncode, got.stdout.splitlines()) == (0, [line]), got.stderr
    if name == "file":
        lines = (work / "out").read_text().splitlines()
        assert lines == [f"rank {rank:9d}" for rank in range(8)]


@pytest.mark.parametrize("words", [("abort", "7"), ("die",)])
def test_an_abort_or_a_death_ends_the_step(
    live_cluster: LiveCluster, work: Path, program: tuple[str, str, str], words: tuple[str, ...]
) -> None:
    kind, path, _ = program
    got = srun(live_cluster, work, kind, "-n8", "-N4", path, *words)
    assert got.returncode != 0 and "Job step aborted" in got.stderr


def test_two_steps_of_one_job_at_once(
    live_cluster: LiveCluster, work: Path, program: tuple[str, str, str]
) -> None:
    kind, path, _ = program
    step = f"srun --overlap -n4 -N4 --mpi={kind} {path}"
    got = live_cluster.run(
        "salloc", "-Q", "-n4", "-N4", "bash", "-c", f"{step} ring & {step} allreduce; wait",
        cwd=work, **SETTINGS,
    )  # fmt: skip
    assert sorted(got.stdout.splitlines()) == ["allreduce of 4: 10", "ring of 4: 3"], got.stderr


def test_components_are_one_world(
    live_cluster: LiveCluster, work: Path, program: tuple[str, str, str]
) -> None:
    kind, path, _ = program
    words = (f"--mpi={kind}", path, "allreduce")
    got = live_cluster.run(
        "srun", "-n2", "-N1", *words, ":", "-n3", "-N2", *words, cwd=work, **SETTINGS
    )
    assert (got.returncode, got.stdout) == (0, "allreduce of 5: 15\n"), got.stderr


def test_the_librarys_own_launcher_starts_ranks_by_srun(
    live_cluster: LiveCluster, work: Path, program: tuple[str, str, str]
) -> None:
    """hydra, orted and PRRTE find the nodes of an allocation."""
    _, path, launcher = program
    if not Path(launcher).exists():
        pytest.skip(f"{launcher} is not installed")
    bind = ["--bind-to", "none"] if "mpich" not in launcher else []
    # By its whole path Open MPI puts its own folder, and any srun there, first into PATH.
    if shutil.which(Path(launcher).name) == launcher:
        launcher = Path(launcher).name
    got = live_cluster.run(
        "salloc", "-Q", "-N4", "-n8", launcher, *bind, path, "allreduce", cwd=work, **SETTINGS
    )
    assert (got.returncode, got.stdout) == (0, "allreduce of 8: 36\n"), got.stderr
