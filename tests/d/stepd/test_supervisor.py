"""Real supervisors with real processes: launch, files, signals, escapes, ends."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import END_OVER_MEMORY
from pyslurm_ng.conf.namespaces import PrivateDirectory
from pyslurm_ng.d.host.binding import cpu_mask
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import remove_script, write_script
from pyslurm_ng.wire import step_io
from tests.d.mounts import spec_of
from tests.d.stepd.supervised import (
    KEY,
    PLAIN,
    Srun,
    Supervised,
    Template,
    until_started,
    until_written,
)
from tests.world.processes import count_in_script, is_running
from tests.world.waiting import wait_until

ROOT_ONLY = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="changing users needs root"),
]
CLEAN, KILLED = 2, 8
OTHER = 65_534


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    # Not below pytest's own directory, which other users may not enter.
    with tempfile.TemporaryDirectory(prefix="psng-stepd-") as name:
        made = Template(Path(name))
        yield made
        made.close()


# Scripts ----------------------------------------------------------------------------------------


def test_script_runs_in_its_place(template: Template) -> None:
    end, out = template.run("pwd; umask; echo $$ $SLURM_TASK_PID; cat $0 | head -n1; exit 3")
    words = out.split()
    assert words[0] == str(template.directory)
    assert words[1] == "0022"
    assert words[2] == words[3]
    assert words[4] == "#!/bin/bash"
    assert (end["status"], end["flags"]) == (3 << 8, CLEAN)


def test_nothing_but_the_three_streams_is_open(template: Template) -> None:
    """No descriptor of a daemon, a spool or another job reaches user code."""
    _, out = template.run("ls /proc/$$/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status")
    lines = out.split("\n")
    # 255 is bash's own way to hold its script.
    assert lines[: lines.index("SigBlk:\t0000000000000000")] == ["0", "1", "2", "255"]
    assert "SigIgn:\t0000000000000000" in lines


def test_spool_is_left_clean(template: Template) -> None:
    spec = template.spec("#!/bin/sh\nmkdir -p $(dirname $0)/a/b; touch $(dirname $0)/a/b/c\n")
    assert template.start(spec).end()["status"] == 0
    assert not Path(spec["spool"]).exists()


def test_missing_directory_means_tmp(template: Template) -> None:
    _, out = template.run("pwd", cwd="/no/such/dir")
    first, second = out.splitlines()
    assert first.endswith(
        "error: couldn't chdir to `/no/such/dir': No such file or directory: going to /tmp instead"
    )
    assert second == "/tmp"


def test_missing_interpreter_is_the_errno(template: Template) -> None:
    spec = template.spec("#!/no/such/program\n")
    assert template.start(spec).end()["status"] == 2 << 8
    said = Path(spec["tasks"][0]["out"]).read_text()
    text = "error: execve(): bad interpreter(/no/such/program): No such file or directory\n"
    assert said.endswith(text)


def test_unwritable_output_is_53(template: Template) -> None:
    """Slurm shows 0:53 for a job whose files cannot be opened."""
    spec = template.spec("#!/bin/sh\n")
    spec["tasks"][0]["out"] = "/dev/null/x"
    end = template.start(spec).end()
    assert end["status"] == 53
    assert end["error"] == ("Could not open stdio file /dev/null/x: Not a directory")


def test_folders_of_output_files_are_made(template: Template) -> None:
    """-o logs/%j/out works at once, without a mkdir before; a folder for input is not made."""
    spec = template.spec("#!/bin/sh\necho out; echo err >&2\n")
    spec["tasks"][0]["out"] = str(template.directory / "logs/7//deep/out")
    spec["tasks"][0]["err"] = str(template.directory / "other/err")
    previous = os.umask(0o022)
    try:
        assert template.start(spec).end()["status"] == 0
    finally:
        os.umask(previous)
    made = template.directory / "logs"
    assert (made / "7/deep/out").read_text() == "out\n"
    assert (template.directory / "other/err").read_text() == "err\n"
    assert stat.S_IMODE(made.stat().st_mode) == 0o755
    spec = template.spec("#!/bin/sh\n")
    spec["tasks"][0]["in"] = str(template.directory / "absent/in")
    assert template.start(spec).end()["status"] == 53
    assert not (template.directory / "absent").exists()


def test_fifo_without_reader_does_not_hang(template: Template) -> None:
    fifo = template.directory / "fifo"
    os.mkfifo(fifo)
    spec = template.spec("#!/bin/sh\necho x\n")
    spec["tasks"][0]["err"] = spec["tasks"][0]["out"] = str(fifo)
    assert template.start(spec).end()["status"] == 53


def test_append_and_truncate(template: Template) -> None:
    file = template.directory / "kept"
    file.write_text("old\n")
    for append, expected in ((True, "old\nnew\n"), (False, "new\n")):
        spec = template.spec("#!/bin/sh\necho new\n", append=append)
        spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(file)
        template.start(spec).end()
        assert file.read_text() == expected


def test_lines_are_written_behind_those_of_others(template: Template) -> None:
    """`cat` copies by a call that overwrites what others write, but where files append."""
    _, out = template.run("echo before; : >/proc/self/fd/1; echo after")
    assert out == "after\n"
    _, out = template.run("cat /proc/self/fdinfo/1")
    (flags,) = re.findall(r"flags:\s*(\d+)", out)
    assert int(flags, 8) & os.O_APPEND


def test_usage_is_counted(template: Template) -> None:
    end, _ = template.run("python3 -c 'x=bytearray(80<<20); sum(range(2_000_000))'")
    ((task, used),) = end["usage"]
    assert task == 0
    assert used["user_us"] + used["system_us"] > 20_000
    assert used["rss_kib"] > 80 << 10
    assert used["virtual_kib"] >= used["rss_kib"], "it ended before it was sampled"


def test_over_memory_kill(template: Template) -> None:
    """JobAcctGatherParams=OverMemoryKill, without control groups; recorded in jobend."""
    spec = template.spec(
        "#!/bin/sh\nexec python3 -c 'x=bytearray(200<<20); import time; time.sleep(60)'\n",
        memory_limit_kib=50 << 10,
        acct_every=1,
    )
    end = template.start(spec).end()
    said = Path(spec["tasks"][0]["out"]).read_text()
    assert f"error: StepId={spec['name']} exceeded memory limit (" in said
    assert "> 52428800), being killed\n" in said
    assert "error: Exceeded job memory limit\n" in said
    assert said.endswith(" DUE to SIGNAL Killed ***\n")
    assert (end["status"], end["flags"] & END_OVER_MEMORY) == (9, END_OVER_MEMORY)


SHARES = """#!/bin/sh
exec python3 -c '
import mmap, time
shared = mmap.mmap(-1, 120 << 20)
shared.write(bytes(120 << 20))
time.sleep(3)'
"""


@pytest.mark.parametrize("counts_shared", [True, False])
def test_shared_memory_counts_unless_it_shall_not(template: Template, counts_shared: bool) -> None:
    """JobAcctGatherParams=NoShared."""
    spec = template.spec(SHARES, acct_every=1, counts_shared=counts_shared)
    ((_, usage),) = template.start(spec).end()["usage"]
    assert (usage["rss_kib"] > 120 << 10) == counts_shared
    assert usage["virtual_kib"] > 120 << 10


def test_a_task_is_bound_and_its_output_says_so(template: Template) -> None:
    """CPU affinity and memory policy hold from the first instruction."""
    spec = template.spec("#!/bin/bash\necho pid $$; taskset -cp $$; head -n1 /proc/$$/numa_maps\n")
    cpu = min(os.sched_getaffinity(0))
    spec["tasks"][0] |= {
        "cpus": cpu_mask((cpu,)), "memory_mode": 2, "memory_nodes": b"\x01" + bytes(7),
        "report": "bound [\1]\n",
    }  # fmt: skip
    template.start(spec).end()
    said, pid, cpus, *memory = Path(spec["tasks"][0]["out"]).read_text().splitlines()
    assert said == f"bound [{pid.split()[1]}]"
    assert cpus.endswith(f": {cpu}")
    if memory:  # kernels without NUMA do not show it
        assert memory[0].split()[1] == "bind:0"


def test_a_task_that_cannot_be_bound_does_not_run(template: Template) -> None:
    """It says why and leaves with 1."""
    spec = template.spec("#!/bin/bash\necho here\n")
    spec["tasks"][0]["problem"] = "no such NUMA node"
    end = template.start(spec).end()
    assert end["status"] == 1 << 8
    said = Path(spec["tasks"][0]["out"]).read_text()
    assert "no such NUMA node" in said
    assert "here" not in said


def test_scripts_have_the_limits_of_the_submission(template: Template) -> None:
    _, out = template.run("ulimit -n; ulimit -c", rlimits=[(7, 99, 200), (4, 0, 0)])
    assert out.split() == ["99", "0"]


# Ends -------------------------------------------------------------------------------------------


ESCAPES = {
    "background": "sleep {m} &",
    "nohup": "nohup sleep {m} >/dev/null 2>&1 &",
    "setsid": "setsid sleep {m} &",
    "double fork": "( (setsid sleep {m} >/dev/null 2>&1 &) & )",
    "daemon": (
        "python3 -c 'import os\nif os.fork(): os._exit(0)\nos.setsid()\n"
        'if os.fork(): os._exit(0)\nos.closerange(0, 9)\nos.execlp("sleep", "sleep", "{m}")\''
    ),
    "clean environment": "env -i setsid sleep {m} >/dev/null 2>&1 &",
    "stopped": ("sleep {m} & until [ {seen} = 1 ]; do :; done; kill -STOP $!"),
    "deaf": "(trap '' TERM HUP INT; exec setsid sleep {m}) &",
}


def test_ps_shows_whose_supervisor_it_is(template: Template) -> None:
    """Who runs it makes no difference: slurmd may be an ordinary user's."""
    _, out = template.run("tr -d '\\0' </proc/$PPID/cmdline")
    assert re.fullmatch(r"slurmstepd: \[\d+\.batch\]", out)


