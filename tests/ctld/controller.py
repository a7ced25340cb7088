"""A real slurmctld in a directory of its own, for tests of its life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyslurm_ng.up.ports import free_row
from pyslurm_ng.wire.client import Client
from tests.world.processes import is_alive
from tests.world.waiting import wait_until

SOURCE = Path(__file__).resolve().parents[2] / "src"
LIMIT_S = 60.0
# slurmctld on a slow state disk.
SLOW_SYNC = """
import os, runpy, time
usual = os.fdatasync
def slow(fd):
    time.sleep(%f)
    usual(fd)
os.fdatasync = slow
runpy.run_module("pyslurm_ng.ctld", run_name="__main__", alter_sys=True)
"""


class Controller:
    """Starts, asks, kills and starts again."""

    def __init__(
        self, directory: Path, extra: str = "", sync_s: float = 0.0, patience_s: float = LIMIT_S
    ) -> None:
        """Write its files.

        Args:
            patience_s: how long a start may take.
            sync_s: how much longer than the disk's own time each sync of the journal takes.
        """
        self.directory = directory
        self.patience_s = patience_s
        self.program = ["-m", "pyslurm_ng.ctld"] if not sync_s else ["-c", SLOW_SYNC % sync_s]
        self.state = directory / "state"
        self.log_file = directory / "slurmctld.log"
        self.pid_file = directory / "slurmctld.pid"
        self.conf_path = directory / "slurm.conf"
        host = os.uname().nodename.partition(".")[0]
        self.state.mkdir(exist_ok=True)
        key = directory / "slurm.key"
        key.write_bytes(os.urandom(48))
        key.chmod(0o600)
        self.port = free_row(1)
        self.text = (
            f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={self.port}\n"
            f"SlurmUser={os.geteuid()}\nAuthType=auth/slurm\nCredType=cred/slurm\n"
            f"StateSaveLocation={self.state}\nSlurmctldPidFile={self.pid_file}\n"
            f"SlurmctldLogFile={self.log_file}\nSlurmdSpoolDir={directory}/spool\n"
            f"SlurmdParameters=config_overrides\nReturnToService=2\n"
            "NodeName=n[1-4] CPUs=4 RealMemory=1000\n"
            f"PartitionName=debug Nodes=ALL Default=YES State=UP\n{extra}"
        )
        self.conf_path.write_text(self.text)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run slurmctld until it is in the background or has ended."""
        return subprocess.run(
            [sys.executable, *self.program, "-f", str(self.conf_path), *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=self.patience_s,
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def start(self, *options: str) -> None:
        """Start it and see that it runs."""
        ran = self.run(*options)
        assert ran.returncode == 0, ran.stderr + self.log()

    def client(self) -> Client:
        """Return a command's connection."""
        conf = dict(line.split("=", 1) for line in self.text.splitlines() if "Name=n" not in line)
        return Client(conf)

    def call(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask one thing."""
        client = self.client()
        try:
            return client.call(kind, fields)
        finally:
            client.close()

    def change(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Change one thing."""
        client = self.client()
        try:
            return client.change(kind, fields)
        finally:
            client.close()

    def pid(self) -> int:
        """Return the daemon's process id."""
        return int(self.pid_file.read_text())

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal and wait until the process is gone."""
        pid = self.pid()
        os.kill(pid, number)
        wait_until(lambda: not is_alive(pid))

    def stop(self) -> None:
        """End it if it runs."""
        try:
            pid = self.pid()
        except (OSError, ValueError):
            return
        if is_alive(pid):
            self.kill(signal.SIGKILL)

    def log(self) -> str:
        """Return what it has logged."""
        return self.log_file.read_text() if self.log_file.exists() else ""
