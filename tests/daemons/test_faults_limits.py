"""Memory, processes, prolog and epilog, arrays, chains: RELIABILITY 27, 28, 34, 35, 53, 54, 54b."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.d.host import cgroup
from tests.daemons.faults import (
    AS_OTHERS,
    accounted,
    as_user,
    directory_for,
    open_directory,
    submit_as,
    wait_for_text,
    without_faults,
)
from tests.daemons.live import LiveCluster, start
from tests.world.processes import is_running, running_in

pytestmark = AS_OTHERS
HOOK = """#!/bin/bash
read what size < {directory}/{name}.do 2>/dev/null
echo {name} $SLURM_JOB_ID >> {directory}/hooks
case "$what" in
    fail) exit 1 ;;
    hang) setsid sleep {marker} ;;
    flood) head -c $size /dev/zero ;;
    slow) sleep 1 ;;
esac
exit 0
"""


@pytest.fixture(scope="module")
def marker() -> str:
    return f"99{os.getpid()}"


@pytest.fixture(scope="module")
def cluster(marker: str) -> Iterator[LiveCluster]:
    """One node that confines memory, with hooks that do what a file says."""
    if cgroup.detect("/sys/fs/cgroup", "autodetect", "probe") is None:
        pytest.skip("control groups cannot be made here")
    with open_directory() as directory:
        (directory / "c" / "etc").mkdir(parents=True)
        (directory / "c" / "etc" / "cgroup.conf").write_text(
            "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n"
        )
        for name in ("prolog", "epilog"):
            hook = directory / name
            hook.write_text(HOOK.format(directory=directory, name=name, marker=marker))
            hook.chmod(0o755)
        extra = directory / "extra.conf"
        extra.write_text(
            "KillWait=1\nDefMemPerCPU=20\nTaskPlugin=task/cgroup\nMaxArraySize=100001\n"
            f"MaxJobCount=300000\nPrologEpilogTimeout=3\nProlog={directory}/prolog\n"
            f"Epilog={directory}/epilog\n"
        )
        made = start(
            directory / "c",
            "--nodes",
            "1",
            "--cpus",
            "32",
            "--memory",
            "2000",
            "--conf",
            str(extra),
        )
        with without_faults(made):
            yield made


@pytest.fixture
def work(cluster: LiveCluster, request: pytest.FixtureRequest) -> Path:
    """Return a directory for one test that every user may write to."""
    return directory_for(cluster, request.node.name)


@pytest.fixture
def hooks(cluster: LiveCluster) -> Iterator[Path]:
    """Return where hooks look for orders; the node is in service again afterwards."""
    directory = cluster.directory.parent
    yield directory
    for name in ("prolog", "epilog"):
        (directory / f"{name}.do").unlink(missing_ok=True)
    cluster.run("scancel", "-u", "root")
    cluster.wait_for_jobs()
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")


EAT = "exec python3 -c 'x = bytearray({mib} << 20); print(len(x))'"


def test_files_in_memory_stay_charged_to_their_job(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 27: an allocation without a script fills /dev/shm neither by sbcast nor by steps.

    Each file, or each step, once began with nothing charged.
    """
    name = f"/dev/shm/{work.parent.name}"
    (work / "file").write_bytes(bytes(40 << 20))
    (work / "file").chmod(0o644)
    ways = {
        "files": f"for n in 1 2 3; do sbcast {work}/file {name}.$n && echo $n; done",
        "steps": f"for n in 1 2 3; do srun cp {work}/file {name}.$n && echo $n; done",
    }
    before = _groups()
    try:
        for way in ways.values():
            script = f"{way}; rm -f {name}.*; srun cp {work}/file {name}.4 && echo 4"
            words = ("salloc", "-Q", "-n1", "--mem=60", "bash", "-c", script)
            done = as_user(cluster, "games", *words, cwd=work)
            assert done.stdout.split() == ["1", "4"], done
            as_user(cluster, "games", "rm", "-f", f"{name}.4")
            cluster.wait_for_jobs()
        new_groups = _groups() - before
        cluster.wait_until("no group is left", lambda: not any(map(Path.exists, new_groups)))
    finally:
        for path in Path("/dev/shm").glob(f"{Path(name).name}.*"):
            path.unlink()