@pytest.mark.parametrize("how", ESCAPES)
def test_nothing_survives_a_script(template: Template, how: str) -> None:
    """A supervisor adopts what its tasks let go, so all of it is found and ended."""
    marker = f"77{os.getpid()}{list(ESCAPES).index(how)}"
    seen = count_in_script(marker)
    escape = ESCAPES[how].replace("{m}", marker).replace("{seen}", seen)
    end, _ = template.run(f"{escape}\nuntil [ {seen} = 1 ]; do :; done\nexit 0")
    assert (end["status"], end["flags"]) == (0, CLEAN)
    assert not is_running(marker)


def test_what_a_script_leaves_behind_has_the_time_to_end_too(template: Template) -> None:
    """KillWait holds for all that had SIGTERM: an srun says how its tasks ended."""
    spec = template.spec(
        "#!/bin/bash\n(trap 'sleep 0.3; echo ended well; exit' TERM; echo ready; "
        "while :; do sleep 0.05; done) &\nwait\n"
    )
    spec["kill_wait"] = 60
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "ready")
    until_started(step)
    step.tell(do="terminate", why="", wait_s=60)
    end = step.end()
    assert end["status"] == 15
    assert Path(spec["tasks"][0]["out"]).read_text().endswith("ended well\n")


def test_a_command_server_of_a_script_gets_no_time(template: Template, tmp_path: Path) -> None:
    """A script that hears SIGTERM and calls Slurm's commands starts one that has not heard it."""
    server = tmp_path / "pyslurm-command-server"
    shutil.copy("/bin/sleep", server)
    spec = template.spec(
        f"#!/bin/bash\ntrap 'setsid {server} 3600 & echo saved; exit' TERM\necho ready\n"
        "sleep 3600 &\nwait\n"
    )
    spec["kill_wait"] = 3600
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "ready")
    until_started(step)
    step.tell(do="terminate", why="", wait_s=3600)
    assert step.end()["status"] == 0


