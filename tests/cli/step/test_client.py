"""srun while its step runs: streams, exit codes, signals, lost nodes. The nodes are the test."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.hostlist import fold_numbers
from pyslurm_ng.base.numbers import REQ_OPEN_APPEND, REQ_OPEN_TRUNCATE
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step import multi_prog, user_signals
from pyslurm_ng.cli.step.launch import appends
from pyslurm_ng.cli.step.link import MOST_STRANGERS
from pyslurm_ng.cli.step.multi_prog import MultiProgError, check_programs, read_programs
from pyslurm_ng.cli.step.program_path import located
from pyslurm_ng.cli.step.routes import Routes
from pyslurm_ng.cli.step.streams import Labels, Sink, StepIo
from pyslurm_ng.cli.step.tasks import StepTasks, exit_code, exit_text
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.wire import step_io
from tests.cli.step_room import LIMIT_S, Node, StepRoom

CODE_4 = 4 << 8


@pytest.fixture(name="make")
def _make() -> Iterator[Any]:
    rooms: list[StepRoom] = []

    def make(nodes: list[str], tasks: list[list[int]], **settings: Any) -> StepRoom:
        room = StepRoom(nodes, tasks, **settings)
        rooms.append(room)
        return room

    yield make
    for room in rooms:
        room.close()


def test_output_and_success(make: Any) -> None:
    """Both streams arrive where they belong, byte for byte."""
    room = make(["n1"], [[0]])
    node = room.node()
    node.started()
    data = bytes(range(256)) * 4096
    node.out(0, data)
    node.out(0, b"oops\n", step_io.STDERR)
    node.finish()
    assert room.end() == (data, "oops\n", 0)


def test_srun_ends_when_the_controller_knows_the_end(make: Any) -> None:
    """The next srun finds the CPUs free: it gets the same node, with the files of this step."""
    read, write = os.pipe()
    room = make(["n1"], [[0]], teller=read)
    node = room.node()
    node.started()
    node.finish()
    with pytest.raises(EOFError):
        node.wait_for(-1)
    assert room.process.poll() is None
    os.write(write, b"x")
    assert room.end() == (b"", "", 0)
    os.close(read)
    os.close(write)


def test_labels_wait_for_whole_lines(make: Any) -> None:
    """A line of two pieces gets one label, and other tasks' lines do not cut it."""
    room = make(["n1", "n2"], [list(range(10)), [10]], label=True)
    first, second = room.node(0), room.node(1)
    first.out(0, b"he")
    first.out(1, b"other\n")
    first.out(0, b"llo\nrest")
    first.out(0, b"")
    first.finish()
    second.out(10, b"x\n")
    second.finish()
    out, err, code = room.end()
    assert sorted(out.splitlines()) == [b" 0: hello", b" 0: rest", b" 1: other", b"10: x"]
    assert (err, code) == ("", 0)


def test_tasks_that_end_alike_share_a_line(make: Any) -> None:
    """The exit code is the highest."""
    room = make(["n1", "n2"], [[0, 1, 2], [3]])
    first, second = room.node(0), room.node(1)
    for task in (0, 1, 2):
        first.exit(task, CODE_4)
    first.done()
    second.exit(3, 5 << 8)
    second.done()
    _, err, code = room.end()
    assert sorted(err.splitlines()) == [
        "srun: error: n1: tasks 0-2: Exited with exit code 4",
        "srun: error: n2: task 3: Exited with exit code 5",
    ]
    assert code == 5


@pytest.mark.parametrize(
    ("number", "word"),
    [(signal.SIGTERM, "Terminated"), (signal.SIGKILL, "Killed"),
     (signal.SIGSEGV, "Segmentation fault"), (signal.SIGHUP, "Hangup"),
     (signal.SIGABRT, "Aborted")],
)  # fmt: skip
def test_task_killed_by_a_signal(make: Any, number: int, word: str) -> None:
    """128 and the signal's number; Slurm adds a line about steps that were ended."""
    room = make(["n3"], [[0]])
    room.node().finish(int(number))
    more = "srun: Force Terminated StepId=5.0\n" if word in ("Terminated", "Killed") else ""
    assert room.end() == (b"", f"srun: error: n3: task 0: {word}\n{more}", 128 + number)