def _groups() -> set[Path]:
    """Return the control groups of jobs on a node of this name, of whichever cluster."""
    return {path for path in Path("/sys/fs/cgroup").rglob("job_*") if "n1" in str(path)}


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_out_of_memory(cluster: LiveCluster, work: Path, rounds: int) -> None:
    """RELIABILITY 27: only the job that uses too much memory ends, as OUT_OF_MEMORY 0:125.

    File cache does not count.
    """
    scripts = {
        "script": EAT.format(mib=200),
        "child": "python3 -c 'x = bytearray(200 << 20)'; echo code $?; exit 3",
        "many": "for i in 1 2 3 4 5 6; do python3 -c 'import time\nx = bytearray(30 << 20)\n"
        "time.sleep(2)' & done; wait; exit 4",
        "cache": "dd if=/dev/zero of=big bs=1M count=150 2>/dev/null; "
        "cat big > /dev/null; rm big; echo fine",
        "neighbour": "until [ -e go ]; do sleep 0.1; done; echo fine",
    }
    for number in range(rounds):
        own_work = work / str(number)
        own_work.mkdir()
        own_work.chmod(0o777)
        _one_that_uses_too_much(cluster, own_work, scripts)


def _one_that_uses_too_much(cluster: LiveCluster, work: Path, scripts: dict[str, str]) -> None:
    jobs = {
        name: submit_as(
            cluster, "nobody", "--mem=60", "-J", name, "-o", name, "--wrap", script, cwd=work
        )
        for name, script in scripts.items()
    }
    cluster.wait_for_jobs(*(job_id for name, job_id in jobs.items() if name != "neighbour"))
    (work / "go").touch()
    cluster.wait_for_jobs(jobs["neighbour"])
    ends = accounted(cluster, list(jobs.values()), "State,ExitCode")
    end_by_name = {name: ends[job_id] for name, job_id in jobs.items()}
    assert end_by_name == {
        "script": "OUT_OF_MEMORY|0:125",
        "child": "OUT_OF_MEMORY|0:125",
        "many": "OUT_OF_MEMORY|0:125",
        "cache": "COMPLETED|0:0",
        "neighbour": "COMPLETED|0:0",
    }
    assert "oom" in (work / "script").read_text().lower()


def test_a_task_out_of_memory_takes_its_step_along(cluster: LiveCluster, work: Path) -> None:
    """--oom-kill-step; without it the others go on."""
    eats = "python3 -c 'x = b\"x\" * (300 << 20)'"
    task = f"[ $SLURM_PROCID = 0 ] && exec {eats}; until [ -e go ]; do sleep 0.1; done; "
    task += "echo $SLURM_OOM_KILL_STEP > went-on"
    words = ("srun", "-N1", "-n2", "--mem=60", "sh", "-c", task)
    ran = cluster.run(words[0], "--oom-kill-step", *words[1:], cwd=work)
    assert "tasks 0-1: Out Of Memory" in ran.stderr
    assert not (work / "went-on").exists()
    goes_on = (
        '"$@" 2> said & until grep -qs "Out Of Memory" said; do sleep 0.1; done; touch go; wait'
    )
    ran = cluster.run("bash", "-c", f"{goes_on}; cat said >&2", "bash", *words, cwd=work)
    assert "task 0: Out Of Memory" in ran.stderr
    assert (work / "went-on").read_text() == "0\n"


def test_fork_bomb(cluster: LiveCluster, work: Path, marker: str) -> None:
    """RELIABILITY 28: bounded by the user's own limit; the node goes on, scancel works.

    No ping of slurmctld is lost.
    """
    bomb = work / "bomb.sh"
    bomb.write_text(
        f"#!/bin/bash\n# {marker}bomb\nulimit -u 300\necho b\n"
        "bomb() { bomb 2>/dev/null & bomb 2>/dev/null & wait; sleep 0.1; }\n"
        "while :; do bomb; done 2>/dev/null\n"
    )
    job_id = submit_as(cluster, "games", "-o", "out", str(bomb), cwd=work)
    wait_for_text(cluster, work / "out")
    other = submit_as(cluster, "nobody", "-o", "other", "--wrap", "echo fine", cwd=work)
    pings = [cluster.run("scontrol", "ping") for _ in range(10)]
    assert [(ping.returncode, " is UP" in ping.stdout) for ping in pings] == [(0, True)] * 10
    cluster.wait_for_jobs(other)
    assert (work / "other").read_text() == "fine\n"
    assert as_user(cluster, "games", "scancel", str(job_id)).returncode == 0
    cluster.wait_for_jobs(job_id)
    assert running_in(work) == []
    # So many processes may meet the job's memory limit before they are cancelled.
    assert cluster.accounted(job_id, "State").startswith(("CANCELLED", "OUT_OF_MEMORY"))
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() == "idle"


