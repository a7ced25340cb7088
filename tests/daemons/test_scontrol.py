"""scontrol's commands that reach node daemons and supervisors, against real ones."""

from __future__ import annotations

import getpass
import json
import re
from pathlib import Path

import pytest

from tests.daemons.live import LiveCluster

pytestmark = pytest.mark.daemons


def test_processes_of_a_script(live_cluster: LiveCluster, tmp_path: Path) -> None:
    """listpids names them, pidinfo tells whose a process is, notify reaches the script's stderr."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\nsleep 300\n")
    job = live_cluster.submit("-w", "n1", "-t", "10", "-o", "out", str(script))
    try:

        def pids() -> list[list[str]]:
            done = live_cluster.run("scontrol", "listpids", str(job), "n1")
            return [line.split() for line in done.stdout.splitlines()[1:]]

        live_cluster.wait_until("the script runs", lambda: len(pids()) > 1)
        first = pids()[0]
        assert first[1:] == [str(job), "batch", "0", "0"]
        told = live_cluster.out("scontrol", "pidinfo", first[0])
        assert re.match(rf"Slurm JobId={job} ends at .*\nJob remaining time is 5\d\d\n$", told)
        shown = live_cluster.out("scontrol", "show", "slurmd", "n1")
        assert f"Active Steps             = {job}.batch" in shown
        live_cluster.out("scontrol", "notify", str(job), "look", "here")
        out = live_cluster.directory / "out"
        live_cluster.wait_until("the line", lambda: out.read_text() == "look here\n")
    finally:
        live_cluster.run("scancel", str(job))


RESIZE = """#!/bin/bash
srun -N2 -n2 sleep 600 &
until [ "$(squeue -h -s -j $SLURM_JOB_ID | grep -c sleep)" = 1 ]; do sleep 0.1; done
scontrol update job=$SLURM_JOB_ID numnodes=1 && . ./slurm_job_${SLURM_JOB_ID}_resize.sh
echo "left $SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_JOB_CPUS_PER_NODE ${SLURM_NTASKS-none}"
until [[ "$(sinfo -h -N -n n2 -o %t)" != *comp* ]]; do sleep 0.1; done
echo free
kill %1
"""


def test_a_job_gives_up_a_node(live_cluster: LiveCluster) -> None:
    """Its shell learns what is left, the node is free, and accounting has both of its sizes."""
    directory = live_cluster.directory / "resize"
    directory.mkdir(mode=0o777)
    (directory / "job.sh").write_text(RESIZE)
    job = live_cluster.submit(
        "-w", "n[1-2]", "-n2", "-t", "10", "-o", "out", "job.sh", cwd=directory
    )
    live_cluster.wait_for_jobs(job)
    lines = (directory / "out").read_text().splitlines()
    assert "left n1 1 1 none" in lines
    assert "free" in lines
    assert f"  For bash or sh shells:  . ./slurm_job_{job}_resize.sh" in lines
    assert (
        'setenv SLURM_JOB_NODELIST "n1"'
        in (directory / f"slurm_job_{job}_resize.csh").read_text().splitlines()
    )

    def sizes() -> list[str]:
        return live_cluster.out(
            "sacct", "-n", "-X", "-P", "-j", str(job), "-o", "State,NNodes,NodeList"
        ).split()

    live_cluster.wait_until(
        "accounting has it", lambda: sizes() == ["RESIZING|2|n[1-2]", "COMPLETED|1|n1"]
    )


def test_no_controller(live_cluster: LiveCluster) -> None:
    """One line each, exit 1."""
    for words, line in (
        (("listpids", "9999", "n1"), "JobId=9999 does not exist on node n1.\n"),
        (("listpids", "9999.3", "n1"), "StepId=9999.3 does not exist on node n1.\n"),
        (("pidinfo", "1"), "Failed to locate job for requested pid\n"),
        (("notify", "9999", "x"), "job notify failure: Invalid job id specified\n"),
        (
            ("token",),
            "scontrol: error: AuthAltTypes=auth/jwt is not configured\nError fetching token\n",
        ),
        (
            ("reboot", "n1"),
            "scontrol: error: RebootProgram isn't defined\n"
            "scontrol_reboot_nodes error: Unspecified error\n",
        ),
    ):
        done = live_cluster.run("scontrol", *words)
        heading = "PID      JOBID    STEPID   LOCALID GLOBALID\n" if words[0] == "listpids" else ""
        assert (done.stderr, done.stdout, done.returncode) == (line, heading, 1)


def test_debug_level(live_cluster: LiveCluster) -> None:
    """It holds until the files are read again."""

    def level() -> str:
        lines = live_cluster.out("scontrol", "show", "config").splitlines()
        return next(line for line in lines if line.startswith("SlurmctldDebug")).split()[-1]

    before = level()
    live_cluster.out("scontrol", "setdebug", "debug3")
    assert level() == "debug3"
    live_cluster.out("scontrol", "reconfigure")
    assert level() == before


def test_the_level_of_node_daemons(live_cluster: LiveCluster) -> None:
    """One node's; the others stay as they are."""

    def level(node: str) -> str:
        lines = live_cluster.out("scontrol", "show", "slurmd", node).splitlines()
        return next(line for line in lines if line.startswith("Slurmd Debug")).split()[-1]

    before = level("n2")
    live_cluster.out("scontrol", "setdebug", "debug3", "nodes=n1")
    assert (level("n1"), level("n2")) == ("7", before)
    live_cluster.out("scontrol", "setdebug", "info", "n1")
    assert level("n1") == "3"
    refused = live_cluster.run("scontrol", "setdebug", "info", "n9")
    assert (refused.returncode, refused.stdout) == (1, "")