def test_kill_on_bad_exit(make: Any) -> None:
    """-K: the other tasks are terminated, and srun prints why."""
    room = make(["n3"], [[0, 1]], kill_on_bad_exit=True)
    node = room.node()
    node.exit(0, CODE_4)
    assert node.wait_for(step_io.TERMINATE)[1] == b"TASK FAILURE"
    node.send(step_io.pack(step_io.NOTICE, 0, b"[now] error: *** STEP 5.0 ON n3 CANCELLED ***"))
    node.exit(1, int(signal.SIGTERM))
    node.done()
    _, err, code = room.end()
    assert err.splitlines() == [
        "srun: error: n3: task 0: Exited with exit code 4",
        "srun: Terminating StepId=5.0",
        "[now] error: *** STEP 5.0 ON n3 CANCELLED ***",
        "srun: error: n3: task 1: Terminated",
        "srun: Force Terminated StepId=5.0",
    ]
    assert code == 143


def test_a_task_out_of_memory_may_end_the_step(make: Any) -> None:
    """--oom-kill-step: its node says so, and the others are terminated."""
    room = make(["n1", "n2"], [[0], [1]])
    first, second = room.node(0), room.node(1)
    flags = step_io.EXIT_OUT_OF_MEMORY | step_io.EXIT_ENDS_STEP
    first.exit(0, 125, flags)
    assert second.wait_for(step_io.TERMINATE)[1] == b"OUT OF MEMORY"
    second.exit(1, int(signal.SIGKILL))
    first.done()
    second.done()
    _, err, _ = room.end()
    assert "srun: error: n1: task 0: Out Of Memory" in err.splitlines()


def test_notice_of_others_says_aborted(make: Any) -> None:
    """scancel: srun says that it waits, and not "Force Terminated"."""
    room = make(["n1"], [[0]], kill_wait_s=5)
    node = room.node()
    node.send(step_io.pack(step_io.NOTICE, 0, b"[t] error: *** STEP 5.0 ON n1 CANCELLED AT t ***"))
    node.finish(int(signal.SIGTERM))
    _, err, code = room.end()
    assert err.splitlines()[0] == (
        "srun: Job step aborted: Waiting up to 7 seconds for job step to finish."
    )
    assert "Force" not in err
    assert code == 143


@pytest.mark.parametrize(("status", "word"), [(0, "exited"), (3 << 8, "exited abnormally")])
def test_wait_limits_the_stragglers(make: Any, status: int, word: str) -> None:
    """-W 1: one second after the first end the others are killed."""
    room = make(["n1"], [[0, 1, 2]], wait_s=1)
    node = room.node()
    node.started()
    node.exit(1, status)
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (9,)
    node.exit(0, 9)
    node.exit(2, 9)
    node.done()
    _, err, code = room.end()
    ended = [line for line in err.splitlines() if "Exited with" not in line]
    assert ended[:5] == [
        "srun: First task exited 1s ago",
        "srun: StepId=5.0 tasks 0,2: running",
        f"srun: StepId=5.0 task 1: {word}",
        "srun: Terminating StepId=5.0",
        "srun: error: n1: tasks 0,2: Killed",
    ]
    assert code == 137