def test_terminate_says_why_and_kills_the_deaf(template: Template) -> None:
    """TERM first, KILL after the wait; the reason stands in the job's output."""
    # Bash runs a trap after the read when the signal came just before it: each read is short.
    script = (
        "#!/bin/bash\ntrap 'echo got TERM' TERM\necho ready\nwhile :; do read -t .1 <> <(:); done\n"
    )
    spec = template.spec(script)
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "ready")
    until_started(step)
    step.tell(do="terminate", why="DUE TO TIME LIMIT", wait_s=2.0)
    end = step.end()
    said = Path(spec["tasks"][0]["out"]).read_text()
    assert f"error: *** JOB {spec['job']} ON n1 CANCELLED AT " in said
    assert "DUE TO TIME LIMIT ***\n" in said
    assert "got TERM" in said
    assert end["status"] == 9
    assert end["flags"] & KILLED


@pytest.mark.parametrize(("scope", "expected"), [("script", 0), ("all", 1)])
def test_signal_reaches_script_or_all(template: Template, scope: str, expected: int) -> None:
    """scancel -b signals the script alone, scancel -f its children too."""
    script = (
        "#!/bin/bash\ntrap 'echo script; kill -0 $!; exit 3' USR1\n"
        "bash -c 'trap \"exit 5\" USR1; echo ready; while :; do read -t 0.02 <> <(:); done' &\n"
        "wait $!; echo child $?; wait\n"
    )
    spec = template.spec(script)
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "ready")
    step.tell(do="signal", number=10, scope=scope)
    assert step.end()["status"] == 3 << 8
    said = Path(spec["tasks"][0]["out"]).read_text()
    assert "script" in said
    gone = "No such process" in said
    assert gone <= bool(expected)


