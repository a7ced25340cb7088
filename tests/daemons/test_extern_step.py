"""PrologFlags=Contain with real daemons: JOB.extern from the job's start to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
from tests.daemons.ssh_server import DENIED, HAS_SSH, WHY_NOT, Ssh
from tests.world.processes import is_alive

pytestmark = AS_OTHERS
OWNER, OTHER = "games", "nobody"


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
    listed = cluster.out("scontrol", "listpids", extern, "n2").splitlines()[1:]
    assert [line.split() for line in listed] == [["-1", str(job_id), "extern", "0", "0"]]
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


@pytest.fixture
def ssh(cluster: LiveCluster) -> Iterator[Ssh]:
    with open_directory() as directory:
        made = Ssh(cluster, directory)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.skipif(not HAS_SSH, reason=WHY_NOT)
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
    _, _, *listed = cluster.out("scontrol", "listpids", extern, "n1").splitlines()
    remaining = {int(line.split()[0]) for line in listed}
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in remaining}
    assert names == {"sleep"}
    cluster.out("scancel", str(job_id))
    # Accounting knows the end while the node still ends what is left; squeue lists the job so long.
    cluster.wait_until(
        "the node's last word", lambda: str(job_id) not in cluster.out("squeue", "-h", "-o", "%A")
    )
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
    assert listed.stdout.split()[5:] == ["-1", str(job_id), "extern", "0", "0"], listed
    cluster.out("scancel", str(job_id))
