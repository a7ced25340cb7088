"""Ends that nobody can refuse, on a whole cluster: with control groups and without."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.host import cgroup
from pyslurm_ng.d.spool import step_record
from tests.d.stepd.hung_files import hung_files
from tests.daemons.faults import (
    AS_OTHERS,
    accounted,
    directory_for,
    open_directory,
    submit_as,
    wait_for_text,
    without_faults,
)
from tests.daemons.live import LiveCluster, start
from tests.world.processes import is_running, running_in

pytestmark = AS_OTHERS
UNKILLABLE_S = 3


@pytest.fixture(scope="module", params=["cgroup", "linuxproc"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """One node whose processes are tracked in one of the two ways."""
    if request.param == "cgroup" and cgroup.detect("/sys/fs/cgroup", "autodetect", "p") is None:
        pytest.skip("control groups cannot be made here")
    with open_directory() as directory:
        extra = directory / "extra.conf"
        extra.write_text(
            f"ProctrackType=proctrack/{request.param}\nKillWait=1\n"
            f"UnkillableStepTimeout={UNKILLABLE_S}\nJobRequeue=0\n"
        )
        # A test mounts a file system later: a namespace would hide it where the root is not shared.
        made = start(
            directory / "c", "--nodes", "1", "--cpus", "16", "--no-namespaces", "--conf", str(extra)
        )
        with without_faults(made):
            yield made


@pytest.fixture
def work(cluster: LiveCluster, request: pytest.FixtureRequest) -> Path:
    """Return a directory for one test that every user may write to."""
    return directory_for(cluster, request.node.name)


def supervisor_of(cluster: LiveCluster, job_id: int) -> int:
    """Return the process id of a script's supervisor."""
    (path,) = (cluster.directory / "spool").glob(f"*/steps/{job_id}.*.0")
    return int(step_record.read(str(path))["pid"]["pid"])


DEAF = """#!/usr/bin/python3
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
def away(how, mark):
    if os.fork(): return
    libc.prctl(1, 0)  # its parent's death is nothing to it
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    if how & 1: os.setsid()
    if how & 2 and os.fork(): os._exit(0)
    if how & 2: libc.prctl(1, 0)
    os.closerange(0, 64)
    os.execve("/bin/sleep", ["sleep", mark], {} if how & 4 else os.environ)
for how in range(12):
    away(how, sys.argv[1] + str(how))
open(sys.argv[2], "w").write("begun")
time.sleep(3600)
"""


def submit_escapes(cluster: LiveCluster, work: Path, marker: str) -> int:
    """Submit a job of twelve processes that mean to stay, and wait until they are there."""
    script = work / "deaf.py"
    script.write_text(DEAF)
    job_id = submit_as(
        cluster, "nobody", "-o", "out", str(script), marker, str(work / "begun"), cwd=work
    )
    wait_for_text(cluster, work / "begun")
    cluster.wait_until("escapes", lambda: all(is_running(f"{marker}{n}") for n in range(12)))
    return job_id


