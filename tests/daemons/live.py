"""A real cluster on loopback for tests: `pyslurm-ng up`, commands as a user types them, `down`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.world.waiting import wait_until

# scripts/run_tests.sh names another directory where other users may not enter this one.
BIN = Path(os.environ.get("PYSLURM_TEST_BIN") or Path(sys.prefix) / "bin")
SBIN = BIN if (BIN / "slurmctld").exists() else BIN.parent / "sbin"
_INSTALLED = BIN.parent / "lib" / "pyslurm-ng"
# An interpreter that other users may start, and where it finds our package and its libraries.
PYTHON = str(_INSTALLED / "bin" / "pyslurm-python") if _INSTALLED.exists() else sys.executable
PYTHON_PATH = [str(_INSTALLED)] if _INSTALLED.exists() else [path for path in sys.path if path]
COMMAND_LIMIT_S = 60.0
# What srun and salloc say of a job that does not start at once, as on a machine under load.
_WAITING = re.compile(
    r"^(srun|salloc): (job \d+ (queued and waiting for|has been allocated) resources"
    r"|Required node not available \(down, drained or reserved\))\n",
    re.MULTILINE,
)


def missing_programs() -> list[str]:
    """Return which programs a cluster needs that `make build` has not put into place."""
    needed = ("slurmctld", "slurmd", "slurmdbd", "sinfo", "squeue", "sbatch", "pyslurm-ng")
    places = (BIN, SBIN)
    return [name for name in needed if not any((directory / name).exists() for directory in places)]


@dataclass(frozen=True)
class LiveCluster:
    """A cluster that is up; `directory` is what `--dir` was."""

    directory: Path
    environment: dict[str, str]

    def run(
        self,
        *words: str,
        cwd: Path | None = None,
        stdin: str | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the cluster's environment, whatever its exit code."""
        return subprocess.run(
            [*words],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.directory,
            env={**self.environment, **environment},
            timeout=COMMAND_LIMIT_S,
            **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
        )

    def out(self, *words: str, cwd: Path | None = None, **environment: str) -> str:
        """Return what a command prints; it has to succeed in silence on stderr."""
        done = self.run(*words, cwd=cwd, **environment)
        said = _WAITING.sub("", done.stderr)
        assert (done.returncode, said) == (0, ""), f"{words}: {done}"
        return done.stdout

    def submit(self, *words: str, cwd: Path | None = None, **environment: str) -> int:
        """Submit with sbatch and return the job id."""
        return int(self.out("sbatch", "--parsable", *words, cwd=cwd, **environment))

    def wait_until(self, what: str, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        """Wait for something to become true; the test fails by name when it does not."""
        try:
            wait_until(condition, what, limit_s, pause_s=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def keeps(self, what: str, condition: Callable[[], bool], for_s: float) -> None:
        """Let a fault last this long; something must hold all the time, or the test fails."""
        ends = time.monotonic() + for_s
        while time.monotonic() < ends:
            assert condition(), f"{what}: no longer so\n{self.logs()}"
            time.sleep(0.05)

    def wait_for_jobs(self, *job_ids: int, limit_s: float = 60.0) -> None:
        """Wait until none of these jobs (all jobs, without arguments) is in the queue."""
        chosen = ["-j", ",".join(map(str, job_ids))] if job_ids else []

        def gone() -> bool:
            done = self.run("squeue", "-h", "-o", "%i", *chosen)
            return not done.stdout.strip()

        self.wait_until(f"end of jobs {job_ids or 'all'}", gone, limit_s)

    def accounted(self, job_id: int, fields: str = "State,ExitCode", limit_s: float = 60.0) -> str:
        """Return sacct's line about a job once accounting knows its end."""

        def line(shown: str) -> str:
            return self.out("sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", shown).strip()

        def is_over() -> bool:
            # A heterogeneous job has a line for each component.
            ends = line("End")
            return bool(ends) and "Unknown" not in ends

        self.wait_until(f"accounting of job {job_id}", is_over, limit_s)
        return line(fields)

    def logs(self, lines: int = 15) -> str:
        parts = []
        for path in sorted((self.directory / "log").glob("*.log")):
            text = path.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {path.name}\n" + "\n".join(text))
        return "\n".join(parts)

    def down(self) -> None:
        subprocess.run(
            [str(BIN / "pyslurm-ng"), "down", "--dir", str(self.directory)],
            check=False,
            capture_output=True,
        )


def start(
    directory: Path,
    *options: str,
    wrapper: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    has_web: bool = False,
) -> LiveCluster:
    """Start a cluster; options are those of `pyslurm-ng up`.

    Args:
        has_web: whether slurmrestd is started, too.
        wrapper: a command that starts it: the daemons are in the namespaces that it makes.
        variables: more of the daemons' environment.
    """
    web = [] if has_web else ["--no-web"]
    up = [str(BIN / "pyslurm-ng"), "up", "--dir", str(directory), *web, *options]
    done = subprocess.run(
        [*wrapper, *up],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(variables or {})},
    )
    assert done.returncode == 0, done.stderr
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
    environment["PATH"] = os.pathsep.join((str(BIN), str(SBIN), os.environ["PATH"]))
    environment["SLURM_CONF"] = str(directory / "etc" / "slurm.conf")
    return LiveCluster(directory, environment)