def test_supervisor_waits_for_the_next_slurmd(template: Template) -> None:
    """When slurmd dies the step goes on, and the next slurmd finds it by its socket."""
    spec = template.spec("#!/bin/sh\nread line < go; echo $line\n")
    os.mkfifo(template.directory / "go")
    step = template.start(spec)
    assert step.hear()["did"] == "start"
    step.channel.close()
    again = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    wait_until(lambda: Path(step.path + ".sock").exists())
    folder = os.open(template.directory, os.O_PATH)
    again.connect(f"/proc/self/fd/{folder}/{os.path.basename(step.path)}.sock")
    os.close(folder)
    second = Supervised(step.path, again)
    assert second.hear()["did"] == "attach"
    (template.directory / "go").write_text("on\n")
    assert second.end()["status"] == 0
    assert Path(spec["tasks"][0]["out"]).read_text() == "on\n"
    assert not Path(step.path + ".sock").exists()


def test_killed_supervisor_takes_its_task_with_it(template: Template) -> None:
    marker = f"78{os.getpid()}"
    step = template.start(template.spec(f"#!/bin/sh\nexec sleep {marker}\n"))
    assert step.hear()["did"] == "start"
    wait_until(lambda: is_running(marker))
    wait_until(lambda: "pid" in step_record.read(step.path))
    os.kill(step_record.read(step.path)["pid"]["pid"], 9)
    assert step.hear() == {}
    step.channel.close()
    wait_until(lambda: not is_running(marker))
    assert "end" not in step_record.read(step.path)


