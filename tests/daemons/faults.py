"""What the tests that break a cluster on purpose share: daemons to kill, users, ends of jobs."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons.live import BIN, LiveCluster, missing_programs
from tests.world.processes import is_alive

USERS = ("nobody", "games")


def _why_not() -> str:
    """Return why commands cannot be run as two ordinary users here; "" when they can."""
    missing = missing_programs()
    if missing:
        return f"not built: {' '.join(missing)}"
    if os.geteuid() != 0:
        return "only root can act as two users"
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            return f"there is no user {user}"
    words = ["setpriv", "--reuid=nobody", "--clear-groups", str(BIN / "sbatch"), "-V"]
    try:
        done = subprocess.run(words, check=False, capture_output=True)
    except OSError as error:
        return f"setpriv: {error.strerror}"
    return f"other users may not enter {BIN}" if done.returncode else ""


_REASON = _why_not()
AS_OTHERS = [
    pytest.mark.daemons,
    pytest.mark.root,
    pytest.mark.skipif(bool(_REASON), reason=_REASON),
]
"""Marks of the modules whose tests act as two ordinary users."""


@contextmanager
def open_directory() -> Iterator[Path]:
    """Return a directory that other users may enter.

    pytest's own will not do: every session of pytest closes the directory above all of them.
    """
    with tempfile.TemporaryDirectory(prefix="psng-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o755)
        yield Path(name)


def directory_for(cluster: LiveCluster, test_name: str) -> Path:
    """Make a directory for one test that every user may write to."""
    name = "".join(char if char.isalnum() else "_" for char in test_name)
    directory = cluster.directory.parent / name
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def as_user(
    cluster: LiveCluster, user: str, *words: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user with that user's own groups."""
    group = str(pwd.getpwnam(user).pw_gid)
    start = ["setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups", "--"]
    return cluster.run(*start, *words, cwd=cwd, **environment)


def submit_as(cluster: LiveCluster, user: str, *words: str, cwd: Path | None = None) -> int:
    done = as_user(cluster, user, "sbatch", "--parsable", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def pid_of(cluster: LiveCluster, daemon: str) -> int:
    """Return the process id of slurmctld, slurmdbd, slurmrestd or slurmd-NODE."""
    run = cluster.directory / "run"
    directory = run if daemon.startswith(("slurmd-", "slurmrestd")) else run / "service"
    return int((directory / f"{daemon}.pid").read_text())


def kill(cluster: LiveCluster, daemon: str) -> None:
    """Kill a daemon as a crash would and wait until it is gone."""
    pid = pid_of(cluster, daemon)
    os.kill(pid, signal.SIGKILL)
    cluster.wait_until(f"end of {daemon}", lambda: not is_alive(pid))


def start_daemon(cluster: LiveCluster, daemon: str) -> None:
    """Start a daemon as an administrator would; it returns when it can be talked to."""
    words = {"slurmctld": ["slurmctld"], "slurmdbd": ["slurmdbd"]}
    done = cluster.run(*words.get(daemon, ["slurmd", "-N", daemon.removeprefix("slurmd-")]))
    assert done.returncode == 0, done.stderr


def wait_for_text(cluster: LiveCluster, *paths: Path, limit_s: float = 40.0) -> None:
    """Wait until each of these files has something in it: the job has begun."""
    cluster.wait_until(
        f"text in {paths[0]}",
        lambda: all(path.exists() and path.stat().st_size for path in paths),
        limit_s,
    )


def tracebacks(cluster: LiveCluster) -> list[str]:
    """Return every line of the logs that shows a bug instead of an error."""
    lines = []
    for path in (cluster.directory / "log").iterdir():
        for line in path.read_text(errors="replace").splitlines():
            if "Traceback" in line or "AssertionError" in line:
                lines.append(f"{path.name}: {line}")
    # `walk` passes over what daemons clear away meanwhile.
    for directory, _, names in os.walk(cluster.directory / "spool"):
        lines += [os.path.join(directory, name) for name in names if name.endswith(".bug")]
    return lines


@contextmanager
def without_faults(cluster: LiveCluster) -> Iterator[LiveCluster]:
    """Take a cluster down at the end; no daemon may have had a fault by then."""
    yield cluster
    lines = tracebacks(cluster)
    cluster.down()
    assert lines == []


def accounted(cluster: LiveCluster, jobs: list[int], fields: str) -> dict[int, str]:
    """Return sacct's line about each job once all of them have ended in accounting."""
    chosen = ",".join(map(str, jobs))

    def lines(shown: str) -> dict[int, str]:
        words = ("sacct", "-X", "-n", "-P", "-j", chosen, "-o", f"JobIDRaw,{shown}")
        rows = (line.split("|", 1) for line in cluster.out(*words).splitlines())
        return {int(job_id): rest for job_id, rest in rows}

    def is_complete() -> bool:
        ends = lines("End")
        return len(ends) == len(jobs) and "Unknown" not in ends.values()

    cluster.wait_until(f"accounting of {len(jobs)} jobs", is_complete)
    return lines(fields)