def test_debug_flags(live_cluster: LiveCluster) -> None:
    """They are shown until the files are read again."""

    def flags() -> str:
        lines = live_cluster.out("scontrol", "show", "config").splitlines()
        return next(line for line in lines if line.startswith("DebugFlags")).split()[-1]

    before = flags()
    for word, flag_names in (
        ("+backfill,gres", "Backfill,Gres"),
        ("-Backfill", "Gres"),
        ("+", "Gres"),
    ):
        assert live_cluster.run("scontrol", "setdebugflags", word).returncode == 0
        assert flags() == flag_names
    live_cluster.out("scontrol", "reconfigure")
    assert flags() == before


def test_the_scheduling_log(live_cluster: LiveCluster) -> None:
    """It needs SlurmSchedLogFile, and has what the scheduler does as long as it is on."""
    done = live_cluster.run("scontrol", "schedloglevel", "1")
    text = "slurm_set_schedlog_level error: Requested operation is presently disabled\n"
    assert (done.stderr, done.returncode) == (text, 1)
    conf = live_cluster.directory / "etc" / "slurm.conf"
    log = live_cluster.directory / "log" / "sched.log"
    before = conf.read_text()
    conf.write_text(f"{before}SlurmSchedLogFile={log}\n")
    log.touch()
    log.chmod(0o666)  # slurmctld may run as SlurmUser
    try:
        live_cluster.out("scontrol", "reconfigure")
        live_cluster.out("scontrol", "schedloglevel", "enable")
        live_cluster.wait_for_jobs(live_cluster.submit("-o", "/dev/null", "--wrap", "true"))
        live_cluster.wait_until("a line", lambda: "sched: " in log.read_text())
        live_cluster.out("scontrol", "schedloglevel", "0")
        written = log.read_text()
        live_cluster.wait_for_jobs(live_cluster.submit("-o", "/dev/null", "--wrap", "true"))
        assert log.read_text() == written
    finally:
        conf.write_text(before)
        live_cluster.out("scontrol", "reconfigure")


def test_the_damping_of_fair_share(live_cluster: LiveCluster) -> None:
    """It holds until the files are read again."""

    def shown() -> str:
        lines = live_cluster.out("scontrol", "show", "config").splitlines()
        return next(line.split()[-1] for line in lines if line.startswith("FairShareDamp"))

    live_cluster.out("scontrol", "fsdampeningfactor", "7")
    assert shown() == "7"
    live_cluster.out("scontrol", "reconfigure")
    assert shown() == "1"


def test_a_reservation_ends_its_jobs(live_cluster: LiveCluster) -> None:
    """A job that it may outlive starts at once, and is ended with it; its record says so."""
    live_cluster.out(
        "scontrol", "create", "reservation", "reservationname=brief", "starttime=now",
        "duration=60", "nodes=n1", f"users={getpass.getuser()}",
    )  # fmt: skip
    script = ("-o", "brief.out", "--wrap", "sleep 600")
    job = live_cluster.submit("--reservation=brief", "-t", "120", "--mem-per-cpu=1", *script)
    running = ("squeue", "-h", "-t", "R", "-o", "%N", "-j", str(job))
    live_cluster.wait_until("it runs", lambda: live_cluster.run(*running).stdout == "n1\n")
    live_cluster.out("scontrol", "update", "reservationname=brief", "endtime=now+1")
    live_cluster.wait_for_jobs(job)
    assert live_cluster.accounted(job) == "TIMEOUT|0:0"
    shown = (live_cluster.directory / "brief.out").read_text()
    assert "DUE TO TIME LIMIT ***\n" in shown
    assert "*** REASON: Reservation brief, which this job was running under, has ended" in shown
    gone = live_cluster.run("scontrol", "show", "reservation", "brief").stdout
    assert gone == "Reservation brief not found\n"


def test_explanations(live_cluster: LiveCluster) -> None:
    """They name the jobs on the nodes and what would start sooner. A running job has its nodes."""
    sleep = ("-o", "/dev/null", "--wrap", "sleep 600")
    first = live_cluster.submit("-w", "n1", "--exclusive", "-t", "60", *sleep)
    running = ("squeue", "-h", "-t", "R", "-j", str(first))
    live_cluster.wait_until("it runs", lambda: bool(live_cluster.run(*running).stdout))
    waiting = live_cluster.submit("-w", "n1", "--exclusive", "-t", "30", *sleep)
    try:
        told = live_cluster.out("scontrol", "explain", "job", str(waiting))
        lines = told.splitlines()
        assert lines[0].startswith(f"JobId={waiting} (wrap, user ")
        assert any(line.startswith(f"    job {first} of ") and " on n1, " in line for line in lines)
        assert any(line.startswith("    without --nodelist=n1 ") for line in lines)
        assert lines[-1].endswith("  submitted")
        told = live_cluster.out("scontrol", "explain", "job", str(first))
        assert re.search(r"  started on n1 of \w+, next in the order of priority", told)
        answer = json.loads(live_cluster.out("scontrol", "--json", "explain", "job", str(waiting)))
        (explained,) = answer["explanations"]
        assert explained["start_time"] >= explained["submit_time"] + 55 * 60
        assert {holder["name"] for holder in explained["holders"]} == {str(first)}
    finally:
        live_cluster.run("scancel", str(first), str(waiting))
    done = live_cluster.run("scontrol", "explain", "job", "99999")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "slurm_explain_job error: Invalid job id specified: 99999\n"


def test_ping_as_json(live_cluster: LiveCluster) -> None:
    """The controller answers, and how long that took is in microseconds."""
    (ping,) = json.loads(live_cluster.out("scontrol", "--json", "ping"))["pings"]
    assert ping["responding"] and ping["primary"] and ping["status"] == "No error"
    assert ping["latency"] > 0