def test_an_end_is_kept_on_a_full_spool(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY 32: a job that has ended would count as lost, and run a second time."""
    path = str(tmp_path / "1.2.3")
    tasks = [{"task": task} for task in range(3)]
    step_record.create(path, {"job": 1, "tasks": tasks})
    size = os.stat(path).st_size
    room = [5]  # bytes that may still be appended

    def write(descriptor: int, content: bytes) -> int:
        taken, room[0] = min(room[0], len(content)), max(0, room[0] - len(content))
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.pwrite(descriptor, content[:taken], 0)  # O_APPEND: behind the last byte

    monkeypatch.setattr(os, "write", write)
    step_record.append(path, {"kind": "pid", "pid": 7})
    usage = [(task, dict.fromkeys(("user_us", "rss_kib"), 1 << 60)) for task in range(3)]
    step_record.append(path, {"kind": "end", "status": 0, "usage": usage})
    with pytest.raises(OSError, match="No space"):
        step_record.append(path, {"kind": "tasks", "pids": "x" * 8000})
    step_record.append(path, {"kind": "reported"})
    assert os.stat(path).st_size == size, "half a record was left at the end"
    records = step_record.read(path)
    assert sorted(records) == ["end", "pid", "reported", "spec"]
    assert (records["spec"]["tasks"], records["pid"]["pid"]) == (tasks, 7)
    assert len(records["end"]["usage"]) == 3


# Users ------------------------------------------------------------------------------------------


class TestAsAnotherUser:
    pytestmark = ROOT_ONLY
    WHO = {"uid": OTHER, "gid": OTHER, "groups": [OTHER]}

    def test_identity_is_dropped_for_good(self, template: Template) -> None:
        where = template.directory / "others"
        where.mkdir(exist_ok=True)
        os.chown(where, OTHER, OTHER)
        spec = template.spec(
            "#!/bin/bash\nid -u; id -G; grep -E 'Cap(Prm|Eff)' /proc/self/status; "
            'python3 -c \'import os\ntry: os.setuid(0); print("root")\n'
            'except PermissionError: print("no")\'\n',
            **self.WHO,
        )
        spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(where / "o")
        assert template.start(spec).end()["status"] == 0
        lines = (where / "o").read_text().splitlines()
        assert lines[:2] == [str(OTHER), str(OTHER)]
        assert all(line.endswith("0000000000000000") for line in lines[2:4])
        assert lines[4] == "no"
        assert (where / "o").stat().st_uid == OTHER

    def test_files_are_opened_with_the_users_rights(self, template: Template) -> None:
        """RELIABILITY 61: a path that only root may write is refused, as is a link to it."""
        secret = template.directory / "roots"
        secret.write_text("kept")
        secret.chmod(0o644)
        link = Path("/tmp") / f"psng-link-{os.getpid()}"
        link.symlink_to(secret)
        try:
            for path in (secret, link):
                spec = template.spec("#!/bin/sh\necho stolen\n", **self.WHO)
                spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(path)
                assert template.start(spec).end()["status"] == 53
                assert secret.read_text() == "kept"
        finally:
            link.unlink()

    def test_the_interpreter_that_a_script_lacks_is_named(self, template: Template) -> None:
        """The script is a file of root's, but its user has written what stands in it."""
        spec = template.spec("#!/no/such/python\n", **self.WHO)
        out = Path(f"/tmp/psng-lacks-{os.getpid()}")
        spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(out)
        try:
            assert template.start(spec).end()["status"] == 2 << 8
            assert "execve(): bad interpreter(/no/such/python): No such" in out.read_text()
        finally:
            out.unlink()

    def test_only_its_user_reads_a_script_and_no_user_writes_it(self, template: Template) -> None:
        """RELIABILITY 32, 62: a job filled the spool through its own folder there."""
        spec = template.spec(
            "#!/bin/sh\nd=$(dirname $0)\nstat -c '%U %a' $0 $d\n"
            "chmod u+w $0 2>/dev/null; chmod 777 $d 2>/dev/null\n"
            "for f in $0 $d/more; do (echo more >>$f) 2>/dev/null && echo wrote $f; done\n"
            "mkdir $d/d 2>/dev/null; ln -s / $d/l 2>/dev/null; rm -f $0 2>/dev/null\n"
            "ls $d 2>/dev/null; wc -l <$0\n",
            **self.WHO,
        )
        out = Path(f"/tmp/psng-stat-{os.getpid()}")
        spec["tasks"][0]["out"] = spec["tasks"][0]["err"] = str(out)
        try:
            assert template.start(spec).end()["status"] == 0
            assert out.read_text() == "root 550\nroot 711\n7\n"
        finally:
            out.unlink()
        assert not Path(spec["spool"]).exists()

    def test_no_private_directories_are_the_nodes_fault(
        self, template: Template, tmp_path: Path
    ) -> None:
        """As when another job has filled the disk that they are on."""
        namespace = spec_of(tmp_path / "none", 12, (PrivateDirectory("/tmp"),))
        end = template.start(template.spec("#!/bin/sh\nexit 0\n", namespace=namespace)).end()
        assert end["error"].endswith("none/12: No such file or directory")
        assert (end["status"], end["drain"]) == (53, "private directories cannot be made")
        end = template.start(template.spec("#!/bin/sh\nexit 0\n")).end()
        assert (end["status"], end["drain"]) == (0, "")

    def test_another_user_of_the_same_group_reads_no_script(self, template: Template) -> None:
        path = write_script(f"{template.directory}/job00099", b"secret", OTHER, OTHER)
        for uid, gid in ((OTHER - 1, OTHER), (OTHER, OTHER)):
            words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "cat", path]
            shown = subprocess.run(words, capture_output=True, check=False).stdout
            assert shown == (b"secret" if uid == OTHER else b"")
        remove_script(os.path.dirname(path))
        assert not os.path.exists(path)

    def test_a_folder_of_an_older_version_is_removed_at_any_depth(self, template: Template) -> None:
        """Finding M2: such folders belonged to their users.

        A folder of 1,500 levels made a finished job a lost one.
        """
        top = template.directory / "job00098"
        top.mkdir()
        at = os.open(top, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=at)
            os.symlink("/etc", "link", dir_fd=at)
            inner = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = inner
        os.close(at)
        remove_script(str(top))
        assert not top.exists()
        assert Path("/etc/passwd").exists()


# Steps of srun ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", [step_io.pack(step_io.STDIN, step_io.ALL, b"touch stolen\n"),
              step_io.pack(step_io.WELCOME, step_io.ALL, KEY[:16])],
)  # fmt: skip
def test_another_process_at_the_port_of_srun_gets_nothing(template: Template, first: bytes) -> None:
    """srun has died and another user listens there.

    The step ends, and that process gets no output.
    """
    srun = Srun(template, ["sh", "-c", "echo secret; exec sh"], 1, is_srun=False)
    srun.connection.sendall(first)
    srun.connection.sendall(step_io.pack(step_io.STDIN, step_io.ALL, b"touch stolen\n"))
    try:
        srun.finish()
    except ConnectionError:
        srun.step.end()
    assert set(srun.hello) == {"key", "node", "node_index", "pid"}
    assert srun.hello["key"] != KEY[16:]
    assert srun.out == {}
    assert not (template.directory / "stolen").exists()


