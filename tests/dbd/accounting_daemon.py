"""A real slurmdbd in a directory of its own."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

from pyslurm_ng.up.ports import free_row
from pyslurm_ng.wire.client import Client
from tests.world.processes import is_alive
from tests.world.waiting import wait_until


class AccountingDaemon:
    """A directory with the configuration of a cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port = free_row(1)
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        path.joinpath("state").mkdir()
        path.joinpath("slurm.key").write_bytes(os.urandom(64))
        path.joinpath("slurm.key").chmod(0o600)
        self.slurm_conf = path / "slurm.conf"
        self.slurm_conf.write_text(
            f"ClusterName=demo\nSlurmctldHost=localhost\nSlurmUser={self.user}\n"
            f"AuthType=auth/slurm\nStateSaveLocation={path}/state\n"
            f"SlurmctldPidFile={path}/slurmctld.pid\nSlurmctldLogFile={path}/slurmctld.log\n"
            f"AccountingStoragePort={self.port}\nAccountingStorageHost=localhost\n"
        )
        self.dbd_conf = path / "slurmdbd.conf"

    def write_dbd_conf(self, more: str = "", mode: int = 0o600) -> None:
        self.dbd_conf.write_text(
            f"DbdHost=localhost\nDbdPort={self.port}\nSlurmUser={self.user}\n"
            f"AuthType=auth/slurm\nPidFile={self.path}/slurmdbd.pid\n"
            f"LogFile={self.path}/slurmdbd.log\nStorageType=accounting_storage/sqlite\n"
            f"StorageLoc={self.path}/state/acct.sqlite\n{more}"
        )
        self.dbd_conf.chmod(mode)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; from pyslurm_ng.dbd.__main__ import main; sys.exit(main(sys.argv[1:]))"
        return subprocess.run(
            [sys.executable, "-c", code, *words],
            env={**os.environ, "SLURM_CONF": str(self.slurm_conf)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def pid(self) -> int:
        return int((self.path / "slurmdbd.pid").read_text())

    def client(self) -> Client:
        conf = {
            "ClusterName": "demo",
            "SlurmctldPidFile": f"{self.path}/slurmctld.pid",
            "AccountingStorageHost": "localhost",
            "AccountingStoragePort": str(self.port),
            "AuthType": "auth/slurm",
            "SlurmUser": self.user,
        }
        return Client(conf, "slurmdbd", wait_s=0)

    def stop(self) -> None:
        try:
            pid = self.pid()
        except (FileNotFoundError, ValueError):
            return
        os.kill(pid, signal.SIGTERM)
        self.wait_gone(pid)

    def wait_gone(self, pid: int) -> None:
        wait_until(lambda: not is_alive(pid), f"end of process {pid}")
