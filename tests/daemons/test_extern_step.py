"""PrologFlags=Contain with real daemons: JOB.extern from the job's start to its end."""

from __future__ import annotations

import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.d.mounts import can_mount
from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    kill,
    open_directory,
    start_daemon,
    submit_as,
    tracebacks,
)
from tests.daemons.live import SBIN, LiveCluster, start
from tests.world.processes import is_alive

pytestmark = AS_OTHERS
OWNER, OTHER = "games", "nobody"
DENIED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HAS_SSH = Path(SSHD).exists() and shutil.which("ssh") is not None and can_mount()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        extra = directory / "extra"
        extra.write_text("PrologFlags=Contain\nJobAcctGatherType=jobacct_gather/linux\n")
        made = start(directory / "c", "--nodes", "2", "--cpus", "4", "--conf", str(extra))
        try:
            yield made
            assert tracebacks(made) == []
        finally:
            made.down()


def test_it_lasts_as_long_as_its_job(cluster: LiveCluster) -> None:
    """Also over a restart of slurmd; a signal to the job or its own cancelling leaves it."""
    job_id = cluster.submit(
        "-N2", "-o", "/dev/null", "--wrap", "trap : USR1; while :; do sleep .1; done"
    )
    extern = f"{job_id}.extern"

    def steps() -> list[str]:
        return cluster.out("squeue", "-h", "-s", "-j", str(job_id), "-o", "%i %j %N").splitlines()

    cluster.wait_until("script", lambda: f"{job_id}.batch batch n1" in steps())
    assert f"{extern} extern n[1-2]" in steps()
    assert f"StepId={extern} " in cluster.out("scontrol", "show", "step", extern)
    kill(cluster, "slurmd-n2")
    start_daemon(cluster, "slurmd-n2")
    cluster.out("scancel", "--full", "-s", "USR1", str(job_id))
    cluster.out("scancel", extern)
    assert f"{extern} extern n[1-2]" in steps()
    cluster.out("scancel", str(job_id))
    cluster.accounted(job_id)
    rows = cluster.out("sacct", "-n", "-P", "-j", str(job_id), "-o", "JobID,State,ExitCode,NTasks")
    assert f"{extern}|COMPLETED|0:0|2" in rows.splitlines()
    cluster.wait_until(
        "end of its supervisors",
        lambda: f"[{extern}]" not in cluster.run("ps", "-eo", "args").stdout,
    )


# Logins ---------------------------------------------------------------------------------------


class Ssh:
    """An sshd of our own, in which two users without a shell have one, and PAM asks slurmd."""

    def __init__(self, cluster: LiveCluster, directory: Path, *words: str) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for name in ("host", "client"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(key, check=True, capture_output=True)
        (directory / "client.pub").chmod(0o644)
        program = f"{SBIN / 'pam_pyslurm_adopt'} conf={cluster.environment['SLURM_CONF']}"
        pam = directory / "pam.d"
        pam.mkdir()
        rules = f"{program} nodename=n1 {' '.join(words)}"
        (pam / "sshd").write_text(
            f"account required pam_exec.so stdout quiet {rules}\n"
            f"session required pam_exec.so quiet {rules}\n"
        )
        users = [pwd.getpwnam(name) for name in ("root", "sshd", OWNER, OTHER)]
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
            f"mount -t tmpfs none /run && mkdir -p /run/sshd && exec {SSHD} -D -e -f {conf}"
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


@pytest.fixture
def ssh(cluster: LiveCluster) -> Iterator[Ssh]:
    with open_directory() as directory:
        made = Ssh(cluster, directory)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.skipif(not HAS_SSH, reason="needs sshd, ssh and mount namespaces")
def test_logins_are_let_into_their_own_job(cluster: LiveCluster, ssh: Ssh) -> None:
    """Without a job nobody gets in; with one the login, and what it leaves, ends with the job."""
    refused = ssh.run(OWNER, "echo in")
    assert (refused.returncode, "in\n" in refused.stdout) == (255, False), refused
    assert DENIED in refused.stdout + refused.stderr, (ssh.directory / "log").read_text()
    job_id = submit_as(cluster, OWNER, "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 600")
    extern = f"{job_id}.extern"
    cluster.wait_until("step", lambda: extern in cluster.out("squeue", "-hs", "-o", "%i"))
    script = (
        "setsid nohup sleep 601 >/dev/null 2>&1 & "
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; "
        "id -un; cat /proc/self/cgroup"
    )
    let_in = ssh.run(OWNER, script)
    assert let_in.stdout.startswith(f"{OWNER}\n"), let_in
    if Path("/sys/fs/cgroup/freezer").exists():
        assert f"/job_{job_id}/step_extern" in let_in.stdout
    other = ssh.run(OTHER, "id")
    assert DENIED in other.stdout + other.stderr
    listed = cluster.out("scontrol", "listpids", extern, "n1").splitlines()[1:]
    remaining = {int(line.split()[0]) for line in listed}
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in remaining}
    assert names == {"sleep"}
    cluster.out("scancel", str(job_id))
    cluster.accounted(job_id)
    assert not any(is_alive(pid) for pid in remaining)
    fields = ("-o", "State,TotalCPU")
    state, used = cluster.out("sacct", "-nP", "-j", extern, *fields).strip().split("|")
    assert (state, used != "00:00:00") == ("COMPLETED", True)


def test_a_user_puts_nothing_into_jobs(cluster: LiveCluster) -> None:
    """The program asks as who runs it, and slurmd obeys root alone, over its Unix socket."""
    job_id = submit_as(cluster, OWNER, "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 600")
    extern = f"{job_id}.extern"
    cluster.wait_until("step", lambda: extern in cluster.out("squeue", "-hs", "-o", "%i"))
    words = [str(SBIN / "pam_pyslurm_adopt"), "action_generic_failure=deny"]
    conf = f"conf={cluster.environment['SLURM_CONF']}"
    asked = as_user(cluster, OTHER, *words, conf, PAM_USER=OWNER, PAM_TYPE="account")
    assert asked.returncode == 1
    listed = cluster.run("scontrol", "listpids", extern, "n1")
    assert "does not exist" in listed.stderr, listed
    cluster.out("scancel", str(job_id))