def test_streams_of_each_task(template: Template) -> None:
    srun = Srun(
        template, ["sh", "-c", "echo o$SLURM_PROCID; echo e$SLURM_PROCID >&2; exit $SLURM_PROCID"]
    )
    srun.finish()
    assert srun.hello["key"] == b"k" * 16
    assert srun.hello["node_index"] == 0
    assert srun.out[1, step_io.STDOUT] == b"o1\n"
    assert srun.out[0, step_io.STDERR] == b"e0\n"
    assert srun.exits == {0: 0, 1: 256}
    assert srun.done


def test_tasks_write_one_file_together(template: Template) -> None:
    """What several tasks write into a file of one name stands there whole, one after another."""
    out = str(template.directory / "together")
    programs = [["sh", "-c", "echo $SLURM_PROCID; echo e >&2"]]
    tasks = [
        {**PLAIN, "task": task, "local": task, "out": out, "err": out,
         "env": [b"SLURM_PROCID=%d" % task]}
        for task in range(8)
    ]  # fmt: skip
    Path(out).write_text("old\n")
    spec = template.spec("", programs=programs, tasks=tasks, is_batch=False, step=0)
    end = template.start(spec).end()
    assert end["status"] == 0
    assert sorted(Path(out).read_text().split()) == [*"01234567", *"eeeeeeee"]


def test_input_goes_to_all_unharmed(template: Template) -> None:
    """Megabytes of any bytes, within the credit that stepd gives."""
    payload = os.urandom(3 << 20)
    srun = Srun(template, ["sh", "-c", "sleep 0.1; exec cat"])

    def feed() -> None:
        at = 0
        while at < len(payload):
            while srun.credit <= 0:
                credited.wait(0.01)
            part = payload[at : at + min(65536, srun.credit)]
            srun.credit -= len(part)
            srun.send(step_io.STDIN, step_io.ALL, part)
            at += len(part)
        srun.send(step_io.STDIN)

    credited = threading.Event()
    feeder = threading.Thread(target=feed)
    feeder.start()
    srun.finish()
    feeder.join()
    assert srun.out[0, step_io.STDOUT] == payload
    assert srun.out[1, step_io.STDOUT] == payload


def test_slow_reader_loses_nothing(template: Template) -> None:
    """While srun does not read, tasks wait; then every byte comes."""
    srun = Srun(template, ["head", "-c", "20000000", "/dev/zero"], count=1)
    wait_until(lambda: bool(srun.connection.recv(1, socket.MSG_PEEK)))
    srun.finish()
    assert srun.out[0, step_io.STDOUT] == bytes(20_000_000)


