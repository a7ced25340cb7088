"""Effects of options of srun, salloc, sbatch and scontrol that only a running cluster shows."""

from __future__ import annotations

import os
import pty
import pwd
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.daemons.live import BIN, LiveCluster

pytestmark = pytest.mark.daemons
LIMIT_S = 40.0


# srun: what its tasks get ------------------------------------------------------------------------

TASKS = {
    "export": (
        "A=1 B=2 srun -n1 --export=A /bin/sh -c 'echo $A$B'; "
        "A=1 B=2 srun -n1 --export=NONE /bin/sh -c 'echo $A$B.'; "
        "A=1 B=2 srun -n1 --export=ALL,B=3 sh -c 'echo $A$B'",
        ["1", ".", "13"],
    ),
    "export NIL": (
        "A=1 SPANK_A=2 sbatch -W -Q -o nil.out --export=NIL "
        '--wrap "/usr/bin/env; $(command -v srun) -n1 /usr/bin/env"; '
        "grep -cE '^(SPANK_A=2|SLURM_EXPORT_ENV=NIL)' nil.out; grep -cE '^(A|HOME|LANG)=' nil.out",
        ["4", "0"],
    ),
    "wait-for-children": (
        "child='(until [ -e go ]; do sleep 0.1; done; echo late) & echo early'; "
        'srun -n1 sh -c "$child"; srun -n1 --wait-for-children sh -c "$child" > out & '
        "until grep -qs early out; do sleep 0.1; done; touch go; wait; cat out",
        ["early", "early", "late"],
    ),
    "wait": (
        "srun -n2 --wait=1 sh -c '[ $SLURM_PROCID = 0 ] || sleep 60' 2>&1 | head -n 1",
        ["srun: First task exited 1s ago"],
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_tasks_of_srun(live_cluster: LiveCluster, work: Path, name: str) -> None:
    """Which variables they have, and how long their step waits for its last processes."""
    script, out = TASKS[name]
    ran = live_cluster.run("salloc", "-Q", "-N1", "-n2", "bash", "-c", script, cwd=work)
    assert ran.stdout.splitlines() == out, ran


@pytest.mark.parametrize("option", ["--ntasks-per-socket=2", "--ntasks-per-core=1"])
@pytest.mark.parametrize(
    "words", ["salloc -Q {} sh -c", "srun {} sh -c", "salloc -Q -n1 srun {} sh -c"]
)
def test_most_tasks_of_a_part_are_in_the_environment(
    live_cluster: LiveCluster, words: str, option: str
) -> None:
    """As asked, of salloc's command and of tasks."""
    name = f"SLURM_{option[2:].partition('=')[0].upper().replace('-', '_')}"
    shown = live_cluster.out(*words.format(f"-n1 {option}").split(), f"echo ${name}")
    assert shown == f"{option[-1]}\n"


@pytest.mark.parametrize("command", ["sbatch", "salloc"])
def test_steps_bind_memory_as_their_job_says(
    live_cluster: LiveCluster, work: Path, command: str
) -> None:
    """--mem-bind of sbatch and salloc holds for steps without an option of their own."""
    show = "srun -n1 sh -c 'echo $SLURM_MEM_BIND'"
    if command == "salloc":
        words = ("-Q", "-n1", "--mem-bind=local", "bash", "-c", show)
        assert live_cluster.run("salloc", *words, cwd=work).stdout == "quiet,local\n"
        return
    words = ("--wait", "-n1", "--mem-bind=local", "-o", f"{work}/out", "--wrap", show)
    live_cluster.run("sbatch", *words, cwd=work)
    assert (work / "out").read_text() == "quiet,local\n"


# srun: signals -----------------------------------------------------------------------------------


def spawn(cluster: LiveCluster, work: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=work, env=cluster.environment, executable=str(BIN / words[0]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "srun: interrupt (one more within 1 sec to abort)"),
        (("--disable-status",), "srun: sending Ctrl-C to StepId="),
        (("--quit-on-interrupt",), "srun: sending Ctrl-C to StepId="),
    ],
)
def test_one_interrupt(
    live_cluster: LiveCluster, work: Path, words: tuple[str, ...], line: str
) -> None:
    """It shows the state, or goes to the tasks at once."""
    process = spawn(live_cluster, work, "srun", "-n1", *words, "sh", "-c", "echo ready; sleep 60")
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        first = next(line for line in lines if not line.startswith("srun: job "))
        assert first.startswith(line)
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def test_signals_that_are_not_passed_on(live_cluster: LiveCluster, work: Path) -> None:
    """--ignore-signals=USR1: the task gets USR2 alone."""
    task = (
        "trap 'echo one' USR1; trap 'echo two; exit' USR2; echo ready; while :; do sleep 0.1; done"
    )
    for words, heard in (((), ["one", "two"]), (("--ignore-signals=USR1",), ["two"])):
        process = spawn(live_cluster, work, "srun", "-Q", "-n1", *words, "bash", "-c", task)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        if not words:
            assert process.stdout.readline() == "one\n"
        process.send_signal(signal.SIGUSR2)
        rest, _ = process.communicate(timeout=LIMIT_S)
        assert ["one"] * (not words) + rest.split() == heard


def test_a_node_that_does_not_answer(live_cluster: LiveCluster, work: Path) -> None:
    """--msg-timeout=1: a launch on a node whose daemon hangs fails after a second, not a minute."""

    pids = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_daemon(entry, live_cluster, "n4")
    ]
    assert pids
    allocated = live_cluster.run("salloc", "--no-shell", "-w", "n4", "-n1", cwd=work)
    job = re.search(r"job allocation (\d+)", allocated.stderr)
    assert job
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        ran = live_cluster.run("srun", f"--jobid={job[1]}", "--msg-timeout=1", "true", cwd=work)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert "Task launch for" in ran.stderr and "failed on node n4" in ran.stderr
    assert ran.returncode == 1