def test_stdin_goes_to_all_nodes_within_their_credit(make: Any) -> None:
    """More than a window waits for the slowest node; nothing is lost, and the end comes."""
    room = make(["n1", "n2"], [[0], [1]], stdin=subprocess.PIPE)
    nodes = [room.node(0), room.node(1)]
    data = os.urandom(3 * step_io.STDIN_WINDOW)
    assert room.process.stdin is not None
    writer = os.fork()
    if not writer:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(room.process.stdin.fileno(), rest) :]
        os._exit(0)
    room.process.stdin.close()
    room.process.stdin = None
    got = [b"", b""]
    for index, node in enumerate(nodes):
        while True:
            task, body = node.wait_for(step_io.STDIN)
            assert task == step_io.ALL
            if not body:
                break
            got[index] += body
            assert len(got[index]) <= len(data)
            # The other has not been read yet: give both their credit, as their tasks would.
            for connection in nodes:
                connection.send(
                    step_io.pack_number(step_io.CREDIT, 0, len(body)) if index == 0 else b""
                )
    assert got == [data, data]
    os.waitpid(writer, 0)
    for node in nodes:
        node.finish()
    assert room.end()[2] == 0


def test_stdin_stops_without_credit(make: Any) -> None:
    """If a task does not read, srun waits, and at most one window has been sent."""
    room = make(["n1"], [[0]], stdin=subprocess.PIPE)
    node = room.node()
    assert room.process.stdin is not None
    os.set_blocking(room.process.stdin.fileno(), False)
    sent = 0
    received = 0
    while received < step_io.STDIN_WINDOW:
        try:
            sent += os.write(room.process.stdin.fileno(), bytes(65536))
        except BlockingIOError:
            pass
        received += len(node.wait_for(step_io.STDIN)[1])
    assert received == step_io.STDIN_WINDOW
    node.finish()
    assert room.end()[2] == 0


def test_stdin_for_one_task(make: Any) -> None:
    """-i 1: only the node of that task gets it."""
    room = make(["n1", "n2"], [[0], [1]], stdin=subprocess.PIPE, in_task=1)
    first, second = room.node(0), room.node(1)
    assert room.process.stdin is not None
    room.process.stdin.write(b"a\n")
    room.process.stdin.close()
    room.process.stdin = None
    assert second.wait_for(step_io.STDIN) == (1, b"a\n")
    assert second.wait_for(step_io.STDIN) == (1, b"")
    first.finish()
    second.finish()
    assert room.end()[2] == 0


def test_slow_reader_loses_nothing(make: Any) -> None:
    """Megabytes into a pipe that nobody reads at first; the node is slowed down meanwhile."""
    room = make(["n1"], [[0]])
    node = room.node()
    node.connection.setblocking(False)
    chunk = os.urandom(65536)
    sent = b""
    frame = step_io.pack(step_io.STDOUT, 0, chunk)
    pending = b""
    # srun takes no more once the pipe and its own buffers are full.
    while select.select([], [node.connection], [], 0.05)[1]:
        pending = pending or frame
        count = node.connection.send(pending)
        pending = pending[count:]
        if not pending:
            sent += chunk
        assert len(sent) < 64 << 20
    node.connection.settimeout(LIMIT_S)
    # Signals are served even now.
    os.kill(room.process.pid, signal.SIGUSR1)
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (10,)
    child = os.fork()
    if not child:
        node.send(pending)
        node.finish()
        os._exit(0)
    out, err, code = room.end()
    os.waitpid(child, 0)
    if pending:
        sent += chunk
    assert out == sent
    assert (err, code) == ("", 0)


def test_closed_stdout_becomes_sigpipe(make: Any) -> None:
    """`srun yes | head`: the tasks get SIGPIPE when the reader is gone."""
    room = make(["n1"], [[0]])
    node = room.node()
    assert room.process.stdout is not None
    room.process.stdout.close()
    room.process.stdout = None
    node.out(0, b"y\n" * 1000)
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (13,)
    node.finish(13)
    assert room.process.wait(LIMIT_S) == 141


def test_output_that_cannot_be_written_is_said(make: Any) -> None:
    """A full disk, or a limit of the size of files: the tasks end, and a line says why."""
    with open("/dev/full", "wb") as full:
        room = make(["n1"], [[0]], stdout=full)
    node = room.node()
    node.out(0, b"y\n")
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (13,)
    node.finish()
    assert room.end()[1] == (
        "srun: error: Could not write standard output: No space left on device\n"
    )