@pytest.mark.parametrize("way", ["fail", "hang", "missing"])
def test_prolog_that_does_not_pass(
    cluster: LiveCluster, work: Path, hooks: Path, marker: str, way: str
) -> None:
    """RELIABILITY 34: no job runs without its prolog; the node is drained and says why."""
    (hooks / "prolog.do").write_text(way)
    if way == "missing":
        (hooks / "prolog").rename(hooks / "prolog.away")
    try:
        job_id = cluster.submit("-o", str(work / "out"), "--wrap", "echo ran")
        cluster.wait_until(
            "requeue in hold",
            lambda: (
                "launch failed requeued held"
                in cluster.out("squeue", "-h", "-j", str(job_id), "-o", "%r|%R")
            ),
        )
    finally:
        if way == "missing":
            (hooks / "prolog.away").rename(hooks / "prolog")
    assert not (work / "out").exists()
    assert "Prolog error" in cluster.out("sinfo", "-h", "-R")
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() in ("drain", "drng")
    cluster.wait_until("end of the hanging prolog", lambda: not is_running(marker))


@pytest.mark.parametrize("way", ["fail", "hang", "missing"])
def test_epilog_that_does_not_pass(
    cluster: LiveCluster, work: Path, hooks: Path, marker: str, way: str
) -> None:
    """RELIABILITY 35: the job is done as it was, the node is drained."""
    (hooks / "epilog.do").write_text(way)
    if way == "missing":
        (hooks / "epilog").rename(hooks / "epilog.away")
    try:
        job_id = cluster.submit("-o", str(work / "out"), "--wrap", "echo ran")
        cluster.wait_for_jobs(job_id)
        assert (work / "out").read_text() == "ran\n"
        assert cluster.accounted(job_id) == "COMPLETED|0:0"
        cluster.wait_until("drain", lambda: "Epilog error" in cluster.out("sinfo", "-h", "-R"))
    finally:
        if way == "missing":
            (hooks / "epilog.away").rename(hooks / "epilog")
    assert not is_running(marker)


@pytest.mark.parametrize("size", [50_000_000, pytest.param(10**9, marks=pytest.mark.soak)])
def test_hooks_with_much_output_or_that_take_long(
    cluster: LiveCluster, work: Path, hooks: Path, size: int
) -> None:
    """RELIABILITY 34, 35: a flood of output does no harm; no job starts where an epilog runs."""
    (hooks / "prolog.do").write_text(f"flood {size}")
    (hooks / "epilog.do").write_text("slow")
    (hooks / "hooks").write_text("")
    jobs = [
        cluster.submit("--exclusive", "-o", str(work / f"o{n}"), "--wrap", "date +%s.%N")
        for n in range(2)
    ]
    cluster.wait_for_jobs(*jobs)
    said = (hooks / "hooks").read_text().split()
    assert said == [
        word for job_id in jobs for hook in ("prolog", "epilog") for word in (hook, str(job_id))
    ]
    begun = [float((work / f"o{n}").read_text()) for n in range(2)]
    assert begun[1] - begun[0] >= 1
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() == "idle"


@pytest.mark.soak
def test_a_slow_prolog_of_a_hundred_jobs(cluster: LiveCluster, work: Path, hooks: Path) -> None:
    """RELIABILITY 34: a hundred jobs at once; none begins before its prolog has begun and ended."""
    (hooks / "prolog.do").write_text("slow")
    (hooks / "hooks").write_text("")
    script = f'grep -c "^prolog $SLURM_JOB_ID$" {hooks}/hooks; date +%s.%N'
    jobs = [
        cluster.submit("--mem=1", "-o", str(work / f"o{n}"), "--wrap", script) for n in range(100)
    ]
    cluster.wait_for_jobs(*jobs, limit_s=600)
    assert [(work / f"o{n}").read_text().split()[0] for n in range(100)] == ["1"] * 100
    assert set(accounted(cluster, jobs, "State,Restarts").values()) == {"COMPLETED|0"}
    said = (hooks / "hooks").read_text().splitlines()
    assert sorted(said) == sorted(f"{name} {job}" for job in jobs for name in ("prolog", "epilog"))
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() == "idle"


