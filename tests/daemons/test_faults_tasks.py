"""Jobs that misbehave on a node: RELIABILITY rows 29, 30, 33, 37, 38, 61, 64."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from tests.world.processes import count_in_script, is_running

pytestmark = AS_OTHERS


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    """One node with room for many jobs at once; no task gets away with ignoring SIGTERM."""
    with open_directory() as directory:
        extra = directory / "extra.conf"
        extra.write_text("KillWait=1\nDefMemPerCPU=1\nOverTimeLimit=0\n")
        # A test mounts a disk later: a namespace would hide it where the root is not shared.
        made = start(
            directory / "c",
            "--nodes",
            "1",
            "--cpus",
            "400",
            "--no-namespaces",
            "--conf",
            str(extra),
            variables={"OF_THE_DAEMONS": "secret"},
        )
        with without_faults(made):
            yield made


@pytest.fixture
def work(cluster: LiveCluster, request: pytest.FixtureRequest) -> Path:
    """Return a directory for one test that every user may write to."""
    return directory_for(cluster, request.node.name)


# What people do to outlive their job, each with its own mark in the argument of sleep.
ESCAPES = (
    "setsid sleep {m}1 &",
    "nohup sleep {m}2 >/dev/null 2>&1 &",
    "(setsid setsid sleep {m}3 &) &",
    "setsid sh -c 'setsid sh -c \"sleep {m}4 & exit\" & exit' &",
    "python3 -c 'import os\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n"
    '  os.closerange(0,64); os.execlp("sleep","sleep","{m}5")\' &',
    "trap '' TERM HUP INT QUIT; sleep {m}6 &",
    "unshare -r sleep {m}7 2>/dev/null || sleep {m}7 &",
    "unshare -rpf sleep {m}8 2>/dev/null || sleep {m}8 &",
    "sh -c 'kill -STOP $$; sleep {m}9' sleep-{m}9 &",
    "env -i setsid sleep {m}10 &",
    "set -m; sleep {m}11 & set +m",
    "python3 -c 'import ctypes, os, signal\ntrace = ctypes.CDLL(None).ptrace\nchild = os.fork()\n"
    'if child == 0:\n trace(0, 0, 0, 0); os.execlp("sleep", "sleep", "{m}12")\n'
    "os.waitpid(child, 0)\ntrace(7, child, 0, 0)\nsignal.pause()' &",
)
"""Sessions, groups, namespaces, an empty environment, a tracer: 12 ways out of a job."""


def test_nothing_escapes(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 29: every process that a script leaves behind dies with it.

    The job is COMPLETED.
    """
    marker = f"88{os.getpid()}"
    words = f"{marker}[1-8]|sleep-{marker}9|{marker}1[0-2]"
    script = work / "escape.sh"
    script.write_text(
        "#!/bin/bash\n" + "\n".join(line.format(m=marker) for line in ESCAPES)
        + f"\nuntil [ {count_in_script(words)} = {len(ESCAPES)} ]; do sleep 0.1; done\n"
        "echo all\n"
    )  # fmt: skip
    job_id = submit_as(cluster, "nobody", "-t", "10", "-o", "out", str(script), cwd=work)
    cluster.wait_for_jobs(job_id)
    assert (work / "out").read_text() == "all\n"
    assert not any(is_running(f"{marker}{n}") for n in range(1, 1 + len(ESCAPES)))
    assert not is_running(f"sleep-{marker}9")
    assert cluster.accounted(job_id) == "COMPLETED|0:0"