def test_errors_that_cannot_be_written_are_said(make: Any) -> None:
    """`srun -e FILE` on a full disk. As in Slurm the tasks go on, and their exit code counts."""
    room = make(["n1"], [[0]], err_path="/dev/full")
    node = room.node()
    node.out(0, b"lost\n", step_io.STDERR)
    node.out(0, b"kept\n")
    node.finish()
    assert room.end() == (
        b"kept\n", "srun: error: Could not write /dev/full: No space left on device\n", 0
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT])
def test_signals_are_forwarded(make: Any, number: signal.Signals) -> None:
    """Once each."""
    room = make(["n1"], [[0]])
    node = room.node()
    node.started()
    os.kill(room.process.pid, number)
    task, body = node.wait_for(step_io.SIGNAL)
    assert (task, step_io.numbers(body)) == (step_io.ALL, (int(number),))
    node.finish()
    assert room.end()[2] == 0


def test_interrupts_escalate(make: Any) -> None:
    """Ctrl-C shows the state; a second one soon after sends SIGINT and ends the step."""
    room = make(["n1"], [[0, 1]], abort_window_s=60.0)
    node = room.node()
    node.started()
    assert _after_interrupt(room) == "srun: interrupt (one more within 1 sec to abort)"
    assert room.line() == "srun: StepId=5.0 tasks 0-1: running"
    assert _after_interrupt(room) == "srun: sending Ctrl-C to StepId=5.0"
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (2,)
    assert room.line() == "srun: forcing job termination"
    assert room.line().startswith("srun: Job step aborted: Waiting up to ")
    assert node.wait_for(step_io.TERMINATE)[1].decode() == step_io.FORCED
    node.finish(9)
    assert room.end()[1:] == ("", 137)  # nobody needs to hear that the tasks were killed


def test_tasks_that_end_by_sigint_are_not_killed(make: Any, monkeypatch: Any) -> None:
    """They have a moment to save what they need to: SIGKILL does not come with SIGINT."""
    monkeypatch.setattr(user_signals, "_TO_END_S", 3600.0)
    room = make(["n1"], [[0]], abort_window_s=60.0)
    node = room.node()
    node.started()
    assert _after_interrupt(room) == "srun: interrupt (one more within 1 sec to abort)"
    os.kill(room.process.pid, signal.SIGINT)
    node.wait_for(step_io.SIGNAL)
    node.finish(4 << 8)
    assert room.end()[2] == 4


def test_a_third_interrupt_leaves_the_step_alone(make: Any) -> None:
    """Without waiting for tasks that do not end."""
    room = make(["n1"], [[0]], abort_window_s=60.0)
    node = room.node()
    node.started()
    assert _after_interrupt(room) == "srun: interrupt (one more within 1 sec to abort)"
    assert room.line() == "srun: StepId=5.0 task 0: running"
    assert _after_interrupt(room) == "srun: sending Ctrl-C to StepId=5.0"
    node.wait_for(step_io.TERMINATE)
    os.kill(room.process.pid, signal.SIGINT)
    assert room.end()[2] == 137


def test_a_late_interrupt_shows_the_state_again(make: Any) -> None:
    """Only a quick second Ctrl-C means the end."""
    room = make(["n1"], [[0]], abort_window_s=-1.0)
    node = room.node()
    node.started()
    for _ in range(2):
        assert _after_interrupt(room) == "srun: interrupt (one more within 1 sec to abort)"
        assert room.line() == "srun: StepId=5.0 task 0: running"
    node.finish()
    assert room.end()[2] == 0


