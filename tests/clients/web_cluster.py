"""A cluster with slurmrestd for clients of REST and browsers, as `pyslurm-ng up` makes it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.daemons.faults import open_directory, tracebacks
from tests.daemons.live import BIN, LiveCluster, start

USER, ACCOUNT = "games", "science"


@dataclass(frozen=True)
class WebCluster:
    """A cluster and the address of its pages."""

    live: LiveCluster
    address: str

    def token(self, user: str = USER) -> str:
        """Return a token of a user for an hour."""
        words = ("scontrol", "token", f"username={user}", "lifespan=3600")
        return self.live.out(*words).strip().removeprefix("SLURM_JWT=")

    def status(self) -> str:
        """Return what `pyslurm-ng status` prints: the address, and a link that logs in once."""
        return _status(self.live)

    @property
    def process(self) -> psutil.Process:
        """slurmrestd."""
        path = self.live.directory / "run" / "slurmrestd.pid"
        return psutil.Process(int(path.read_text()))


def _status(live: LiveCluster) -> str:
    return live.out(str(BIN / "pyslurm-ng"), "status", "--dir", str(live.directory))


@contextmanager
def web_cluster(*options: str) -> Iterator[WebCluster]:
    """Start a cluster of two nodes; at its end no daemon may have had an unexpected error."""
    with open_directory() as directory:
        words = ("--nodes", "2", "--cpus", "4", "--memory", "4000", *options)
        live = start(directory / "c", *words, has_web=True)
        try:
            live.out("sacctmgr", "-Qi", "add", "account", ACCOUNT)
            live.out("sacctmgr", "-Qi", "add", "user", USER, f"account={ACCOUNT}")
            address = re.search(r"http://[\w.:-]+", _status(live))
            assert address is not None, _status(live)
            yield WebCluster(live, address[0])
            assert tracebacks(live) == []
        finally:
            live.down()


def make_environment(target: Path, *packages: str) -> Path:
    """Install packages of PyPI into a virtual environment; return its bin."""
    if not target.exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", target], check=True)
    pip = [target / "bin" / "python", "-m", "pip", "install", "-q", *packages]
    subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
    return target / "bin"
