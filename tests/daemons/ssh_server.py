"""An sshd of our own for tests: PAM asks slurmd, and users without a shell have one."""

from __future__ import annotations

import pwd
import shutil
import socket
import subprocess
from pathlib import Path

from tests.d.mounts import can_mount
from tests.daemons.faults import USERS
from tests.daemons.live import BIN, SBIN, LiveCluster

DENIED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
_SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HAS_SSH = Path(_SSHD).exists() and shutil.which("ssh") is not None and can_mount()
WHY_NOT = "needs sshd, ssh and mount namespaces"
MODULE = BIN.parent / "lib" / "security" / "pam_pyslurm_adopt.so"


class Ssh:
    """One sshd.

    Args:
        module: whether our module of PAM runs the program; else pam_exec does.
        words: further ones of the program.
    """

    def __init__(
        self, cluster: LiveCluster, directory: Path, *words: str, module: bool = False
    ) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for name in ("host", "client"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(key, check=True, capture_output=True)
        (directory / "client.pub").chmod(0o644)
        pam = directory / "pam.d"
        pam.mkdir()
        (pam / "sshd").write_text(_rules(cluster, words, module=module))
        users = [pwd.getpwnam(name) for name in ("root", "sshd", *USERS)]
        lines = (f"{u.pw_name}:x:{u.pw_uid}:{u.pw_gid}::/:/bin/sh\n" for u in users)
        (directory / "passwd").write_text("".join(lines))
        conf = directory / "sshd_config"
        conf.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
            f"AuthorizedKeysFile {directory}/client.pub\nStrictModes no\nUsePAM yes\n"
            "PasswordAuthentication no\nPidFile none\n"
        )
        start = (
            f"mount --bind {pam} /etc/pam.d && mount --bind {directory}/passwd /etc/passwd && "
            f"mount -t tmpfs none /run && mkdir -p /run/sshd && exec {_SSHD} -D -e -f {conf}"
        )
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", start], stderr=log)
        cluster.wait_until("sshd", lambda: "listening on" in (directory / "log").read_text())

    def words(self, user: str, command: str) -> list[str]:
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=INFO")
        chosen = [word for option in options for word in ("-o", option)]
        key = ["-i", str(self.directory / "client"), "-p", str(self.port)]
        return ["ssh", "-n", *chosen, *key, f"{user}@127.0.0.1", command]

    def run(self, user: str, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(user, command), capture_output=True, text=True, check=False, timeout=60
        )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def _rules(cluster: LiveCluster, words: tuple[str, ...], *, module: bool) -> str:
    program = SBIN / "pam_pyslurm_adopt"
    more = " ".join((f"conf={cluster.environment['SLURM_CONF']}", "nodename=n1", *words))
    if module:
        how = f"{MODULE} program={program} {more}"
        return f"account required {how}\nsession required {how}\n"
    return (
        f"account required pam_exec.so stdout quiet {program} {more}\n"
        f"session required pam_exec.so quiet {program} {more}\n"
    )