def test_without_status_an_interrupt_goes_to_the_tasks(make: Any) -> None:
    """--disable-status: at once, and a quick second one ends the step."""
    room = make(["n1"], [[0]], show_status=False, abort_window_s=60.0)
    node = room.node()
    node.started()
    assert _after_interrupt(room) == "srun: sending Ctrl-C to StepId=5.0"
    assert step_io.numbers(node.wait_for(step_io.SIGNAL)[1]) == (2,)
    assert _after_interrupt(room) == "srun: sending Ctrl-C to StepId=5.0"
    node.wait_for(step_io.TERMINATE)
    node.finish(9)
    assert room.end()[2] == 137


def _after_interrupt(room: StepRoom) -> str:
    os.kill(room.process.pid, signal.SIGINT)
    return room.line()


def test_quit_on_interrupt(make: Any) -> None:
    """One Ctrl-C is enough, and what tasks return by themselves is still said."""
    room = make(["n1"], [[0]], quit_on_interrupt=True)
    node = room.node()
    node.started()
    assert _after_interrupt(room) == "srun: sending Ctrl-C to StepId=5.0"
    assert room.line() == "srun: forcing job termination"
    assert room.line().startswith("srun: Job step aborted: Waiting up to ")
    node.finish(3 << 8)
    _, err, code = room.end()
    assert (err, code) == ("srun: error: n1: task 0: Exited with exit code 3\n", 3)


def test_lost_node_ends_the_others(make: Any) -> None:
    """A node that vanishes is an error; the rest of the step is not left running."""
    room = make(["n1", "n2"], [[0], [1]])
    first, second = room.node(0), room.node(1)
    second.connection.close()
    assert first.wait_for(step_io.TERMINATE)[1] == b"NODE FAILURE"
    first.finish(int(signal.SIGTERM))
    _, err, code = room.end()
    assert err.splitlines()[0] == "srun: error: Node failure on n2"
    assert code == 143


def test_connections_of_strangers_are_closed(make: Any) -> None:
    """Neither a wrong key nor random bytes disturb the step."""
    room = make(["n1"], [[0]])
    stranger = Node(room, 0, [0], key=bytes(32))
    with pytest.raises((EOFError, ConnectionError)):
        stranger.receive()
    rubbish = Node(room, 0, [0], key=bytes(32))
    try:
        rubbish.send(b"\xff" * 64)
    except ConnectionError:
        pass
    room.node().finish()
    assert room.end()[2] == 0


