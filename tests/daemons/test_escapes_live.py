"""Twelve ways out of a job and three ends of it: nothing is left, with control groups and without.

`at` is not among them: what it starts is a child of atd, no process of the job. A site puts it into
the job by PAM, as docs/how-to/let-users-log-in-to-their-jobs.md says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pyslurm_ng.d.host import cgroup
from tests.daemons.faults import (
    AS_OTHERS,
    directory_for,
    open_directory,
    submit_as,
    wait_for_text,
    without_faults,
)
from tests.daemons.live import LiveCluster, start
from tests.world.processes import is_running, running_in

pytestmark = AS_OTHERS


@pytest.fixture(scope="module", params=["cgroup", "linuxproc"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """One node whose processes are tracked in one of the two ways."""
    if request.param == "cgroup" and cgroup.detect("/sys/fs/cgroup", "autodetect", "p") is None:
        pytest.skip("control groups cannot be made here")
    with open_directory() as directory:
        extra = directory / "extra.conf"
        extra.write_text(f"ProctrackType=proctrack/{request.param}\nKillWait=1\nJobRequeue=0\n")
        made = start(directory / "c", "--nodes", "1", "--cpus", "16", "--conf", str(extra))
        with without_faults(made):
            yield made


SCRIPT = """#!/usr/bin/python3
import ctypes, glob, os, signal, subprocess, sys, time
mark, work, end = sys.argv[1:]
libc = ctypes.CDLL(None)

def sleep(number):
    os.closerange(3, 64)
    os.execvp("sleep", ["sleep", mark + str(number)])

def forked(what, number):
    if os.fork() == 0:
        try: what()
        finally: sleep(number)

def twice():
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)

def moved():
    for name in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True):
        try: open(name, "w").write(str(os.getpid()))
        except OSError: continue
        open(work + "/moved", "a").write(name + "\\n")

def traced():
    child = os.fork()
    if child == 0:
        libc.prctl(1, 0)
        libc.ptrace(0, 0, 0, 0)
        sleep(60)
    os.waitpid(child, 0)
    libc.ptrace(0x4200, child, 0, 0)
    libc.ptrace(7, child, 0, 0)
    os.kill(child, signal.SIGSTOP)  # stopped by its tracer from now on
    os.waitpid(child, 0)

def deaf():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass

def stopped():
    me = os.getpid()
    if os.fork() == 0:
        while open(f"/proc/{me}/stat").read().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.05)
        sleep(80)
    os.kill(me, signal.SIGSTOP)

def crowd():
    for number in range(int(os.environ["CROWD"])):
        if os.fork() == 0:
            if number % 2: os.setsid()
            sleep(70)

forked(os.setsid, 10)
forked(twice, 20)
subprocess.Popen(["nohup", "sleep", mark + "30"], stdout=subprocess.DEVNULL, stderr=-3)
forked(lambda: libc.daemon(0, 0), 40)
forked(moved, 50)
forked(traced, 61)
forked(crowd, 71)
forked(stopped, 81)
forked(deaf, 90)
subprocess.Popen(["unshare", "-rpf", "sh", "-c", f"trap '' TERM; sleep {mark}100; :"])
bomb = "b() { b 2>/dev/null & b 2>/dev/null & wait; sleep 0.1; }; while :; do b; done 2>/dev/null"
forked(lambda: os.execvp("bash", ["bash", "-c", f"ulimit -u {os.environ['MOST']}; {bomb}"]), 110)

def words():
    found = set()
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        try: found.update(open(name).read().split("\\0"))
        except OSError: pass
    return found

wanted = {mark + str(number) for number in (10, 20, 30, 40, 50, 60, 61, 70, 71, 80, 90, 100)}
while not wanted <= words(): time.sleep(0.2)
open(work + "/begun", "w").write("all")
if end != "normal": time.sleep(3600)
"""
CROWD = 2000
MARKS = (10, 20, 30, 40, 50, 60, 61, 70, 71, 80, 90, 100)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("normal", "COMPLETED"),
        ("scancel", "CANCELLED by 0"),
        # The shortest time limit is a minute.
        pytest.param("limit", "TIMEOUT", marks=pytest.mark.soak),
    ],
)
def test_nothing_is_left_of_a_job(
    cluster: LiveCluster, request: pytest.FixtureRequest, end: str, state: str
) -> None:
    """RELIABILITY 29: sessions, daemon(), other groups, a tracer, crowds, a bomb, namespaces."""
    work = directory_for(cluster, request.node.name)
    script = work / "out_of_here.py"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    marker = f"83{os.getpid()}{len(end)}"
    words = ("-t", "1" if end == "limit" else "30", "-o", "out")
    export = f"--export=ALL,CROWD={CROWD},MOST={CROWD + 300}"
    job_id = submit_as(
        cluster, "games", *words, export, str(script), marker, str(work), end, cwd=work
    )
    wait_for_text(cluster, work / "begun", limit_s=120.0)
    if end == "scancel":
        cluster.out("scancel", str(job_id))

    def left() -> list[str]:
        running = [str(mark) for mark in MARKS if is_running(f"{marker}{mark}")]
        return running + running_in(work)

    cluster.wait_for_jobs(job_id, limit_s=180.0)
    assert left() == []
    assert cluster.accounted(job_id, "State") == state
    assert not (work / "moved").exists()