def test_every_exit_code_and_signal(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 37: what a script ends with is what sacct shows, 0..255 and each signal."""
    script = work / "end.sh"
    script.write_text(
        "#!/bin/sh\n[ $SLURM_ARRAY_TASK_ID -lt 256 ] && exit $SLURM_ARRAY_TASK_ID\n"
        "ulimit -c 0\nexec python3 -c '\nimport os, signal\n"
        'number = int(os.environ["SLURM_ARRAY_TASK_ID"]) - 256\n'
        "if number in (1, 2, 3, 13, 15): signal.signal(number, signal.SIG_DFL)\n"
        "os.kill(os.getpid(), number)'\n"
    )
    signals = [n for n in range(1, 65) if n not in (17, 18, 19, 20, 21, 22, 23, 25, 28, 32, 33)]
    tasks = [*range(256), *(256 + n for n in signals)]
    chosen = "0-255," + ",".join(str(256 + n) for n in signals)
    job_id = cluster.submit("--array", chosen, "-o", "none", str(script), cwd=work)
    cluster.wait_for_jobs(job_id, limit_s=120)
    words = ("sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", "JobID,State,ExitCode")

    def ended() -> list[str]:
        lines = cluster.out(*words).splitlines()
        return [line for line in lines if line.split("|")[1] in ("COMPLETED", "FAILED")]

    # Accounting may still know none of the last tasks: their lines are counted.
    cluster.wait_until("accounting", lambda: len(ended()) == len(tasks))
    ends = {}
    for line in cluster.out(*words).splitlines():
        name, state, code = line.split("|")
        ends[int(name.partition("_")[2])] = (state, code)
    expected = {}
    for task in tasks:
        code = f"{task}:0" if task < 256 else f"0:{task - 256}"
        expected[task] = ("COMPLETED" if task == 0 else "FAILED", code)
    assert ends == expected


# What the two tasks of a step end with: exit codes, and signals as negative numbers.
MIXED = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (255, 0), (0, 255), (7, 7), (128, 127), (126, 130)]
MIXED += [(0, -number) for number in (1, 2, 6, 9, 10, 12, 14, 15)]
MIXED += [(-number, 0) for number in (1, 2, 6, 9, 10, 12, 14, 15)]
MIXED += [(3, -15), (-15, 3), (255, -1), (-9, -15), (-15, -9), (-10, -12)]


def test_steps_of_tasks_that_end_differently(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 37: the highest exit code counts, and any signal more than any exit code."""
    script = work / "steps.sh"
    task = "n=$(echo $ENDS | cut -d, -f$((SLURM_PROCID+1))); [ $n -ge 0 ] && exit $n; kill $n $$"
    lines = [f"ENDS={a},{b} srun -n2 sh -c '{task}'" for a, b in MIXED]
    script.write_text("#!/bin/bash\nulimit -c 0\n" + "\n".join(lines) + "\nexit 5\n")
    job_id = cluster.submit("-n", "2", "-o", "out", str(script), cwd=work)
    cluster.wait_for_jobs(job_id, limit_s=120)
    assert cluster.accounted(job_id, "State,ExitCode") == "FAILED|5:0"
    rows = ("sacct", "-n", "-P", "-j", str(job_id), "-o", "JobID,ExitCode")

    def ends() -> dict[str, str]:
        return dict(line.split("|") for line in cluster.out(*rows).splitlines())

    cluster.wait_until("steps in accounting", lambda: len(ends()) >= 2 + len(MIXED))
    end_of = ends()
    for number, pair in enumerate(MIXED):
        signals = [-end for end in pair if end < 0]
        expected = f"0:{max(signals)}" if signals else f"{max(pair)}:0"
        assert end_of[f"{job_id}.{number}"] == expected, pair


def test_scripts_that_cannot_run(cluster: LiveCluster, work: Path) -> None:
    """No interpreter: the shell's 127 or the errno; the node stays in service."""
    bodies = {
        "missing": "#!/no/such/interpreter\ntrue\n",
        "directory": "#!/tmp\ntrue\n",
        "crlf": "#!/bin/sh\r\ntrue\r\n",
    }
    jobs = {}
    for name, body in bodies.items():
        (work / name).write_bytes(body.encode())
        done = cluster.run("sbatch", "--parsable", "-o", f"{name}.out", str(work / name), cwd=work)
        if name == "crlf":
            assert done.returncode == 1
            assert "DOS line breaks" in done.stderr
        else:
            assert done.returncode == 0, done.stderr
            jobs[name] = int(done.stdout)
    cluster.wait_for_jobs(*jobs.values())
    ends = accounted(cluster, list(jobs.values()), "State,ExitCode")
    assert ends[jobs["missing"]] == "FAILED|2:0"
    assert ends[jobs["directory"]] == "FAILED|13:0"
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() in ("idle", "mix")


def test_tasks_that_do_not_want_to_end(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 30: ignores SIGTERM, stops itself, makes zombies: all end soon after KillWait."""
    scripts = {
        "ignores": "trap '' TERM; echo b; while :; do sleep 0.1; done",
        "stops": "echo b; kill -STOP $$",
        "zombies": "echo b; exec python3 -c 'import os,time\n"
        "for i in range(50):\n if os.fork()==0: os._exit(0)\ntime.sleep(600)'",
    }
    jobs = [
        submit_as(cluster, "games", "-o", name, "--wrap", script, cwd=work)
        for name, script in scripts.items()
    ]
    wait_for_text(cluster, *(work / name for name in scripts))
    assert as_user(cluster, "games", "scancel", *map(str, jobs)).returncode == 0
    cluster.wait_for_jobs(*jobs)
    uid = pwd.getpwnam("games").pw_uid
    for line in accounted(cluster, jobs, "State").values():
        assert line == f"CANCELLED by {uid}"


def test_output_that_cannot_be_opened(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 61: a directory, another's file, a FIFO without reader: 0:53, and no hang."""
    (work / "folder").mkdir()
    os.mkfifo(work / "fifo", 0o666)
    (work / "fifo").chmod(0o666)
    (work / "roots").write_text("root's own\n")
    (work / "link").symlink_to(work / "roots")
    (work / "dangling").symlink_to("/root/of/all/evil")
    names = ["folder", "fifo", "roots", "link", "dangling", "/etc/passwd", "/no/dir", "/proc/1/mem"]
    before = (work / "roots").stat()
    jobs = [submit_as(cluster, "nobody", "-o", n, "--wrap", "echo no", cwd=work) for n in names]
    cluster.wait_for_jobs(*jobs)
    ends = accounted(cluster, jobs, "State,ExitCode")
    shown = {name: ends[job_id] for name, job_id in zip(names, jobs, strict=True)}
    assert shown == dict.fromkeys(names, "FAILED|0:53")
    said = accounted(cluster, jobs, "SystemComment")
    assert said[jobs[0]] == f"Could not open stdio file {work / 'folder'}: Is a directory"
    assert all(text.startswith("Could not open stdio file ") for text in said.values())
    told = cluster.out("scontrol", "show", "job", str(jobs[0]))
    assert f"SystemComment={said[jobs[0]]}\n" in told
    after = (work / "roots").stat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino, before.st_mode, before.st_mtime_ns,
    )  # fmt: skip


def test_a_fifo_is_read_once_it_has_a_writer(cluster: LiveCluster, work: Path) -> None:
    """A script sees all that is written, and no end of file before; without a writer it can end."""
    fifo = work / "fifo"
    os.mkfifo(fifo, 0o666)
    fifo.chmod(0o666)
    words = ("-i", "fifo", "-o", "out", "--wrap", "cat; echo end")
    read = submit_as(cluster, "nobody", *words, cwd=work)
    # Once it can be opened without waiting, the job is there as its reader.
    fifo.write_text("late\n")
    cluster.wait_for_jobs(read)
    assert (work / "out").read_text() == "late\nend\n"
    waits = submit_as(cluster, "nobody", *words, cwd=work)
    state = ("squeue", "-h", "-o", "%t", "-j", str(waits))
    cluster.wait_until("the job runs", lambda: cluster.out(*state) == "R\n")
    cluster.out("scancel", str(waits))
    cluster.wait_for_jobs(waits)
    assert accounted(cluster, [read, waits], "State") == {
        read: "COMPLETED", waits: "CANCELLED by 0",
    }  # fmt: skip


def test_devices_as_output(cluster: LiveCluster, work: Path) -> None:
    """/dev/null is usual; /dev/full is a full disk that the script sees and survives."""
    null = submit_as(cluster, "nobody", "-o", "/dev/null", "--wrap", "echo x; exit 3", cwd=work)
    full = submit_as(cluster, "nobody", "-o", "/dev/full", "--wrap", "echo x || exit 5", cwd=work)
    cluster.wait_for_jobs(null, full)
    ends = accounted(cluster, [null, full], "State,ExitCode")
    assert ends == {null: "FAILED|3:0", full: "FAILED|5:0"}


def test_symlink_swapped_under_output(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 61: root's file is never touched, wherever the path leads at that moment."""
    canary = work / "canary"
    canary.write_text("untouched\n")
    canary.chmod(0o600)
    swap = work / "swap"
    loop = subprocess.Popen(
        ["python3", "-c",
         "import os,sys\nwhile True:\n"
         " for target in (sys.argv[1], sys.argv[3]):\n"
         "  os.symlink(target, sys.argv[2]+'~'); os.rename(sys.argv[2]+'~', sys.argv[2])",
         str(canary), str(swap), str(work / "mine")]
    )  # fmt: skip
    try:
        jobs = [
            submit_as(cluster, "nobody", "-o", str(swap), "--wrap", "echo mine", cwd=work)
            for _ in range(25)
        ]
        cluster.wait_for_jobs(*jobs)
    finally:
        loop.kill()
        loop.wait()
    assert canary.read_text() == "untouched\n"
    assert canary.stat().st_uid == 0
    assert (work / "mine").stat().st_uid == pwd.getpwnam("nobody").pw_uid


def test_full_output_disk(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 32: the script's write fails, and the script decides how it ends.

    Nothing else is affected.
    """
    disk = work / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", str(disk)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        job_id = submit_as(
            cluster, "nobody", "-o", str(disk / "out"), "--wrap",
            "head -c 1000000 /dev/zero || exit 9", cwd=work,
        )  # fmt: skip
        cluster.wait_for_jobs(job_id)
        assert cluster.accounted(job_id) == "FAILED|9:0"
        # Some jobs more on the full disk: their own output is lost, they are not.
        jobs = [
            submit_as(cluster, "nobody", "-o", str(disk / f"o{n}"), "--wrap", "true", cwd=work)
            for n in range(3)
        ]
        cluster.wait_for_jobs(*jobs)
        assert set(accounted(cluster, jobs, "State").values()) <= {"COMPLETED", "FAILED"}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert cluster.out("sinfo", "-h", "-o", "%t").strip() in ("idle", "mix")


@pytest.mark.parametrize("how", ["removed", "unreadable"])
def test_working_directory_that_cannot_be_entered(
    cluster: LiveCluster, work: Path, how: str
) -> None:
    """RELIABILITY 33: the job starts in /tmp and says so."""
    gone = work / "gone"
    gone.mkdir(mode=0o777)
    job_id = submit_as(
        cluster, "nobody", "-D", str(gone), "-o", str(work / "out"), "--begin=now+2", "--wrap",
        "pwd; echo $SLURM_SUBMIT_DIR", cwd=work,
    )  # fmt: skip
    gone.chmod(0)
    if how == "removed":
        shutil.rmtree(gone)
    cluster.wait_for_jobs(job_id)
    said = (work / "out").read_text()
    assert "going to /tmp instead" in said
    assert said.splitlines()[-2] == "/tmp"
    assert cluster.accounted(job_id) == "COMPLETED|0:0"


@pytest.mark.parametrize(
    ("limit", "word", "script", "ended"),
    [
        ("-f 0", "FSIZE", "echo x; echo y", "FAILED|0:25"),
        ("-St 1", "CPU", "while :; do :; done", "FAILED|0:24"),
    ],
)
def test_limits_that_are_too_low(
    cluster: LiveCluster, work: Path, limit: str, word: str, script: str, ended: str
) -> None:
    """They end the user's script as a shell would say, and nothing of the node."""
    (work / "script").write_text(f"#!/bin/bash\n{script}\n")
    submits = f"ulimit {limit}; exec sbatch --parsable -o out --propagate={word} script"
    said = as_user(cluster, "nobody", "bash", "-c", submits, cwd=work)
    assert said.returncode == 0, said
    job_id = int(said.stdout)
    cluster.wait_for_jobs(job_id)
    assert cluster.accounted(job_id) == ended, (work / "out").read_text()
    assert cluster.out("sinfo", "-h", "-o", "%t") == "idle\n"


def test_a_home_that_cannot_be_entered(cluster: LiveCluster, work: Path) -> None:
    """The script runs all the same, where it was submitted, and hears of it when it looks."""
    home = work / "home"
    home.mkdir(mode=0o700)
    words = ("sbatch", "--parsable", "-o", "out", "--wrap", "pwd; cat ~/.profile; echo on")
    said = as_user(cluster, "games", *words, cwd=work, HOME=str(home))
    job_id = int(said.stdout)
    cluster.wait_for_jobs(job_id)
    lines = (work / "out").read_text().splitlines()
    assert (lines[0], lines[-1]) == (str(work), "on")
    assert f"{home}/.profile: Permission denied" in lines[1]
    assert cluster.accounted(job_id) == "COMPLETED|0:0"


IDENTITY = """#!/bin/bash
grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|SigBlk|SigIgn):' /proc/self/status
umask
ulimit -a | grep -v '^pipe'
pwd
python3 - <<END
import os, stat
def is_open_to_us(name):
    try:
        kind = os.stat(f"/dev/{name}").st_mode
        if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind)):
            return False
        os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        return True
    except OSError:
        return False
print("devices", *sorted(filter(is_open_to_us, os.listdir("/dev"))))
print("variables", *sorted(os.environ))
print("descriptors", *sorted(map(int, os.listdir("/proc/%d/fd" % os.getppid()))))
try:
    os.setuid(0)
    print("root again")
except PermissionError:
    print("stays")
END
"""


def test_tasks_are_exactly_their_user(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 64: ids, groups, capabilities, descriptors, umask, limits as at submission.

    So are devices and variables, but for Slurm's own: none of the daemon's is among them.
    """
    script = work / "who.sh"
    script.write_text(IDENTITY)
    script.chmod(0o755)
    words = ("bash", "-c", f"umask 027; ulimit -S -n 77; ulimit -c 0; {script} > login; "
             f"sbatch --parsable -o job {script}")  # fmt: skip
    for user in ("nobody", "games"):
        own_directory = work / user
        own_directory.mkdir()
        own_directory.chmod(0o777)
        done = as_user(cluster, user, *words, cwd=own_directory)
        assert done.returncode == 0, done.stderr
        cluster.wait_for_jobs(int(done.stdout))
        login = [_plain(line) for line in (own_directory / "login").read_text().splitlines()]
        job = [_plain(line) for line in (own_directory / "job").read_text().splitlines()]
        assert "stays" in job
        # The last is the script that bash reads; nothing of the daemon's is open.
        assert [line for line in job if line.startswith("descr")] == ["descriptors 0 1 2 76"]
        # A task ignores nothing, whatever signals the tests themselves were started to ignore.
        ignored = [line for line in job if line.startswith("SigIgn")]
        assert ignored == ["SigIgn: 0000000000000000"]
        login = [ignored[0] if line.startswith("SigIgn") else line for line in login]
        more = _variables(job) - _variables(login)
        assert {name for name in more if not name.startswith("SLURM")} <= OF_A_JOB
        assert _without_variables(job) == _without_variables(login)


# What Slurm gives to tasks under other names than its own.
OF_A_JOB = {
    "ENVIRONMENT", "HOSTNAME", "TMPDIR", "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXTRA_ARGS",
    "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "OMPI_MCA_plm_slurm_args",
    "PRTE_MCA_plm_slurm_args",
}  # fmt: skip


def _variables(lines: list[str]) -> set[str]:
    """Return the names of variables that a script had."""
    (line,) = [line for line in lines if line.startswith("variables ")]
    return set(line.split()[1:])


def _without_variables(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.startswith("variables ")]


def _plain(line: str) -> str:
    """Even out blanks; soft and hard limits stay."""
    return " ".join(line.split())


def test_time_limit_and_warning_signal(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 38: --signal comes first, then the limit; an ignored TERM gains KillWait."""
    warned = submit_as(
        cluster, "nobody", "-t", "1", "--signal=B:USR1@59", "-o", "warned", "--wrap",
        "trap 'echo usr1; exit 0' USR1; echo b; while :; do sleep 0.1; done", cwd=work,
    )  # fmt: skip
    cluster.wait_for_jobs(warned, limit_s=150)
    assert (work / "warned").read_text() == "b\nusr1\n"
    assert cluster.accounted(warned) == "COMPLETED|0:0"


@pytest.mark.soak
def test_time_limit_is_kept(cluster: LiveCluster, work: Path) -> None:
    """RELIABILITY 38: TIMEOUT at the limit; KillWait later the stubborn one is dead too."""
    jobs = [
        submit_as(cluster, "nobody", "-t", "1", "-o", f"o{n}", "--wrap", script, cwd=work)
        for n, script in enumerate(("sleep 300", "trap '' TERM; while :; do sleep 0.1; done"))
    ]
    cluster.wait_for_jobs(*jobs, limit_s=150)
    ends = accounted(cluster, jobs, "State,ElapsedRaw")
    for job_id in jobs:
        state, elapsed_s = ends[job_id].split("|")
        assert state == "TIMEOUT"
        assert 60 <= int(elapsed_s) <= 64
    for n in range(2):
        assert "DUE TO TIME LIMIT ***" in (work / f"o{n}").read_text()
