"""plugstack.conf on a live cluster: the examples of etc/plugins, as ordinary users meet them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import AS_OTHERS, as_user, open_directory, without_faults
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS
USER = "games"
EXAMPLES = Path(__file__).resolve().parents[2] / "etc" / "plugins"
KEEPER = """
import os

def task_init(spank):
    if spank.getenv("BREAK") == "loop":
        while True:
            pass
    if spank.getenv("BREAK") == "raise":
        raise RuntimeError("on purpose")
    spank.setenv("SEEN", f"{spank.job_id}.{spank.step_id}/{spank.task_id} {os.getuid()}")

def local_user_init(spank):
    spank.setenv("FROM_SRUN", str(spank.job_id))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        made = start(directory / "c", "--nodes", "2", "--cpus", "4")
        with without_faults(made):
            etc = made.directory / "etc"
            for name in ("renice.py", "private_tmp.py"):
                shutil.copy(EXAMPLES / name, etc / name)
            (etc / "keeper.py").write_text(KEEPER)
            for name in ("renice.py", "private_tmp.py", "keeper.py"):
                (etc / name).chmod(0o644)
            scratch = directory / "scratch"
            scratch.mkdir()
            scratch.chmod(0o1777)
            (etc / "plugstack.conf").write_text(
                "include plugstack.conf.d/*.conf\n"
                f"required private_tmp.py {scratch} {directory}/steps\n"
                "required keeper.py\n"
                "optional /usr/lib/slurm/old.so\n"
            )
            (etc / "plugstack.conf.d").mkdir()
            (etc / "plugstack.conf.d" / "renice.conf").write_text("optional ../renice.py 2 9\n")
            with (etc / "slurm.conf").open("a") as conf:
                conf.write("\nSlurmdParameters=config_overrides,spank_timeout=2\n")
            made.out("scontrol", "reconfigure")
            made.wait_until(
                "the plugins",
                lambda: bool(made.run("srun", "-N2", "sh", "-c", "echo $SEEN").stdout.strip()),
            )
            yield made


def test_an_option_of_a_plugin_reaches_the_tasks(cluster: LiveCluster) -> None:
    """It is in --help, has bounds here, and sets the nice value of each task as root."""
    assert "--renice=PRIORITY" in cluster.out("sbatch", "--help")
    ran = as_user(cluster, USER, "srun", "-n2", "-N2", "--renice", "7", "nice", cwd=Path("/"))
    assert (ran.stdout, ran.returncode) == ("7\n7\n", 0), ran
    wrong = as_user(cluster, USER, "srun", "--renice=12", "nice", cwd=Path("/"))
    assert "--renice=12: a number from 2 to 9 is allowed" in wrong.stderr
    unknown = as_user(cluster, USER, "srun", "--reniced=12", "nice", cwd=Path("/"))
    assert "unrecognized option '--reniced=12'" in unknown.stderr


def test_an_option_of_sbatch_is_for_its_steps_too(cluster: LiveCluster, tmp_path: Path) -> None:
    """From a #SBATCH line; a step's own option counts more."""
    work = cluster.directory.parent / "scratch"
    script = "#!/bin/sh\n#SBATCH --renice=3 --export=PATH\nnice\nsrun nice\nsrun --renice=5 nice\n"
    out = Path("/tmp") / f"{tmp_path.name}-{os.getpid()}.out"
    path = work / "job.sh"
    path.write_text(script)
    ran = as_user(cluster, USER, "sbatch", "-W", "-o", str(out), str(path), cwd=Path("/"))
    assert ran.returncode == 0, ran
    try:
        # Its login shell may not work, and that is noted first.
        assert out.read_text().endswith("3\n3\n5\n")
    finally:
        out.unlink()
        path.unlink()


def test_each_step_has_a_folder_of_its_own(cluster: LiveCluster) -> None:
    """Nobody else sees what it writes there, and it is gone after the step."""
    scratch = cluster.directory.parent / "scratch"
    script = f"touch {scratch}/mine; ls {scratch}; stat -c %U {scratch}"
    for _ in range(2):
        ran = as_user(cluster, USER, "srun", "sh", "-c", script, cwd=Path("/"))
        assert ran.stdout.split() == ["mine", USER], ran
    assert not list(scratch.iterdir())
    cluster.wait_until(
        "the end of the folders", lambda: not list((scratch.parent / "steps").iterdir())
    )


def test_calls_as_the_user_and_in_srun(cluster: LiveCluster) -> None:
    """They know the job, and what they set is in the tasks' environment."""
    ran = as_user(
        cluster, USER, "srun", "-n2", "sh", "-c", 'echo "$SEEN $FROM_SRUN $SLURM_JOB_ID"',
        cwd=Path("/"),
    )  # fmt: skip
    uid = cluster.out("id", "-u", USER).strip()
    rows = sorted(line.split() for line in ran.stdout.splitlines())
    assert [row[0].partition("/")[2] for row in rows] == ["0", "1"]
    assert all(row[1] == uid and row[2] == row[3] for row in rows)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "task_init() failed: RuntimeError: on purpose (keeper.py:9)"),
        ("loop", "task_init() failed: it took longer than 2 seconds"),
    ],
)
def test_a_plugin_that_breaks_costs_its_step(cluster: LiveCluster, how: str, reason: str) -> None:
    """Others run beside it and after it."""
    ran = as_user(cluster, USER, "srun", "env", "echo", "ran", cwd=Path("/"), BREAK=how)
    assert ran.returncode == 1, ran
    assert f"spank: required plugin keeper: {reason}" in ran.stderr
    assert "ran" not in ran.stdout
    assert as_user(cluster, USER, "srun", "echo", "ok", cwd=Path("/")).stdout == "ok\n"