def _is_daemon(entry: Path, cluster: LiveCluster, node: str) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        environment = (entry / "environ").read_bytes()
    except OSError:
        return False
    is_here = os.fsencode(str(cluster.directory)) in b"\0".join(words) + environment
    return is_here and node.encode() in words and any(word.endswith(b"slurmd") for word in words)


# Where -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["srun -l", "srun -l -m arbitrary", "salloc -Q srun -l"])
def test_a_host_file_places_tasks(live_cluster: LiveCluster, work: Path, words: str) -> None:
    """SLURM_HOSTFILE outside a job: the nodes are the file's, and each task runs where it says."""
    names = live_cluster.out("sinfo", "-h", "-N", "-o", "%N").split()[:2]
    (work / "hosts").write_text(f"{names[1]}\n{names[0]}\n{names[1]}\n")
    show = f"SLURM_HOSTFILE=hosts {words} sh -c 'echo $SLURMD_NODENAME' | sort"
    ran = live_cluster.run("bash", "-c", show, cwd=work)
    assert ran.stdout.split("\n")[:3] == [f"0: {names[1]}", f"1: {names[0]}", f"2: {names[1]}"]


# Asking ------------------------------------------------------------------------------------------


def test_at_once_or_not_at_all(live_cluster: LiveCluster, work: Path) -> None:
    """srun and salloc --immediate leave no job behind where one would have to wait."""
    allocated = live_cluster.run("salloc", "--no-shell", "-N4", "--exclusive", cwd=work)
    assert allocated.returncode == 0
    before = live_cluster.out("squeue", "-h", "-o", "%i")
    for command in ("srun", "salloc"):
        ran = live_cluster.run(command, "--immediate", "-N1", "--exclusive", "true", cwd=work)
        assert f"{command}: error: Unable to allocate resources: " in ran.stderr
        assert ran.returncode == 1
        # No room is told from a request that could not start anywhere.
        codes = ("env", "SLURM_EXIT_IMMEDIATE=8", "SLURM_EXIT_ERROR=9", command, "--immediate")
        assert live_cluster.run(*codes, "-N1", "--exclusive", "true", cwd=work).returncode == 8
        assert live_cluster.run(*codes, "-p", "nowhere", "true", cwd=work).returncode == 9
    live_cluster.wait_until(
        "they are gone", lambda: live_cluster.out("squeue", "-h", "-o", "%i") == before
    )


