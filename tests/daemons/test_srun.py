"""srun and salloc on real daemons: what Slurm printed in the same situations, and hard cases."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemons.live import BIN, SBIN, LiveCluster

pytestmark = pytest.mark.daemons
LIMIT_S = 40.0


Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(name="spawn")
def _spawn(live_cluster: LiveCluster, work: Path) -> Iterator[Spawn]:
    """Starts commands whose streams the test holds; none outlives it."""
    started: list[subprocess.Popen[str]] = []

    def spawn(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=work,
            env=live_cluster.environment,
            executable=str(BIN / words[0]),
        )
        started.append(process)
        return process

    yield spawn
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def in_allocation(
    cluster: LiveCluster, work: Path, script: str, *options: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run lines of shell in an allocation of their own."""
    return cluster.run("salloc", "-Q", *options, "bash", "-c", script, cwd=work, stdin=stdin)


def normal(text: str) -> list[str]:
    """Return lines without what differs from run to run: ids, times, node names."""
    text = re.sub(r"StepId=\d+\.\d+", "StepId=J.S", text)
    text = re.sub(r"STEP \d+\.\d+ ON", "STEP J.S ON", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+", "TIME", text)
    text = re.sub(r"\bn\d\b", "N", text)
    text = re.sub(r"(JobId=|jobid |[Jj]ob |allocation )\d+", r"\1J", text)
    return text.splitlines()


RECORDED = {
    "exit code": (
        "srun -n1 bash -c 'exit 9'; echo rc=$?",
        ["rc=9"],
        ["srun: error: N: task 0: Exited with exit code 9"],
    ),
    "signal": (
        "srun -n1 bash -c 'kill -TERM $$'; echo rc=$?",
        ["rc=143"],
        ["srun: error: N: task 0: Terminated", "srun: Force Terminated StepId=J.S"],
    ),
    "kill on bad exit": (
        "srun -n2 -K bash -c '[ $SLURM_PROCID = 0 ] && exit 4; sleep 20'; echo rc=$?",
        ["rc=143"],
        [
            "srun: error: N: task 0: Exited with exit code 4",
            "srun: Terminating StepId=J.S",
            "[TIME] error: *** STEP J.S ON N CANCELLED AT TIME DUE TO TASK FAILURE ***",
            "srun: error: N: task 1: Terminated",
            "srun: Force Terminated StepId=J.S",
        ],
    ),
    "multi-prog": (
        "printf '0 echo zero %%t %%o\\n1-2 echo more %%t %%o\\n' > mp.conf; "
        "srun -n3 -l --multi-prog mp.conf | sort",
        ["0: zero 0 0", "1: more 1 0", "2: more 2 1"],
        [],
    ),
    "not found": (
        "srun -n1 nosuchprogram; echo rc=$?",
        ["rc=2"],
        [
            "[TIME] error: execve(): nosuchprogram: No such file or directory",
            "srun: error: N: task 0: Exited with exit code 2",
        ],
    ),
    "files": (
        "srun -n2 -o 'so_%t_%n.out' echo hi; ls so_*; cat so_*",
        ["so_0_0.out", "so_1_0.out", "hi", "hi"],
        [],
    ),
    "files in new folders": (
        "srun -n2 -o 'of_%j/t/%t.out' echo hi; srun -n1 -o lf_%j/deep/out echo local; "
        "cat of_*/t/0.out of_*/t/1.out lf_*/deep/out; stat -c %a of_* lf_*",
        ["hi", "hi", "local", "755", "755"],
        [],
    ),
    "stdin": (
        "echo hello | srun -n2 -l cat | sort; echo a | srun -n2 -i1 -l cat",
        ["0: hello", "1: hello", "1: a"],
        [],
    ),
    "bcast": ("srun --bcast true; echo rc=$?", ["rc=0"], []),
    "too many": (
        "srun -n99 true; echo rc=$?",
        ["rc=1"],
        [
            "srun: error: Unable to create step for job J: "
            "More processors requested than permitted",
        ],
    ),
    "unknown job": (
        "srun --jobid=99999 true; echo rc=$?",
        ["rc=1"],
        [
            "srun: error: Unable to confirm allocation for job J: Invalid job id specified",
            "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job J",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_as_slurm_prints_it(live_cluster: LiveCluster, work: Path, name: str) -> None:
    """Recorded from a running Slurm, except for what is refused by name."""
    script, out, err = RECORDED[name]
    ran = in_allocation(live_cluster, work, script, "-N1", "-n4")
    assert (normal(ran.stdout), normal(ran.stderr)) == (out, err)


def test_verbose_lines(live_cluster: LiveCluster, work: Path) -> None:
    """What -v prints of a job of its own; tools read it."""
    ran = live_cluster.run("srun", "-v", "-n1", "true", cwd=work)
    lines = normal(ran.stderr)
    ends = lines.index("srun: end of defined options")
    assert lines[ends + 1 :] == [
        "srun: JobId=J returned by the controller",
        "srun: Nodes N are ready for job",
        "srun: jobid J: nodes(1):`N', cpu counts: 1(x1)",
        "srun: CpuBindType=(null type)",
        "srun: launching StepId=J.S on host N, 1 tasks: 0",
        "srun: Node N, 1 tasks started",
        "srun: Received task exit notification for 1 task of StepId=J.S (status=0x0000).",
        "srun: N: task 0: Completed",
    ]


def test_one_file_for_both_streams(live_cluster: LiveCluster, work: Path) -> None:
    """-o and -e that name one file: what one stream writes stays when the other writes."""
    (work / "both").write_text("before\n")
    for name in ("both", "of-%t"):
        words = ("-Q", "-n1", "-o", name, "-e", name, "sh", "-c", "echo out; echo err >&2")
        live_cluster.out("srun", *words, cwd=work)
        assert sorted((work / name.replace("%t", "0")).read_text().split()) == ["err", "out"]


def test_salloc_lines_and_code(live_cluster: LiveCluster, work: Path) -> None:
    """The command's code is salloc's."""
    ran = live_cluster.run("salloc", "-n1", "--mem=10", "bash", "-c", "exit 6", cwd=work)
    assert normal(ran.stderr) == [
        "salloc: Granted job allocation J",
        "salloc: Nodes N are ready for job",
        "salloc: Relinquishing job allocation J",
    ]
    assert ran.returncode == 6


def test_salloc_looks_for_its_command_last(live_cluster: LiveCluster, work: Path) -> None:
    """As Slurm does: the request has its answer first, and the allocation is given back."""
    for command in ("nosuchprogram", "/tmp"):
        ran = live_cluster.run("salloc", "-n1", command, cwd=work)
        assert normal(ran.stderr) == [
            "salloc: Granted job allocation J",
            "salloc: Nodes N are ready for job",
            f'salloc: error: Unable to find command "{command}"',
            "salloc: Relinquishing job allocation J",
        ]
        assert ran.returncode == 1


@pytest.mark.parametrize("words", [("true",), ("--export=A=1", "true"), ("",)])
def test_programs_are_found_by_the_tasks_path(
    live_cluster: LiveCluster, work: Path, words: tuple[str, ...]
) -> None:
    """Which --export may leave out; a program without a name is nowhere."""
    ran = live_cluster.run("srun", "-n1", *words, cwd=work)
    if words == ("true",):
        assert ran.returncode == 0
        return
    assert (
        normal(ran.stderr)[0] == f"[TIME] error: execve(): {words[-1]}: No such file or directory"
    )
    assert ran.returncode == 2


def test_salloc_runs_the_command_where_chdir_says(live_cluster: LiveCluster, work: Path) -> None:
    """Without such a folder nothing is allocated."""
    (work / "below").mkdir()
    ran = live_cluster.run("salloc", "-Q", "-n1", "-D", "below", "pwd", cwd=work)
    assert ran.stdout == f"{work.resolve()}/below\n"
    ran = live_cluster.run("salloc", "-Q", "-n1", "-D", f"{work}/gone", "pwd", cwd=work)
    assert ran.stderr == f"salloc: error: chdir({work}/gone): No such file or directory\n"
    assert (ran.returncode, ran.stdout) == (1, "")


def test_salloc_variables(live_cluster: LiveCluster, work: Path) -> None:
    """The command and its steps know their allocation."""
    script = (
        "echo $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE; "
        "echo $SLURM_ACCTG_FREQ $SLURM_PROFILE; srun echo hi"
    )
    options = ("-N2", "--ntasks-per-node=2", "--acctg-freq=9", "--profile=none")
    ran = in_allocation(live_cluster, work, script, *options)
    assert ran.stdout.splitlines() == ["2 4 2(x2)", "9 None", "hi", "hi", "hi", "hi"]


def test_megabytes_through_stdin_and_stdout(live_cluster: LiveCluster, work: Path) -> None:
    """Eight bits, both ways, with a reader that sleeps."""
    data = os.urandom(8 << 20)
    (work / "in").write_bytes(data)
    script = "srun -n1 cat < in | (sleep 1; cat) > out; srun -n2 -N2 cat < in | wc -c"
    ran = in_allocation(live_cluster, work, script, "-N2", "-n2")
    assert (work / "out").read_bytes() == data
    assert ran.stdout.split() == [str(2 * len(data))]


def test_steps_of_a_job_wait_for_each_other(live_cluster: LiveCluster, work: Path) -> None:
    """One CPU: the second step says that it waits, and then runs at once."""
    script = (
        "srun sh -c 'touch begun; until [ -e go ]; do sleep 0.1; done' & "
        "until [ -e begun ]; do sleep 0.1; done; "
        "srun echo second 2> said & "
        "until grep -qs retrying said; do sleep 0.1; done; touch go; wait; cat said >&2"
    )
    ran = in_allocation(live_cluster, work, script, "-n1")
    assert ran.stdout.split() == ["second"]
    assert normal(ran.stderr) == [
        "srun: Job J step creation temporarily disabled, retrying (Requested nodes are busy)",
        "srun: Step created for StepId=J.S",
    ]


def test_steps_in_sequence_are_silent(live_cluster: LiveCluster, work: Path) -> None:
    """A script of many short steps prints nothing."""
    ran = in_allocation(live_cluster, work, "for i in $(seq 15); do srun true; done", "-n1")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


def test_steps_started_together_take_different_nodes(live_cluster: LiveCluster, work: Path) -> None:
    """Four one-task steps, four nodes; each goes on until all four have begun."""
    task = "echo $SLURMD_NODENAME; touch begun.$SLURM_STEP_ID; "
    task += "until [ $(ls begun.* | wc -l) = 4 ]; do sleep 0.1; done"
    script = f"for i in 1 2 3 4; do srun -Q -N1 -n1 sh -c '{task}' & done; wait"
    ran = in_allocation(live_cluster, work, script, "-N4", "-n4")
    assert sorted(ran.stdout.split()) == ["n1", "n2", "n3", "n4"]


def test_pty_is_a_terminal(live_cluster: LiveCluster, work: Path) -> None:
    """--pty gives task 0 a terminal, if srun itself writes to one."""
    ran = in_allocation(live_cluster, work, "script -qec 'srun --pty tty' /dev/null", "-n1")
    # script sends the end of its input to the terminal, which may echo it: ^@ or ^D.
    assert re.search(r"/dev/pts/\d+\r?\n", ran.stdout)
    assert ran.returncode == 0
    sized = "stty rows 31 cols 97; srun --pty sh -c 'echo $SLURM_PTY_WIN_ROW $SLURM_PTY_WIN_COL'"
    ran = in_allocation(live_cluster, work, f"script -qec {shlex.quote(sized)} /dev/null", "-n1")
    assert re.search(r"\b31 97\r?\n", ran.stdout)
    ran = in_allocation(live_cluster, work, "srun --pty tty", "-n1")
    assert (ran.stdout, ran.returncode) == ("not a tty\n", 1)
    assert ran.stderr.splitlines()[:2] == [
        "srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device",
        "srun: error: Not using a pseudo-terminal, disregarding --pty option",
    ]


def test_only_task_zero_has_the_terminal(live_cluster: LiveCluster, work: Path) -> None:
    """Others read and write /dev/null, on its node and on others, as the manual of --pty says."""
    task = "echo $SLURM_PROCID; ls -l /proc/self/fd/0 | grep -c pts; test $SLURM_PROCID = 0"
    (work / "task.sh").write_text(task)
    command = "script -qec 'srun -n3 -N2 --pty sh task.sh 2>errors' /dev/null"
    ran = in_allocation(live_cluster, work, command, "-n3", "-N2")
    assert re.findall(r"\d", ran.stdout) == ["0", "1"]
    errors = (work / "errors").read_text()
    assert "tasks 1-2: Exited with exit code 1" in errors or ran.returncode == 1


def test_srun_from_outside_by_jobid(live_cluster: LiveCluster, work: Path) -> None:
    """--jobid runs in a job that another shell holds."""
    job_id = live_cluster.submit("-n1", "-o", "/dev/null", "--wrap", "sleep 60", cwd=work)
    ran = live_cluster.run("srun", f"--jobid={job_id}", "printenv", "SLURM_JOB_ID", cwd=work)
    assert (ran.stdout.strip(), ran.returncode) == (str(job_id), 0)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_signals_reach_the_tasks(
    live_cluster: LiveCluster, spawn: Spawn, number: signal.Signals
) -> None:
    """And the task's own code is srun's."""
    script = f"trap 'echo got; exit 7' {number.name[3:]}; echo ready; while :; do sleep 0.1; done"
    process = spawn("srun", "-Q", "-n1", "bash", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert (out, process.returncode) == ("got\n", 7)


def test_killed_srun_takes_step_and_job_along(live_cluster: LiveCluster, spawn: Spawn) -> None:
    """Nothing is left on the node, and the job ends within seconds."""
    marker = f"86{os.getpid()}"
    process = spawn("srun", "-n1", "sh", "-c", f"echo ready; sleep {marker}")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=LIMIT_S)
    live_cluster.wait_until("the task's end", lambda: not _finds(f"sleep {marker}"), LIMIT_S)
    live_cluster.wait_until(
        "the job's end", lambda: live_cluster.out("squeue", "-h", "--me") == "", LIMIT_S
    )


def waiting_id(process: subprocess.Popen[str]) -> str:
    """Return the id of the job that srun or salloc says it waits for."""
    assert process.stderr is not None
    while "queued and waiting" not in (line := process.stderr.readline()):
        assert line
    return line.split()[2]


def test_interrupt_while_pending_revokes(live_cluster: LiveCluster, spawn: Spawn) -> None:
    """Ctrl-C: the job is gone when srun is."""
    process = spawn("srun", "-n1", "--hold", "true")
    assert process.stderr is not None
    job_id = waiting_id(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert err.splitlines() == [
        f"srun: Job allocation {job_id} has been revoked",
        f"srun: Force Terminated JobId={job_id}",
    ]
    assert process.returncode == 1
    assert live_cluster.out("squeue", "-h", "--me") == ""


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            ["srun", "-n1", "--hold", "true"],
            [
                "srun: Job has been cancelled",
                "srun: error: Unable to allocate resources: "
                "Job/step already completing or completed",
            ],
        ),
        (
            ["salloc", "-n1", "--hold", "true"],
            [
                "salloc: Job allocation {} has been revoked.",
                "salloc: Job has been cancelled",
                "salloc: error: Job submit/allocate failed: "
                "Job/step already completing or completed",
            ],
        ),
    ],
)
def test_a_job_that_is_cancelled_while_it_waits(
    live_cluster: LiveCluster, spawn: Spawn, command: list[str], lines: list[str]
) -> None:
    """srun and salloc say so in Slurm 22.05's words."""
    process = spawn(*command)
    job_id = waiting_id(process)
    live_cluster.out("scancel", job_id)
    _, err = process.communicate(timeout=LIMIT_S)
    assert err.splitlines() == [text.format(job_id) for text in lines]
    assert process.returncode == 1


def test_cancelled_allocation_tells_salloc(live_cluster: LiveCluster, spawn: Spawn) -> None:
    """--kill-command ends the command of a job that was cancelled."""
    process = spawn("salloc", "-n1", "-K", "sleep", "60")
    assert process.stderr is not None
    # It may have to wait first, and then says so: jobs of earlier tests may still be completing.
    said = [process.stderr.readline()]
    while said[-1] and not said[-1].startswith("salloc: Nodes "):
        said.append(process.stderr.readline())
    granted = next(line for line in said if line.startswith("salloc: Granted job allocation "))
    job_id = granted.split()[-1]
    live_cluster.out("scancel", job_id)
    _, err = process.communicate(timeout=LIMIT_S)
    assert err == f"salloc: Job allocation {job_id} has been revoked.\n"
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("ends", "code"),
    [("kill -HUP $$", 0), ("kill -KILL $$", 0), ("kill -TERM $$", 1), ("exit 5", 5)],
)
def test_sallocs_exit_code_is_the_manuals(
    live_cluster: LiveCluster, spawn: Spawn, ends: str, code: int
) -> None:
    """0 where the command ended by HUP, INT, KILL or QUIT: the user went away."""
    process = spawn("salloc", "-Q", "-n1", "sh", "-c", ends)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == code


def test_salloc_leaves_its_command_behind_at_a_hangup(
    live_cluster: LiveCluster, spawn: Spawn
) -> None:
    """It gives the allocation back and exits, whatever the command does about the signal.

    The job has not failed: its user went away.
    """
    process = spawn("salloc", "-Q", "-n1", "sh", "-c", "trap '' HUP; echo $SLURM_JOB_ID; read word")
    assert process.stdout is not None
    job_id = process.stdout.readline().strip()
    process.send_signal(signal.SIGHUP)
    assert process.wait(LIMIT_S) == 1
    assert "JobState=COMPLETED " in live_cluster.out("scontrol", "show", "job", job_id)


def test_salloc_passes_sigterm_on_and_ignores_others(
    live_cluster: LiveCluster, spawn: Spawn
) -> None:
    """The command decides what SIGTERM means; SIGQUIT and SIGUSR1 do not reach it."""
    script = "trap 'exit 6' TERM; trap 'exit 7' QUIT USR1; echo ready; while :; do sleep 0.05; done"
    process = spawn("salloc", "-Q", "-n1", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGTERM):
        process.send_signal(number)
    assert process.wait(LIMIT_S) == 6


def test_srun_survives_a_new_controller(live_cluster: LiveCluster, spawn: Spawn) -> None:
    """kill -9 of slurmctld under a running step: output and code are not touched."""
    script = "echo ready; read word; echo $word; exit 5"
    process = spawn("srun", "-Q", "-n1", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    pid_file = live_cluster.directory / "run" / "service" / "slurmctld.pid"
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    conf = live_cluster.directory / "etc" / "slurm.conf"
    live_cluster.wait_until(
        "the controller's start",
        lambda: (
            subprocess.run(
                [str(SBIN / "slurmctld"), "-f", str(conf)], check=False, capture_output=True
            ).returncode
            == 0
        ),
        LIMIT_S,
    )
    out, err = process.communicate("hello\n", timeout=LIMIT_S)
    assert (out, err, process.returncode) == (
        "hello\n",
        "srun: error: n1: task 0: Exited with exit code 5\n",
        5,
    )
    live_cluster.wait_until(
        "the job's end", lambda: live_cluster.out("squeue", "-h", "--me") == "", LIMIT_S
    )


def _finds(command: str) -> bool:
    """Return whether a process with this command line runs."""
    command_line = command.replace(" ", "\0").encode() + b"\0"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes() == command_line:
                    return True
            except OSError:
                continue
    return False


WAITING_FILES = [
    ["-i", "fifo", "true"],
    ["-o", "fifo", "true"],
    ["-e", "fifo", "true"],
    ["--prolog", "/bin/sleep", "600"],  # the prolog is given the command's words
]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", WAITING_FILES, ids=lambda words: words[0])
def test_a_signal_ends_an_srun_that_waits_for_a_file(
    live_cluster: LiveCluster, work: Path, spawn: Spawn, words: list[str], number: signal.Signals
) -> None:
    """A FIFO that nobody opens, or a program that does not end, costs nobody a KILL."""
    (work / "fifo").unlink(missing_ok=True)
    os.mkfifo(work / "fifo")
    process = spawn("srun", "-Q", "-n1", *words)
    live_cluster.wait_until(
        "the step", lambda: ".0" in live_cluster.out("squeue", "-h", "-s", "-o", "%i"), LIMIT_S
    )
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert re.fullmatch(
        rf"srun: error: StepId=\d+\.0: ended by signal {number:d} before its launch\n", err
    )
    live_cluster.wait_until(
        "the job's end", lambda: live_cluster.out("squeue", "-h", "--me") == "", LIMIT_S
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_srun_that_waits_for_its_programs(
    live_cluster: LiveCluster, work: Path, spawn: Spawn, number: signal.Signals
) -> None:
    """Its file is read before there is an allocation."""
    (work / "fifo").unlink(missing_ok=True)
    os.mkfifo(work / "fifo")
    process = spawn("srun", "-Q", "-n1", "--multi-prog", "fifo")
    waits = Path(f"/proc/{process.pid}/wchan")
    live_cluster.wait_until("the open", lambda: waits.read_text() == "wait_for_partner", LIMIT_S)
    process.send_signal(number)
    assert process.wait(LIMIT_S) == -number
    assert live_cluster.out("squeue", "-h", "--me") == ""


def test_a_fifo_is_no_program_to_send(live_cluster: LiveCluster, work: Path) -> None:
    """Neither srun --bcast nor sbcast waits for its writer."""
    os.mkfifo(work / "fifo")
    sent = live_cluster.run("srun", "-Q", "-n1", "--bcast", "./fifo", cwd=work)
    assert (sent.returncode, sent.stderr) == (
        1, f"srun: fatal: Can't send `{work}/./fifo`: not a regular file\n",
    )  # fmt: skip
    copied = live_cluster.run("salloc", "-Q", "-n1", "sbcast", "fifo", f"{work}/copy", cwd=work)
    assert (copied.returncode, copied.stderr) == (
        255, "sbcast: error: Can't send `fifo`: not a regular file\n",
    )  # fmt: skip


def test_programs_come_from_a_pipe(live_cluster: LiveCluster, work: Path) -> None:
    """As with process substitution of a shell."""
    command = "srun -Q -n2 --multi-prog <(printf '0 echo a\\n1 echo b\\n')"
    assert sorted(live_cluster.out("bash", "-c", command, cwd=work).split()) == ["a", "b"]
