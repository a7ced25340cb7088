"""slurmd at work: killed under running steps, ends of every kind, hooks, a node of no root."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import kill, open_directory
from tests.daemons.live import BIN, LiveCluster, missing_programs, start
from tests.world.processes import is_running

pytestmark = pytest.mark.daemons


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """One node of its own, since these tests kill its daemon and change its configuration."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"not built: {' '.join(missing)}")
    directory = tmp_path_factory.mktemp("node")
    extra = directory / "extra.conf"
    extra.write_text("KillWait=1\n")
    made = start(directory / "c", "--nodes", "1", "--cpus", "64", "--conf", str(extra))
    yield made
    made.down()


def pid_of(cluster: LiveCluster, node: str = "n1") -> int:
    return int((cluster.directory / "run" / f"slurmd-{node}.pid").read_text())


def start_slurmd(cluster: LiveCluster, node: str = "n1") -> None:
    done = cluster.run("slurmd", "-N", node)
    assert done.returncode == 0, done.stderr


def submit(cluster: LiveCluster, script: str, *options: str) -> int:
    return int(cluster.out("sbatch", "--parsable", "--mem=1", *options, "--wrap", script).strip())


@pytest.mark.parametrize(
    ("count", "rounds"), [(20, 1), pytest.param(50, 20, marks=pytest.mark.soak)]
)
def test_steps_survive_kill_of_slurmd(cluster: LiveCluster, count: int, rounds: int) -> None:
    """RELIABILITY 21: scripts go on and write all they have to; the next slurmd reports.

    Every second script has a step of srun, which counts as well: no byte of it is lost or doubled.
    All write while slurmd is killed; some end while nobody is there to hear of it.
    """
    for number in range(rounds):
        _kill_under_steps(cluster, count, f"{count}.{number}")


def _kill_under_steps(cluster: LiveCluster, count: int, name: str) -> None:
    go = cluster.directory / f"go.{name}"
    jobs = [
        submit(
            cluster,
            f"{'srun ' * (number % 2)}sh -c "
            f"'echo begin; n=0; until [ -e {go} ]; do echo $((n+=1)); sleep 0.1; done; seq 1000'; "
            "echo $SLURM_RESTART_COUNT",
            "-o", f"survive.{name}.{number}",
        )
        for number in range(count)
    ]  # fmt: skip
    outputs = [cluster.directory / f"survive.{name}.{number}" for number in range(count)]
    cluster.wait_until(
        "start of all", lambda: all(out.exists() and out.read_text() for out in outputs), 60
    )
    os.kill(pid_of(cluster), signal.SIGKILL)
    go.touch()
    start_slurmd(cluster)
    cluster.wait_for_jobs(*jobs)
    for out in outputs:
        lines = out.read_text().splitlines()
        before = len(lines) - 1002
        expected = [*range(1, before + 1), *range(1, 1001)]
        assert (lines[0], lines[-1]) == ("begin", "0")
        assert lines[1:-1] == list(map(str, expected)), out
    for job_id in jobs:
        assert cluster.accounted(job_id) == "COMPLETED|0:0"


def test_restart_reattaches(cluster: LiveCluster) -> None:
    """RELIABILITY 21: a restarted slurmd commands what its predecessor had started."""
    job_id = submit(cluster, "trap 'echo usr1; exit 4' USR1; echo b; while :; do sleep 0.1; done",
                    "-o", "reattach")  # fmt: skip
    out = cluster.directory / "reattach"
    cluster.wait_until("start", lambda: out.exists() and bool(out.read_text()))
    old = pid_of(cluster)
    os.kill(old, signal.SIGTERM)
    cluster.wait_until("end of slurmd", lambda: not Path(f"/proc/{old}").exists())
    start_slurmd(cluster)
    cluster.out("scancel", "-b", "-s", "USR1", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert out.read_text() == "b\nusr1\n"
    assert cluster.accounted(job_id) == "FAILED|4:0"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", "COMPLETED|0:0"),
        ("exit 255", "FAILED|255:0"),
        ("kill -SEGV $$", "FAILED|0:11"),
        ("exec /no/such/program", "FAILED|127:0"),
    ],
)
def test_the_scripts_status_is_the_jobs(cluster: LiveCluster, script: str, expected: str) -> None:
    job_id = submit(cluster, script, "-o", "none")
    cluster.wait_for_jobs(job_id)
    assert cluster.accounted(job_id) == expected


def test_unwritable_output(cluster: LiveCluster) -> None:
    """Recorded: reference/cli/jobend/bad_output. A folder that is missing would be made."""
    job_id = submit(cluster, "pwd", "-o", "/dev/null/dir/x.out")
    cluster.wait_for_jobs(job_id)
    assert cluster.accounted(job_id) == "FAILED|0:53"


def test_cancel_kills_all(cluster: LiveCluster) -> None:
    marker = f"66{os.getpid()}"
    job_id = submit(
        cluster, f"echo b; trap '' TERM; setsid sleep {marker} & sleep {marker}", "-o", "cancelled"
    )
    out = cluster.directory / "cancelled"
    cluster.wait_until("start", lambda: out.exists() and bool(out.read_text()))
    cluster.out("scancel", str(job_id))
    cluster.wait_for_jobs(job_id)
    assert not is_running(marker)
    said = out.read_text()
    assert f"error: *** JOB {job_id} ON n1 CANCELLED AT " in said
    assert said.rstrip().endswith("DUE to SIGNAL Terminated ***")
    assert cluster.accounted(job_id, "State").startswith("CANCELLED")