def test_a_trial_of_srun(live_cluster: LiveCluster, work: Path) -> None:
    """--test-only: when and where, and nothing is run."""
    ran = live_cluster.run("srun", "--test-only", "-N2", "touch", "ran", cwd=work)
    line = r"srun: Job \d+ to start at \S+ using 2 processors on nodes n\S+ in partition debug\n"
    assert re.fullmatch(line, ran.stderr), ran
    assert (ran.stdout, ran.returncode) == ("", 0)
    assert not (work / "ran").exists()


def test_salloc_tells_its_options(live_cluster: LiveCluster, work: Path) -> None:
    """--verbose."""
    ran = live_cluster.run("salloc", "--verbose", "-n1", "-t3", "true", cwd=work)
    lines = ran.stderr.splitlines()
    assert lines[0] == "salloc: defined options"
    assert "salloc: time                : 00:03:00" in lines
    plain = live_cluster.run("salloc", "-n1", "-t3", "true", cwd=work)
    assert "defined options" not in plain.stderr


@pytest.mark.parametrize(
    ("words", "rings"), [((), 0), (("--bell",), 1), (("--bell", "--no-bell"), 0)]
)
def test_the_bell(
    live_cluster: LiveCluster, work: Path, words: tuple[str, ...], rings: int
) -> None:
    """Of a terminal, when there is the allocation."""
    outer, inner = pty.openpty()
    heard = []

    def listen() -> None:
        try:
            while data := os.read(outer, 4096):
                heard.append(data)
        except OSError:
            pass  # the terminal's other side is closed

    listener = threading.Thread(target=listen)
    listener.start()
    subprocess.run(
        [str(BIN / "salloc"), "-Q", "-n1", *words, "true"], stdin=subprocess.DEVNULL, stdout=inner,
        stderr=subprocess.DEVNULL, cwd=work, env=live_cluster.environment, check=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    os.close(inner)
    listener.join(LIMIT_S)
    os.close(outer)
    assert b"".join(heard).count(b"\a") == rings


# sbatch ------------------------------------------------------------------------------------------


def test_sbatch_waits_for_the_end(live_cluster: LiveCluster, work: Path) -> None:
    """--wait: its exit code is the job's, and the job is over."""
    ran = live_cluster.run("sbatch", "--wait", "-o", "/dev/null", "--wrap", "exit 3", cwd=work)
    assert ran.returncode == 3
    job = ran.stdout.split()[-1]
    assert live_cluster.run("squeue", "-h", "-j", job).stdout == ""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to submit for another user")
def test_root_submits_for_others(live_cluster: LiveCluster, work: Path) -> None:
    """--uid and --gid: the job is theirs, and runs as they do."""
    person = pwd.getpwnam("games")
    work.chmod(0o777)
    words = ("--uid=games", "--wait", "-o", f"{work}/own", "--wrap", "id -u; id -g")
    assert live_cluster.run("sbatch", *words, cwd=work).returncode == 0
    assert (work / "own").read_text().split() == [str(person.pw_uid), str(person.pw_gid)]
    words = ("--uid=games", "--gid=tty", "--wait", "-o", f"{work}/tty", "--wrap", "id -gn")
    assert live_cluster.run("sbatch", *words, cwd=work).returncode == 0
    assert (work / "tty").read_text() == "tty\n"


# scontrol ----------------------------------------------------------------------------------------


def test_scontrol_asks_who_is_up(live_cluster: LiveCluster) -> None:
    """ping, in Slurm's words."""
    told = live_cluster.out("scontrol", "ping")
    assert re.fullmatch(r"Slurmctld\(primary\) at \S+ is UP\n", told)


def test_scontrol_writes_a_script(live_cluster: LiveCluster, work: Path) -> None:
    """write batch_script: to stdout, to a file that is named, or to slurm-ID.sh."""
    script = "#!/bin/sh\n# kept as it is\nsleep 60\n"
    (work / "job.sh").write_text(script)
    job = live_cluster.submit("-H", "job.sh", cwd=work)
    shown = live_cluster.out("scontrol", "write", "batch_script", str(job), "-", cwd=work)
    assert shown == script
    told = live_cluster.out("scontrol", "write", "batch_script", str(job), cwd=work)
    assert told == f"batch script for job {job} written to slurm-{job}.sh\n"
    assert (work / f"slurm-{job}.sh").read_text() == script