def test_array_cancelled_by_ranges(cluster: LiveCluster) -> None:
    """RELIABILITY 53: an array of 100,000 is one record, and ranges are taken out of it."""
    job_id = cluster.submit("-H", "-o", "/dev/null", "--array=0-99999", "--wrap", "true")
    cluster.out("scancel", f"{job_id}_[10-99989:1]")
    cluster.out("scancel", f"{job_id}_5", f"{job_id}_[7,8]")
    rows = cluster.out("squeue", "-h", "-r", "-j", str(job_id), "-o", "%K").split()
    assert sorted(map(int, rows)) == [
        *(n for n in range(10) if n not in (5, 7, 8)), *range(99990, 100000)
    ]  # fmt: skip
    for text in ("0-9999999999", "5-1", "1-5:0", "x", "0-100001", "1-5%x", "-3", "1,,2-"):
        done = cluster.run("sbatch", "-H", f"--array={text}", "--wrap", "true")
        assert done.returncode == 1, text
        assert "Invalid job array specification" in done.stderr
    for text in (f"{job_id}_[0-99999999999]", f"{job_id}_[9-1]", f"{job_id}_[x]", f"{job_id}_["):
        done = cluster.run("scancel", text)
        assert done.returncode != 0, text
        assert len(done.stderr.splitlines()) <= 2
        assert "Traceback" not in done.stderr
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)


NAMES = ("a\nb", "\x1b[31mred", "\U0001f600", "%j %A", "‮right", "a'b\"c\\", "  ", "|,;", "\x9b2Jx")


def test_names_do_not_break_tables(cluster: LiveCluster) -> None:
    """RELIABILITY 54, 68: one line for each job, nothing that commands a terminal."""
    jobs = [
        cluster.submit("-H", "-J", name, "--comment", name, "-o", "/dev/null", "--wrap", "true")
        for name in NAMES
    ]
    chosen = ",".join(map(str, jobs))
    books = ("sacct", "-X", "-n", "-P", "-j", chosen, "-o", "JobID")
    cluster.wait_until("accounting", lambda: len(cluster.out(*books).split()) == len(jobs))
    shown = [
        cluster.out("squeue", "-h", "-j", chosen, "-o", "%i %j %k"),
        cluster.out("squeue", "-h", "-j", chosen, "-O", "JobID,Name,Comment"),
        "".join(cluster.out("scontrol", "-o", "show", "job", str(job_id)) for job_id in jobs),
        cluster.out("sacct", "-X", "-n", "-j", chosen, "-o", "JobID,JobName,Comment"),
    ]
    for text in shown:
        assert len(text.splitlines()) == len(jobs)
        assert all(line.isprintable() for line in text.splitlines())
    for words in ("explain job {}", "show job --json", "show job --yaml"):
        text = cluster.out("scontrol", *words.format(chosen).split())
        assert all(line.isprintable() for line in text.splitlines())
    cluster.out("scancel", *map(str, jobs))
    cluster.wait_for_jobs(*jobs)


def test_large_environment(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 54: a megabyte of environment arrives whole."""
    script = work / "big.sh"
    script.write_text("#!/bin/bash\nenv | grep -c ^BIG\necho ${#BIG7}\n")
    start_with = [f"BIG{n}={'x' * 100_000}" for n in range(10)]
    words = ("env", *start_with, "sbatch", "--parsable", "-o", str(work / "out"), str(script))
    job_id = int(cluster.out(*words))
    cluster.wait_for_jobs(job_id)
    assert (work / "out").read_text() == "10\n100000\n"


def test_impossible_dependencies(cluster: LiveCluster) -> None:
    """RELIABILITY 54b: cycles and jobs that never existed are refused.

    Failed dependencies are shown.
    """
    first = cluster.submit("-H", "-o", "/dev/null", "--wrap", "exit 1")
    second = cluster.submit("-o", "/dev/null", "-d", f"afterok:{first}", "--wrap", "true")
    done = cluster.run("scontrol", "update", f"JobId={first}", f"Dependency=afterok:{second}")
    assert done.returncode == 1
    assert "ircular" in done.stderr
    for text in ("afterok:999999", "bogus:1", "afterok:x", f"after:{first}+x", "afterok:"):
        done = cluster.run("sbatch", "-d", text, "--wrap", "true")
        assert done.returncode == 1, text
        assert len(done.stderr.splitlines()) == 1
    killed = cluster.submit(
        "-o", "/dev/null", "-d", f"afterok:{first}", "--kill-on-invalid-dep=yes", "--wrap", "true"
    )
    cluster.out("scontrol", "release", str(first))
    cluster.wait_for_jobs(first, killed)
    cluster.wait_until(
        "reason",
        lambda: (
            "DependencyNeverSatisfied" in cluster.out("squeue", "-h", "-j", str(second), "-o", "%r")
        ),
    )
    assert cluster.accounted(killed, "State").startswith("CANCELLED")
    cluster.out("scancel", str(second))
    cluster.wait_for_jobs(second)