def test_a_program_of_the_working_directory_is_found_last(
    template: Template, tmp_path: Path
) -> None:
    """Without a slash PATH comes first; a file that is no program is named as such."""
    for name in ("uname", "ownprogram"):
        (tmp_path / name).write_text("#!/bin/sh\necho own\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "text").write_text("")
    for program, exits, out in (
        ("ownprogram", 0, b"own\n"), ("uname", 0, b"Linux\n"), ("text", 13 << 8, b""),
    ):  # fmt: skip
        srun = Srun(template, [program], count=1, cwd=str(tmp_path))
        srun.finish()
        assert (srun.exits, bytes(srun.out.get((0, step_io.STDOUT), b""))) == ({0: exits}, out)


def test_a_script_without_its_interpreter_is_told_as_such(
    template: Template, tmp_path: Path
) -> None:
    """As in Slurm: `No such file` of a script that is there puzzles its user."""
    script = tmp_path / "script"
    script.write_text("#! /no/such -x\n")
    script.chmod(0o755)
    srun = Srun(template, [str(script)], count=1)
    srun.finish()
    assert srun.exits == {0: 2 << 8}
    assert srun.notices.endswith(
        b"error: execve(): bad interpreter(/no/such -x): No such file or directory\n"
    )


def test_missing_program(template: Template) -> None:
    srun = Srun(template, ["nosuchprogram"], count=1)
    srun.finish()
    assert srun.exits == {0: 2 << 8}
    assert srun.notices.endswith(b"error: execve(): nosuchprogram: No such file or directory\n")


def test_step_dies_with_srun(template: Template) -> None:
    marker = f"79{os.getpid()}"
    srun = Srun(template, ["sleep", marker])
    wait_until(lambda: is_running(marker))
    srun.connection.close()
    srun.listener.close()
    end = srun.step.end()
    assert end["flags"] & KILLED
    assert not is_running(marker)


def test_signal_to_one_task(template: Template) -> None:
    srun = Srun(template, ["sh", "-c", "trap 'exit 7' USR1; echo r; while :; do sleep 0.02; done"])
    while len(srun.out) < 2:
        srun.pump()
    srun.send(step_io.SIGNAL, 1, (10).to_bytes(4, "big"))
    while 1 not in srun.exits:
        srun.pump()
    srun.send(step_io.TERMINATE, step_io.ALL, b"TASK FAILURE")
    srun.finish()
    assert srun.exits[1] == 7 << 8
    assert b"ON n1 CANCELLED AT" in srun.notices
    assert b"DUE TO TASK FAILURE ***\n" in srun.notices


def test_a_pty_has_the_size_of_sruns_and_echoes_its_input(template: Template) -> None:
    srun = Srun(
        template, ["sh", "-c", "tty; stty size; read x; echo got $x"], count=1, pty=True, rows=33,
        columns=77,
    )  # fmt: skip
    while b"33 77" not in srun.out.get((0, step_io.STDOUT), b""):
        srun.pump()
    srun.send(step_io.STDIN, step_io.ALL, b"hi\n")
    srun.finish()
    said = srun.out[0, step_io.STDOUT]
    assert said.startswith(b"/dev/pts/")
    assert b"got hi\r\n" in said


def test_task_prolog_changes_the_environment(template: Template, tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\necho export A=1 2\necho unset B\necho print hello\n")
    prolog.chmod(0o755)
    tmp_path.chmod(0o755)
    srun = Srun(
        template, ["sh", "-c", "echo $A $B"], count=1, task_prologs=[("TaskProlog", str(prolog))],
        env=[b"PATH=/usr/bin:/bin", b"B=x"],
    )  # fmt: skip
    srun.finish()
    assert srun.out[0, step_io.STDOUT] == b"hello\n1 2\n"


def program(directory: Path, name: str, text: str) -> str:
    """Return the path of a program that anybody may run."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    directory.chmod(0o755)
    return str(path)


def test_a_task_prolog_knows_the_process_that_becomes_the_task(
    template: Template, tmp_path: Path
) -> None:
    """What it does to that process (nice, affinity, oom_score_adj) stays with the task."""
    prolog = program(
        tmp_path,
        "prolog",
        "renice -n 7 -p $SLURM_TASK_PID > /dev/null; echo export P=$SLURM_TASK_PID",
    )
    srun = Srun(
        template, ["sh", "-c", 'test $$ = "$P" && test $$ = "$SLURM_TASK_PID" && nice'], 2,
        task_prologs=[("TaskProlog", prolog)], env=[b"PATH=/usr/bin:/bin", b"SLURM_TASK_PID=1"],
    )  # fmt: skip
    srun.finish()
    assert [srun.out[task, step_io.STDOUT] for task in (0, 1)] == [b"7\n", b"7\n"]


def test_a_task_that_its_prolog_kills_ends_by_the_signal(
    template: Template, tmp_path: Path
) -> None:
    prolog = program(tmp_path, "prolog", '[ "$SLURM_PROCID" = 1 ] || kill -9 $SLURM_TASK_PID')
    srun = Srun(template, ["echo", "ran"], 2, task_prologs=[("TaskProlog", prolog)])
    srun.finish()
    assert srun.exits == {0: signal.SIGKILL, 1: 0}
    assert srun.out.get((0, step_io.STDOUT), b"") == b""
    assert srun.out[1, step_io.STDOUT] == b"ran\n"


def test_a_task_prolog_may_print_what_no_text_is(template: Template, tmp_path: Path) -> None:
    """An environment has no zero bytes: a line ends there, as in C."""
    prolog = program(tmp_path, "prolog", r"printf 'export A=1\0002\nexport B=3\n'")
    srun = Srun(template, ["sh", "-c", "echo $A $B"], 1, task_prologs=[("TaskProlog", prolog)])
    srun.finish()
    assert srun.out[0, step_io.STDOUT] == b"1 3\n"


def test_a_failing_task_prolog_ends_only_its_task(template: Template, tmp_path: Path) -> None:
    """The task ends with the prolog's code, and its epilogs run."""
    prolog = program(tmp_path, "prolog", '[ "$SLURM_PROCID" = 0 ] && exit 3; exit 0')
    epilog = program(tmp_path, "epilog", "echo end $SLURM_PROCID $SLURM_SCRIPT_CONTEXT >&2; exit 4")
    srun = Srun(
        template, ["sh", "-c", "echo ran"], task_prologs=[("TaskProlog", prolog)],
        task_epilogs=[("--task-epilog", epilog), ("TaskEpilog", "/no/such/file")],
    )  # fmt: skip
    srun.finish()
    assert srun.exits == {0: 3 << 8, 1: 0}
    assert srun.out.get((0, step_io.STDOUT), b"") == b""
    assert srun.out[1, step_io.STDOUT] == b"ran\n"
    assert srun.out[1, step_io.STDERR] == b"end 1 epilog_task\n"
    assert b"TaskProlog failed status=3" in srun.notices
    assert b"--task-epilog failed status=4" in srun.notices
    assert b"TaskEpilog /no/such/file can not be executed" in srun.notices


@pytest.mark.parametrize("label", [False, True])
def test_srun_shows_what_an_epilog_says_to_stderr(
    template: Template, tmp_path: Path, label: bool
) -> None:
    """Also of a task without prologs, whose streams are pipes that are opened before it."""
    epilog = program(tmp_path, "epilog", "echo lost; echo end $SLURM_PROCID >&2")
    srun = Srun(template, ["true"], 2, task_epilogs=[("--task-epilog", epilog)], label=label)
    srun.finish()
    errors = [srun.out.get((task, step_io.STDERR), b"") for task in (0, 1)]
    assert errors == [b"end 0\n", b"end 1\n"]
    assert b"lost" not in b"".join(srun.out.values())


def test_an_epilog_that_hangs_is_killed(template: Template, tmp_path: Path) -> None:
    """A step must not be held by it."""
    epilog = program(tmp_path, "epilog", "sleep 3600 & sleep 3600")
    end, out = template.run("echo here", task_epilogs=[("TaskEpilog", epilog)])
    assert end["status"] == 0
    assert out.startswith("here\n")
    assert "TaskEpilog failed status=signal 9" in out


def test_a_step_may_wait_for_children_of_its_tasks(template: Template, tmp_path: Path) -> None:
    """--wait-for-children: such processes end by themselves."""
    tmp_path.chmod(0o777)
    go, late = tmp_path / "go", tmp_path / "late"
    script = f"(until [ -e {go} ]; do sleep 0.02; done; echo late > {late}) & echo $!; exit 0"
    end, out = template.run(script)
    assert end["status"] == 0
    assert not os.path.exists(f"/proc/{out.strip()}")
    spec = template.spec("#!/bin/bash\n" + script, waits_for_children=True)
    step = template.start(spec)
    until_written(spec["tasks"][0]["out"], "\n")
    assert not late.exists()
    go.touch()
    step.end()
    assert late.read_text() == "late\n"


def test_a_step_whose_prolog_hangs_can_be_cancelled(template: Template, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    prolog = program(tmp_path, "prolog", f"echo > {mark}; sleep 3600")
    tmp_path.chmod(0o777)
    spec = template.spec("#!/bin/sh\necho ran\n", task_prologs=[("TaskProlog", prolog)])
    step = template.start(spec)
    wait_until(mark.exists)
    step.tell(do="terminate", why="", wait_s=0.0)
    end = step.end()
    assert end["flags"] & KILLED
    assert "ran" not in Path(spec["tasks"][0]["out"]).read_text()


def test_a_login_shell_gives_what_the_job_did_not_bring(template: Template, tmp_path: Path) -> None:
    """--export=NONE and --get-user-env: as `su -` would; what a profile prints is not taken."""
    home = tmp_path / "home"
    home.mkdir()
    tmp_path.chmod(0o755)
    (home / ".bash_profile").write_text(
        "echo X=1 hello\nexport MODULES='a\nb' OWN=theirs PATH=/opt/bin:$PATH\n"
    )
    base = [b"PATH=/usr/bin:/bin", b"HOME=" + os.fsencode(home), b"MAIL=/var/mail/me"]
    _, out = template.run(
        'echo "$MODULES|$OWN|$PATH|$X|$MAIL|$SHLVL"',
        env=[*base, b"OWN=mine"],
        login={"shell": "/bin/bash", "home": str(home), "env": base},
    )
    modules, own, path, nothing, mail, level = out.rstrip().split("|")
    assert (modules, own, nothing, mail, level) == ("a\nb", "mine", "", "/var/mail/me", "2")
    assert path.startswith("/opt/bin:")


def test_a_login_shell_without_output_is_reported_and_the_job_runs(
    template: Template, tmp_path: Path
) -> None:
    """nologin, for a service account."""
    base = [b"PATH=/usr/bin:/bin"]
    login = {"shell": "/bin/false", "home": str(tmp_path), "env": base}
    tmp_path.chmod(0o755)
    _, out = template.run("echo $PATH", env=base, login=login)
    assert "/usr/bin:/bin\n" in out
    assert "Failed to load the user's login environment" in out