def test_strangers_keep_no_node_out(make: Any) -> None:
    """More of them than srun may have files: the oldest go, and nothing they send is kept."""
    room = make(["n1", "n2"], [[0], [1]])
    resource.prlimit(room.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    first = room.node(0)
    strangers = [room.connect() for _ in range(3 * MOST_STRANGERS)]
    long = step_io.HEAD.pack(step_io.HELLO, 0, 0, 0, step_io.MAX_BODY_BYTES)
    strangers[-1].sendall(long)
    assert hung_up(strangers[-1])
    assert hung_up(strangers[0])
    second = room.node(1)
    for node in (first, second):
        node.started()
        node.finish()
    assert room.end()[2] == 0


def test_the_port_is_closed_once_all_nodes_are_there(make: Any) -> None:
    """Connections that have proved nothing are closed, and no further ones are accepted."""
    room = make(["n1"], [[0]])
    stranger = room.connect()
    node = room.node()
    node.started()
    assert hung_up(stranger)
    with pytest.raises(ConnectionError):
        room.connect()
    node.finish()
    assert room.end()[2] == 0


def test_srun_proves_itself_to_the_nodes(make: Any) -> None:
    """It does so first. Its half of the key is not the half that nodes show."""
    room = make(["n1"], [[0]])
    node = room.node()
    shown, other = step_io.halves(room.key)
    kind, _, body = node.receive()
    assert (kind, body) == (step_io.WELCOME, other)
    assert shown != other
    node.finish()
    assert room.end()[2] == 0


def hung_up(connection: socket.socket) -> bool:
    """Return whether srun ends a connection, without a word."""
    try:
        return not connection.recv(1)
    except ConnectionError:
        return True


# Pure parts -------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 60)))
def test_folded_ids_name_each_once(ids: set[int]) -> None:
    """Ranges are read back to the same set."""
    back: set[int] = set()
    for part in filter(None, fold_numbers(ids).split(",")):
        first, _, last = part.partition("-")
        back.update(range(int(first), int(last or first) + 1))
    assert back == ids


@pytest.mark.parametrize(
    ("status", "flags", "text", "code"),
    [
        (0, 0, "Completed", 0),
        (9 << 8, 0, "Exited with exit code 9", 9),
        (9, 0, "Killed", 137),
        (11 | 0x80, 0, "Segmentation fault (core dumped)", 139),
        (9, 1, "Out Of Memory", 1),
    ],
)
def test_exit_words(status: int, flags: int, text: str, code: int) -> None:
    """As Slurm words them."""
    assert (exit_text(status, flags), exit_code(status, flags)) == (text, code)


def test_verbose_tells_good_ends_too() -> None:
    """-v."""
    tasks = StepTasks("StepId=96.0", ["n3"], [[0]])
    tasks.exited(0, 0, 0)
    assert tasks.end_lines(1) == [
        "Received task exit notification for 1 task of StepId=96.0 (status=0x0000).",
        "n3: task 0: Completed",
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=20)), max_size=30))
def test_labels_lose_nothing(pieces: list[tuple[int, bytes]]) -> None:
    """Without its labels, each task's output is what it wrote.

    Only a missing last newline is added.
    """
    labels = Labels(4)
    out = b"".join(labels.put(step_io.STDOUT, task, data) for task, data in pieces if data)
    out += b"".join(labels.put(step_io.STDOUT, task, b"") for task in range(4))
    for task in range(4):
        mark = b"%d: " % task
        lines = [line[3:] for line in out.split(b"\n")[:-1] if line.startswith(mark)]
        written = b"".join(data for written_by, data in pieces if written_by == task)
        expected = written if written.endswith(b"\n") or not written else written + b"\n"
        assert b"".join(line + b"\n" for line in lines) == expected


def test_programs_of_tasks(tmp_path: Any) -> None:
    """The example of the recorded run, and quotes."""
    path = tmp_path / "mp.conf"
    path.write_text("0 echo zero %t %o\n# none\n1-2 echo 'more words' %t \\\n%o\n* sleep 1\n")
    assert read_programs(str(path), 5) == [
        {"argv": ["echo", "zero", "0", "0"], "tasks": [0]},
        {"argv": ["echo", "more words", "1", "0"], "tasks": [1]},
        {"argv": ["echo", "more words", "2", "1"], "tasks": [2]},
        {"argv": ["sleep", "1"], "tasks": [3, 4]},
    ]


@pytest.mark.parametrize(
    ("text", "words", "tasks"),
    [
        ("0 a\n1-2 b\n* c\n", [], 3),
        ("* c\n", [], 1),
        ("0 a\n1-2 b\n* c\n", ["-n5"], 5),
        ("0-1 a\n", ["-N2"], 2),
    ],
)
def test_programs_count_the_tasks(tmp_path: Any, text: str, words: list[str], tasks: int) -> None:
    """Without -n there are as many as the lines number, as with Slurm 22.05."""
    options = options_with(tmp_path, text, words)
    assert options.request["ntasks"] == tasks


def test_programs_are_checked_before_there_is_an_allocation(tmp_path: Any) -> None:
    """Nobody waits in the queue for a file that cannot be used."""
    for text, words, said in (
        ("0 a\n1-2 b\n", ["-n2"], "Invalid task id, 2 >= ntasks\nLine 2 of configuration file "),
        ("0 a\n", ["-n2"], "Configuration file "),
        ("0,4 a\n", [], "Configuration file "),
    ):
        with pytest.raises(OptionError) as problem:
            options_with(tmp_path, text, words)
        assert problem.value.text.startswith(said) and problem.value.code == 1
    with pytest.raises(OptionError) as problem:
        check_programs(Options("srun"), str(tmp_path / "absent"))
    assert problem.value.text == f"Could not open multi_prog config file {tmp_path}/absent"


