"""slurmctld and slurmdbd without root's rights, and what slurmd tells of others' jobs."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import (
    AS_OTHERS,
    as_user,
    open_directory,
    pid_of,
    submit_as,
    without_faults,
)
from tests.daemons.live import LiveCluster, start

pytestmark = AS_OTHERS
SERVICE_USER = "daemon"
OWNER, OTHER = "games", "nobody"


def uids_of(pid: int) -> set[int]:
    """Return the real, effective, saved and file system uids of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Uid:"):
            return {int(word) for word in line.split()[1:]}
    raise AssertionError(f"no uids of {pid}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with open_directory() as directory:
        lines = directory / "extra.conf"
        lines.write_text("PrivateData=jobs\nAccountingStorageEnforce=associations\n")
        made = start(
            directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(lines),
            "--slurm-user", SERVICE_USER, "--users", f"{OWNER},{OTHER}",
        )  # fmt: skip
        with without_faults(made):
            yield made


def test_services_hold_no_rights_of_root(cluster: LiveCluster) -> None:
    """An attacker inside slurmctld or slurmdbd is not root; slurmd has to be."""
    service = pwd.getpwnam(SERVICE_USER).pw_uid
    for daemon in ("slurmctld", "slurmdbd"):
        pid = pid_of(cluster, daemon)
        assert uids_of(pid) == {service}
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        capabilities = [line.split()[1] for line in status if line.startswith(("CapEff", "CapPrm"))]
        assert {int(word, 16) for word in capabilities} == {0}
    assert uids_of(pid_of(cluster, "slurmd-n1")) == {0}
    shown = cluster.out("scontrol", "show", "config")
    assert f"SlurmUser               = {SERVICE_USER}({service})" in shown


def test_jobs_of_others_run_and_are_accounted(cluster: LiveCluster) -> None:
    """slurmd starts jobs as their users although the controller could not; `up` gave an account."""
    job = submit_as(cluster, OWNER, "-D", "/tmp", "-o", "/dev/null", "--wrap", "id -u; exit 3")
    assert cluster.accounted(job, "User,Account,State,ExitCode") == f"{OWNER}|users|FAILED|3:0"


def test_root_keeps_the_files_slurmd_works_with(cluster: LiveCluster) -> None:
    """slurmd is root, so no other user may write where its files are."""
    service = pwd.getpwnam(SERVICE_USER).pw_uid
    for name in ("", "etc", "log", "run", "spool"):
        path = cluster.directory / name
        assert path.stat().st_uid == 0, path
        assert path.stat().st_mode & 0o022 == 0, path
    for name in ("state", "run/service", "etc/slurm.key", "etc/slurmdbd.conf"):
        assert (cluster.directory / name).stat().st_uid == service, name


def test_slurmd_keeps_private_jobs_private(cluster: LiveCluster) -> None:
    """With PrivateData=jobs a node tells only owners and root of a job's processes.

    RELIABILITY 58.
    """
    job = submit_as(cluster, OWNER, "-D", "/tmp", "-o", "/dev/null", "--wrap", "sleep 600")
    node = ("listpids", str(job), "n1")
    cluster.wait_until("pids", lambda: cluster.run("scontrol", *node).returncode == 0)
    seen = as_user(cluster, OWNER, "scontrol", *node)
    assert str(job) in seen.stdout
    hidden = as_user(cluster, OTHER, "scontrol", *node)
    assert (hidden.returncode, hidden.stdout) != (0, seen.stdout)
    assert f"JobId={job} does not exist on node n1" in hidden.stderr
    steps = {
        user: [line for line in as_user(
            cluster, user, "scontrol", "show", "slurmd", "n1"
        ).stdout.splitlines() if line.startswith("Active Steps")]
        for user in (OWNER, OTHER)
    }  # fmt: skip
    assert f"{job}.batch" in steps[OWNER][0]
    assert str(job) not in steps[OTHER][0]
    cluster.out("scancel", str(job))