def test_killed_supervisor_ends_the_job(cluster: LiveCluster) -> None:
    """RELIABILITY 22: nothing of the job is left, the cores are free, the job runs again."""
    marker = f"67{os.getpid()}"
    job_id = submit(cluster, f"echo b; setsid sleep {marker} & wait", "-o", "lost", "--no-requeue")
    out = cluster.directory / "lost"
    cluster.wait_until("start", lambda: out.exists() and bool(out.read_text()))
    (supervisor,) = (
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and _parent_of_script(name, cluster, job_id)
    )
    os.kill(supervisor, signal.SIGKILL)
    cluster.wait_for_jobs(job_id)
    assert not is_running(marker)
    assert cluster.accounted(job_id, "State") == "NODE_FAIL"


def _parent_of_script(name: str, cluster: LiveCluster, job_id: int) -> bool:
    """Return whether a process is the supervisor of a job of this cluster."""
    try:
        is_stepd = f"[{job_id}.batch]" in Path(f"/proc/{name}/cmdline").read_text()
        children = " ".join(
            # Tasks are children of the thread that started them.
            path.read_text()
            for path in Path(f"/proc/{name}/task").glob("*/children")
        ).split()
        return is_stepd and any(
            str(cluster.directory) in Path(f"/proc/{child}/cmdline").read_text()
            for child in children
        )
    except (OSError, UnicodeDecodeError):
        return False


def test_a_health_check_drains_its_node(tmp_path: Path) -> None:
    """HealthCheckProgram runs as slurmd starts and again; what it does by scontrol happens."""
    said, sick = tmp_path / "said", tmp_path / "sick"
    program = tmp_path / "health"
    program.write_text(
        f"#!/bin/sh\necho $SLURMD_NODENAME >> {said}\n[ -e {sick} ] || exit 0\n"
        f"{BIN}/scontrol update NodeName=$SLURMD_NODENAME State=DRAIN Reason=sick\n"
    )
    program.chmod(0o755)
    lines = f"HealthCheckProgram={program}\nHealthCheckInterval=1\nHealthCheckNodeState=IDLE\n"
    extra = tmp_path / "extra.conf"
    extra.write_text(lines)
    live = start(tmp_path / "c", "--nodes", "1", "--cpus", "4", "--conf", str(extra))
    try:
        live.wait_until("runs", lambda: len(said.read_text().split()) > 2)
        assert set(said.read_text().split()) == {"n1"}
        sick.touch()
        live.wait_until("drain", lambda: "sick" in live.out("sinfo", "-R", "-h"))
    finally:
        live.down()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a directory whose path leaves room for the names of sockets."""
    with open_directory() as directory:
        yield directory


def test_a_node_is_told_to_boot_and_comes_back(short_path: Path) -> None:
    """RebootProgram runs once on the node when its job is over; a new boot ends that."""
    said, program = short_path / "said", short_path / "reboot"
    extra = short_path / "extra.conf"
    program.write_text(f"#!/bin/sh\necho $SLURMD_NODENAME ${{SLURM_CONF:+conf}} >> {said}\n")
    program.chmod(0o755)
    extra.write_text(f"RebootProgram={program}\nResumeTimeout=600\n")
    live = start(short_path / "c", "--nodes", "1", "--cpus", "4", "--conf", str(extra))

    def state() -> str:
        return live.out("sinfo", "-h", "-o", "%T %E").strip()

    try:
        job = live.submit("-o", "/dev/null", "--wrap", "sleep 600")
        live.wait_until("start", lambda: state() == "mixed none")
        live.out("scontrol", "reboot", "ASAP", "reason=kernel", "n1")
        assert state() == "draining@ kernel" and not said.exists()
        live.out("scancel", str(job))
        live.wait_until("order", lambda: said.exists() and state().startswith("reboot^ kernel"))
        kill(live, "slurmd-n1")
        done = live.run("slurmd", "-b", "-N", "n1")
        assert done.returncode == 0, done.stderr
        live.wait_until("return", lambda: state() == "idle none")
        assert said.read_text() == "n1 conf\n"
    finally:
        live.down()


def test_prolog_and_epilog_run_around_a_job(cluster: LiveCluster) -> None:
    """Prolog before, Epilog after; a prolog that fails drains the node and holds the job."""
    said = cluster.directory / "hooks"
    for name in ("prolog", "epilog"):
        program = cluster.directory / name
        program.write_text(f"#!/bin/sh\necho {name} $SLURM_JOB_ID $SLURMD_NODENAME >> {said}\n")
        program.chmod(0o755)
    conf = cluster.directory / "etc" / "slurm.conf"
    before = conf.read_text()
    lines = [f"{key}={cluster.directory}/{key.lower()}" for key in ("Prolog", "Epilog")]
    conf.write_text(before + "\n".join(lines) + "\n")
    log = cluster.directory / "log" / "slurmd-n1.log"
    count = log.read_text().count("registered with")
    cluster.out("scontrol", "reconfigure")
    os.kill(pid_of(cluster), signal.SIGHUP)
    cluster.wait_until("registration", lambda: log.read_text().count("registered with") > count)
    try:
        job_id = submit(cluster, f"echo script >> {said}", "-o", "none")
        cluster.wait_for_jobs(job_id)
        assert said.read_text() == f"prolog {job_id} n1\nscript\nepilog {job_id} n1\n"
        (cluster.directory / "prolog").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        job_id = submit(cluster, "true", "-o", "none")
        cluster.wait_until(
            "requeue",
            lambda: "launch failed requeued held" in cluster.out("squeue", "-h", "-j", str(job_id)),
        )
        assert "Prolog error" in cluster.out("sinfo", "-R", "-h")
        cluster.out("scancel", str(job_id))
    finally:
        conf.write_text(before)
        cluster.out("scontrol", "reconfigure")
        os.kill(pid_of(cluster), signal.SIGHUP)
        cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