def test_all_standard_error_is_asked_for_beside_a_file_of_the_output() -> None:
    """`-o none -e all` and `-o FILE.%t -e all`: nodes would write it where the output goes."""
    options = Options("srun")
    options.request |= {"std_out": "none", "std_err": "all"}
    fields = Routes(options, {}, 1, (0, 0), {}).open(StepIo(Sink(1), Sink(2)))
    assert fields == {"std_out": "/dev/null", "std_err": "all"}


@pytest.mark.parametrize("output", ["%t.out", "none"])
def test_a_file_of_errors_here_is_kept_from_files_of_the_output(
    output: str, tmp_path: Path
) -> None:
    """`-o FILE.%t -e FILE`: the nodes wrote standard error into the files of the output."""
    options = Options("srun")
    options.request |= {"std_out": output, "std_err": str(tmp_path / "err"), "work_dir": "/tmp"}
    streams = StepIo(Sink(1), Sink(2))
    assert Routes(options, {}, 1, (0, 0), {}).open(streams)["std_err"] == "all"
    os.close(streams.err.descriptor)


@pytest.mark.parametrize(
    ("conf", "flags", "kept"),
    [
        ("0", 0, ""),
        ("1", 0, "old"),
        ("YES", 0, "old"),
        ("1", REQ_OPEN_TRUNCATE, ""),
        ("0", REQ_OPEN_APPEND, "old"),
    ],
)
def test_job_file_append_is_about_files_of_srun_too(
    conf: str, flags: int, kept: str, tmp_path: Path
) -> None:
    """JobFileAppend=1 is the default of --open-mode, as srun's manual says."""
    path = tmp_path / "out"
    path.write_text("old")
    options = Options("srun")
    options.request |= {"std_out": str(path), "flags": flags}
    streams = StepIo(Sink(1), Sink(2))
    Routes(options, {}, 1, (0, 0), {"JobFileAppend": conf}).open(streams)
    os.close(streams.out.descriptor)
    assert path.read_text() == kept
    assert appends(options, {"JobFileAppend": conf}) == bool(kept)


@pytest.mark.parametrize("word", ["all", "ALL", "All"])
def test_all_is_a_word_in_any_case(word: str) -> None:
    """As `none` is, and as both are in Slurm: no file of this name is made."""
    options = Options("srun")
    options.request |= {"std_in": word, "std_out": "NONE", "std_err": word}
    fields = Routes(options, {}, 1, (0, 0), {}).open(StepIo(Sink(1), Sink(2)))
    assert fields == {"std_out": "/dev/null", "std_err": "all"}


@pytest.mark.parametrize(("job_id", "name"), [("5", "outer"), ("", "inner")])
def test_a_pattern_for_a_name_means_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job_id: str, name: str
) -> None:
    """`srun -J inner -o %x` in a job called outer: as in Slurm, the step's name is not meant."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if job_id:
        monkeypatch.setenv("SLURM_JOB_ID", job_id)
    monkeypatch.setenv("SLURM_JOB_NAME", "outer")
    options = Options("srun")
    options.request |= {"std_out": f"{tmp_path}/%x", "name": "inner"}
    Routes(options, {}, 1, (0, 0), {}).open(StepIo(Sink(1), Sink(2)))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_program_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`$0` of `srun ./prog` and of `srun prog` is the whole path, as in Slurm 22.05."""
    (tmp_path / "prog").touch(0o755)
    (tmp_path / "data").touch(0o644)
    monkeypatch.setenv("PATH", f":.:/nonexistent:{tmp_path}")
    options = Options("srun")
    options.request["work_dir"] = "/work"
    for program, path in (
        ("./prog", "/work/./prog"),
        ("/bin/prog", "/bin/prog"),
        ("prog", f"{tmp_path}/prog"),
        ("data", "data"),
        ("absent", "absent"),
    ):
        assert located(options, program) == path
    options.settings["export"] = "NONE"
    assert located(options, "prog") == "prog"


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_local_file_that_cannot_be_opened_is_named_by_its_stream(
    tmp_path: Path, stream: str
) -> None:
    """`Could not open stdin file: ...`, as Slurm says it."""
    options = Options("srun")
    options.request[f"std_{stream[3:]}"] = str(tmp_path if stream != "stdin" else tmp_path / "no")
    with pytest.raises(OSError, match=f"'{stream} file'$"):
        Routes(options, {}, 1, (0, 0), {}).open(StepIo(Sink(1), Sink(2)))