def test_nothing_outlives_a_cancelled_job(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 29: twelve ways to escape, and none works."""
    marker = f"81{os.getpid()}"
    job_id = submit_escapes(cluster, work, marker)
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert not any(is_running(f"{marker}{n}") for n in range(12))


CROWD = """#!/bin/bash
for group in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do
    echo $$ >$group && echo moved to $group
done 2>/dev/null
for number in $(seq 1000); do setsid sleep $1 & done
disown -a
touch $2
sleep 3600
"""


def test_neither_a_crowd_nor_another_group_helps(cluster: LiveCluster, work: Path) -> None:
    """A thousand sessions of their own, of a script that tried to join other control groups."""
    marker, begun = f"82{os.getpid()}", work / "begun"
    script = work / "crowd.sh"
    script.write_text(CROWD)
    words = ("-o", "out", str(script), marker, str(begun))
    job_id = submit_as(cluster, "nobody", *words, cwd=work)
    cluster.wait_until("the crowd", begun.exists)
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert "moved" not in (work / "out").read_text()
    assert not is_running(marker)


def test_nothing_outlives_a_killed_supervisor(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 22, 29: the job ends with a reason when none of its processes is left."""
    marker = f"82{os.getpid()}"
    job_id = submit_escapes(cluster, work, marker)
    os.kill(supervisor_of(cluster, job_id), signal.SIGKILL)
    cluster.wait_for_jobs(job_id)
    assert not any(is_running(f"{marker}{n}") for n in range(12))
    assert cluster.accounted(job_id, "State") in ("FAILED", "NODE_FAIL")
    assert "CPUAlloc=0" in cluster.out("scontrol", "show", "node", "n1")


BURN = """#!/usr/bin/python3
import time
held = bytearray(b"x" * (64 << 20))
while time.process_time() < 1.5: pass
open("begun", "w").write("burnt")
time.sleep(3600)
"""


def test_what_a_step_had_used_outlives_its_supervisor(cluster: LiveCluster, work: Path) -> None:
    """Its samples die with the supervisor; what the kernel has counted does not."""
    script = work / "burn.py"
    script.write_text(BURN)
    job_id = submit_as(cluster, "nobody", "-o", "out", str(script), cwd=work)
    wait_for_text(cluster, work / "begun")
    os.kill(supervisor_of(cluster, job_id), signal.SIGKILL)
    cluster.wait_for_jobs(job_id)
    cluster.accounted(job_id)
    words = ("sacct", "-n", "-P", "-j", f"{job_id}.batch", "-o", "TotalCPU,MaxRSS", "--noconvert")
    cpu, peak = cluster.out(*words).strip().split("|")
    assert cpu >= "00:01.400"
    assert int(peak) >= 64 << 20


def test_a_supervisor_that_hangs_holds_up_no_end(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 22, 38: slurmd kills one that does not answer, and ends what it leaves."""
    marker = f"83{os.getpid()}"
    job_id = submit_escapes(cluster, work, marker)
    os.kill(supervisor_of(cluster, job_id), signal.SIGSTOP)
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert not any(is_running(f"{marker}{n}") for n in range(12))
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")


def test_a_full_fifo_keeps_no_node(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 30, 38: the end waits for no notice, and for no reader."""
    os.mkfifo(work / "ff", 0o666)
    (work / "ff").chmod(0o666)
    script = work / "fill.py"
    script.write_text(
        "#!/usr/bin/python3\nimport os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
        "own = os.open('ff', os.O_RDWR | os.O_NONBLOCK)\n"
        "try:\n    while True: os.write(own, b'x' * 4096)\nexcept BlockingIOError: pass\n"
        "open('begun', 'w').write('x')\ntime.sleep(3600)\n"
    )
    holder = os.open(work / "ff", os.O_RDWR | os.O_NONBLOCK)
    job_id = submit_as(cluster, "nobody", "-o", "out", "-e", "ff", str(script), cwd=work)
    wait_for_text(cluster, work / "begun")
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    os.close(holder)
    assert cluster.accounted(job_id, "State") == "CANCELLED by 0"
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() == "idle"


def test_what_cannot_be_killed_keeps_what_it_holds(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 31: CG until it dies, the node drained, nothing given out twice."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no FUSE here")
    with hung_files(work / "hung") as hung:
        job_id = cluster.submit("--exclusive", "-o", "out", "--wrap", "cat hung/x", cwd=work)
        assert hung.heard.wait(60)
        cluster.out("scancel", str(job_id))
        cluster.wait_until("drain", lambda: "Kill task failed" in cluster.out("sinfo", "-h", "-R"))
        cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
        other = cluster.submit("--exclusive", "-o", "other", "--wrap", "echo ran", cwd=work)
        assert cluster.out("squeue", "-h", "-j", str(job_id), "-o", "%t").strip() == "CG"
        assert cluster.out("squeue", "-h", "-j", str(other), "-o", "%t").strip() == "PD"
        hung.release()
        cluster.wait_for_jobs(job_id, other)
    assert (work / "other").read_text() == "ran\n"
    assert accounted(cluster, [other], "State") == {other: "COMPLETED"}


def test_steps_connect_to_where_their_srun_is(cluster: LiveCluster) -> None:
    """RELIABILITY 56: root connects to the host from which the launch came.

    The address in the launch does not matter.
    """
    program = (
        "import sys\nfrom pyslurm_ng.wire.client import Client\n"
        "Client.local_host = lambda self: '192.0.2.1'\n"  # nobody's: RFC 5737
        "from pyslurm_ng.cli.srun import main\nsys.exit(main(['-n1', 'echo', 'here']))\n"
    )
    done = cluster.run(sys.executable, "-c", program)
    assert (done.stdout, done.returncode) == ("here\n", 0), done.stderr


def test_fork_bombs_are_cancelled(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 28: without any limit but the user's own, slurmd answers and scancel works."""
    bomb = work / "bomb.sh"
    bomb.write_text(
        "#!/bin/bash\nulimit -u 400\necho b > begun\n"
        "bomb() { bomb 2>/dev/null & bomb 2>/dev/null & wait; sleep 0.1; }\n"
        "while :; do bomb; done 2>/dev/null\n"
    )
    job_id = submit_as(cluster, "games", "-o", "/dev/null", str(bomb), cwd=work)
    wait_for_text(cluster, work / "begun")
    assert "n1" in cluster.out("scontrol", "show", "node", "n1")
    assert cluster.run("srun", "-n1", "true").returncode == 0
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert running_in(work) == []
