"""Find, start and stop the daemons of a cluster on this host."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from pyslurm_ng.up.layout import Layout

DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd")
STEP_DAEMONS = ("slurmstepd", "pyslurm-stepd")
LOG_TAIL_LINES = 12


class StartFailed(Exception):
    """A daemon or the cluster did not start; the text names it and holds its output."""


@dataclass(frozen=True, slots=True)
class Running:
    """One daemon that has a pid file; `process` is None when it is not alive."""

    name: str
    process: psutil.Process | None


def find_program(name: str, directories: Iterable[Path]) -> Path:
    """Return where a program is.

    Raises:
        StartFailed: in none of the directories.
    """
    for directory in directories:
        if os.access(directory / name, os.X_OK):
            return directory / name
    raise StartFailed(f"{name} is not installed beside pyslurm-ng; run `make build`")


def tail(path: Path, lines: int = LOG_TAIL_LINES, begin: int = 0) -> str:
    """Return the last lines of a log from byte `begin` on, or the reason why it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(begin, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError as problem:
        return f"({problem.strerror})"
    return "\n".join(text.splitlines()[-lines:]) or "(empty)"


def start(
    name: str,
    argv: list[str],
    layout: Layout,
    env: dict[str, str],
    entry: Callable[[], None] | None = None,
) -> subprocess.Popen[str]:
    """Start a daemon that goes to the background when it can answer.

    A file keeps its output until then, since a pipe would stay open in the daemon. `entry` is
    called in the child before the daemon takes its place.
    """
    output = (layout.log / f"{name}.start").open("w+")
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=layout.directory,
            text=True,
            start_new_session=True,
            preexec_fn=entry,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise StartFailed(f"{argv[0]}: {getattr(problem, 'strerror', problem)}") from None
    finally:
        output.close()


def log_sizes(layout: Layout) -> dict[str, int]:
    """Return the bytes of each daemon's log: what a start writes comes behind them."""
    return {path.stem: path.stat().st_size for path in layout.log.glob("*.log")}


def finish_start(
    name: str,
    child: subprocess.Popen[str],
    layout: Layout,
    limit_s: float,
    old_sizes: Mapping[str, int],
) -> None:
    """Wait until the daemon is in the background; `old_sizes` are those of `log_sizes` before.

    Errors: StartFailed with what it wrote, when it failed or took longer than `limit_s`.
    """
    try:
        code = child.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise StartFailed(
            f"{name} was not ready after {limit_s:.0f} s\n{evidence(layout, name, old_sizes)}"
        ) from None
    if code:
        text = evidence(layout, name, old_sizes)
        raise StartFailed(f"{name} ended with exit code {code}\n{text}")


def evidence(layout: Layout, name: str, old_sizes: Mapping[str, int]) -> str:
    """Return the last lines of a daemon's output, and those that it has added to its log."""
    parts = []
    log = layout.log / f"{name}.log"
    for path, begin in ((log.with_suffix(".start"), 0), (log, old_sizes.get(name, 0))):
        if path.exists() and path.stat().st_size > begin:
            parts.append(f"--- {path}\n{tail(path, begin=begin)}")
    return "\n".join(parts) or f"(it wrote nothing below {layout.log})"


def running(layout: Layout) -> list[Running]:
    """Return the daemons that have pid files, alive or not.

    A user's directory names only that user's processes: root's `down` ends no others by it.
    """
    known = []
    for name, path in layout.pid_files().items():
        process = process_of(path, DAEMONS)
        paths = (layout.directory, layout.run, path.parent, path)
        if process is not None and not _may_name(paths, process):
            process = None
        known.append(Running(name, process))
    return known


def _may_name(paths: tuple[Path, ...], process: psutil.Process) -> bool:
    """Return whether nobody but root, this user and the process's own has made these paths."""
    try:
        trusted = (0, os.geteuid(), process.uids().effective)
        # The directory may have been deleted, while what runs is in another place.
        there = [path for path in paths if os.path.lexists(path)]
        return all(path.lstat().st_uid in trusted for path in there)
    except (OSError, psutil.Error):
        return False


def other_owner(alive: list[Running]) -> str:
    """Return the user who runs one of these daemons, if this process may not end it; or ""."""
    if os.geteuid() == 0:
        return ""
    for program in alive:
        process = program.process
        try:
            if process is not None and process.uids().effective != os.geteuid():
                return process.username()
        except psutil.NoSuchProcess:
            continue
    return ""


def process_of(pid_file: Path, names: tuple[str, ...]) -> psutil.Process | None:
    """Return the process that a pid file names, unless another process has the number now."""
    try:
        process = psutil.Process(int(pid_file.read_text().split()[0]))
        if process.name() in names and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except (OSError, ValueError, IndexError, psutil.Error):
        pass
    return None


def step_daemons(layout: Layout) -> list[psutil.Process]:
    """Return the supervisors of job steps that belong to this cluster."""
    daemons = []
    spool = os.fsencode(layout.spool)
    conf = f"SLURM_CONF={layout.slurm_conf}".encode()
    for process in psutil.process_iter(["name"]):
        if process.info["name"] not in STEP_DAEMONS:
            continue
        try:
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if spool in command or spool in environ or conf in environ.split(b"\0"):
            daemons.append(process)
    return daemons


def is_over(process: psutil.Process) -> bool:
    """Return whether a process has ended; in containers, process 1 may leave it a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for_end(processes: list[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Return the processes that have not ended after `limit_s`."""
    wait_until(lambda: all(map(is_over, processes)), limit_s, pause_s=0.01)
    return [process for process in processes if not is_over(process)]


def end(processes: list[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Ask processes to end, wait, and kill those that stay; return the killed ones."""
    for process in processes:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    alive = wait_for_end(processes, limit_s)
    kill(alive)
    return alive


def kill(processes: list[psutil.Process], limit_s: float = 5.0) -> None:
    """End processes at once and wait until they are gone, `limit_s` at most."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    wait_for_end(processes, limit_s)


def end_tree(process: psutil.Process) -> None:
    """Kill a step's supervisor and all that it started."""
    try:
        kill([*process.children(recursive=True), process])
    except psutil.NoSuchProcess:
        return


def wait_until(done: Callable[[], bool], limit_s: float, pause_s: float = 0.05) -> bool:
    """Return whether `done` came true within `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True