def options_with(tmp_path: Any, text: str, words: list[str]) -> Options:
    """Return the options of srun after it has looked at a file of programs."""
    path = tmp_path / "mp.conf"
    path.write_text(text)
    options = Options("srun")
    pairs, _ = options.split_words([*words, "--multi-prog", str(path)])
    options.apply_all(pairs, COMMAND_LINE)
    check_programs(options, str(path))
    return options


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 a\n", "Configuration file m invalid, no record for task id 1"),
        ("0 a\n0-1 b\n", "Duplicate record for task 0\nLine 2 of configuration file m invalid"),
        ("x a\n", "Invalid task range specification (x)\nLine 1 of configuration file m invalid"),
        ("0-x a\n", "Invalid task range specification\nLine 1 of configuration file m invalid"),
        ("1-0 a\n", "Invalid task range, 1-0\nLine 1 of configuration file m invalid"),
        ("-1 a\n", "Invalid task id, -1 < 0\nLine 1 of configuration file m invalid"),
        ("0\n1 a\n", "Line 1 of configuration file m invalid"),
        ("0-3 a\n", "Invalid task id, 3 >= ntasks\nLine 1 of configuration file m invalid"),
        (
            "0-99999999999 a",
            "Invalid task id, 99999999999 >= ntasks\nLine 1 of configuration file m invalid",
        ),
        (
            "* a\n0 b\n",
            "Task range specification with asterisk must be last\n"
            "Line 2 of configuration file m invalid",
        ),
    ],
)
def test_bad_programs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """Unassigned, doubled and unreadable tasks, in Slurm's words."""
    monkeypatch.chdir(tmp_path)
    Path("m").write_text(text)
    multi_prog._lines.cache_clear()
    with pytest.raises(MultiProgError) as problem:
        read_programs("m", 2)
    assert str(problem.value) == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* p 'a  b' '%t' %t'x'%o x'y z'w ''", ["a  b", "%t", "1x1", "xy zw", ""]),
        ('* p "a b" "%t" c\\ d e\\\\f \\%t', ['"a', 'b"', '"1"', "c d", "e\\f", "%t"]),
        (" # a comment\n* p a # b\n", ["a", "#", "b"]),
        ("0 p\n* p %o %t\n", ["1", "1"]),
        ("0,,1, p %o\n", ["1"]),
        ("*\tp a\\\nb \\\n  c\n", ["ab", "c"]),
    ],
)
def test_the_words_of_a_program(tmp_path: Path, text: str, words: list[str]) -> None:
    """Single quotes keep `%t` and `%o`, double ones are letters, and `*` counts from task 0."""
    path = tmp_path / "m"
    path.write_text(text)
    programs = read_programs(str(path), 2)
    assert [program["argv"] for program in programs if 1 in program["tasks"]] == [["p", *words]]


def test_arguments_of_the_command_line_follow_those_of_each_program(tmp_path: Path) -> None:
    """`srun --multi-prog m x %t`: as they are, since only the file's words are filled in."""
    path = tmp_path / "m"
    path.write_text("0 p %t\n1 q\n")
    programs = read_programs(str(path), 2, ["x", "%t"])
    assert [program["argv"] for program in programs] == [["p", "0", "x", "%t"], ["q", "x", "%t"]]
