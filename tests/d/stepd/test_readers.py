"""sattach beside the srun of a step: copies of output, further input, and no effect on srun."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.stepd.step_readers import MOST_READERS
from pyslurm_ng.d.stepd.step_streams import Inlet
from pyslurm_ng.wire import step_io
from tests.d.stepd.supervised import Peer, Reader, Srun, Template


@pytest.fixture(scope="module", name="template")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    made = Template(tmp_path_factory.mktemp("readers"))
    yield made
    made.close()


def hear_line(peer: Peer, task: int, line: bytes) -> None:
    """Read until a task has written a line."""
    while line not in peer.out.get((task, step_io.STDOUT), b""):
        assert peer.pump()


def send_ends_without_number(peer: Peer) -> None:
    """Say a million times that no more input comes."""
    for _ in range(100):
        peer.connection.sendall(step_io.pack(step_io.STDIN, step_io.ALL) * 10_000)


def test_a_reader_gets_what_is_written_from_now_on(template: Template) -> None:
    """Each stream of each task, the ends of tasks, and that nothing more comes."""
    srun = Srun(template, ["sh", "-c", "echo first; read line; echo $line; echo e >&2; exit 3"])
    hear_line(srun, 0, b"first\n")
    hear_line(srun, 1, b"first\n")
    reader = Reader(srun.step)
    srun.send(step_io.STDIN, body=b"second\n")
    reader.read_all()
    srun.finish()
    for task in (0, 1):
        assert reader.out[task, step_io.STDOUT] == b"second\n"
        assert reader.out[task, step_io.STDERR] == b"e\n"
        assert srun.out[task, step_io.STDOUT] == b"first\nsecond\n"
    assert reader.exits == srun.exits == {0: 3 << 8, 1: 3 << 8}
    assert reader.done and reader.hello["node"] == "n1"


def test_a_reader_that_does_not_read_harms_nobody(template: Template) -> None:
    """srun gets every byte and the step ends; the reader is told how much it missed."""
    script = "read go; head -c 30000000 /dev/zero; read go; echo over"
    srun = Srun(template, ["sh", "-c", script], count=1)
    reader = Reader(srun.step)
    srun.send(step_io.STDIN, body=b"go\n")
    while len(srun.out.get((0, step_io.STDOUT), b"")) < 30_000_000:
        assert srun.pump()
    while not reader.notices:
        if not reader.out or len(reader.out[0, step_io.STDOUT]) < 30_000_000:
            reader.connection.settimeout(0.2)
            try:
                reader.pump()
            except TimeoutError:
                break
    reader.connection.settimeout(30)
    srun.send(step_io.STDIN, body=b"go\n")
    reader.read_all()
    srun.finish()
    assert srun.out[0, step_io.STDOUT] == bytes(30_000_000) + b"over\n"
    got = len(reader.out[0, step_io.STDOUT])
    assert got < 30_000_000
    left_out = 30_000_000 + len(b"over\n") - got
    assert f"sattach reads too slowly: {left_out} bytes of output were left out" in str(
        reader.notices
    )
    assert bytes(reader.out[0, step_io.STDOUT]).endswith(b"over\n")


def test_input_of_a_reader_reaches_the_tasks_beside_sruns(template: Template) -> None:
    """Megabytes of both arrive complete, so srun's credit counts srun's bytes only."""
    srun = Srun(template, ["cat"], count=1)
    reader = Reader(srun.step)
    ours, theirs = b"a" * (2 << 20), b"b" * (2 << 20)

    def feed(peer: Peer, payload: bytes) -> None:
        at = 0
        while at < len(payload):
            while peer.credit <= 0:
                turn.wait(0.01)
            part = payload[at : at + min(65536, peer.credit)]
            peer.credit -= len(part)
            peer.send(step_io.STDIN, body=part)
            at += len(part)

    turn = threading.Event()
    threads = [
        threading.Thread(target=feed, args=(srun, ours)),
        threading.Thread(target=feed, args=(reader, theirs)),
    ]
    echo = threading.Thread(target=reader.read_all)
    for thread in (*threads, echo):
        thread.start()
    while len(srun.out.get((0, step_io.STDOUT), b"")) < len(ours) + len(theirs):
        assert srun.pump()
    for thread in threads:
        thread.join()
    srun.send(step_io.STDIN)
    srun.finish()
    echo.join()
    text = srun.out[0, step_io.STDOUT]
    assert (text.count(b"a"), text.count(b"b")) == (len(ours), len(theirs))
    assert srun.exits == {0: 0}


def test_small_pieces_of_input_come_whole_and_ends_without_number_end_it(
    template: Template, tmp_path: Path
) -> None:
    """A task that reads late gets all of them; what a reader may keep waiting is bounded."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    srun = Srun(template, ["sh", "-c", f"echo here; read go < {gate}; exec cat"], count=1)
    hear_line(srun, 0, b"here\n")
    reader, flooder = Reader(srun.step), Reader(srun.step)
    reader.send(step_io.STDIN, body=b"x" * 200_000)  # more than a pipe takes
    reader.connection.sendall(step_io.pack(step_io.STDIN, step_io.ALL, b"y") * 50_000)
    flooder.send(step_io.STDIN, body=b"x" * 200_000)
    with pytest.raises(ConnectionError):
        send_ends_without_number(flooder)
    gate.write_text("go\n")
    while srun.out.get((0, step_io.STDOUT), b"").count(b"y") < 50_000:
        assert srun.pump()
    srun.send(step_io.STDIN)
    reader.read_all()
    srun.finish()
    flooder.close()
    assert srun.exits == {0: 0}


def test_the_end_of_a_readers_input_is_the_tasks(template: Template) -> None:
    """As in Slurm: only that of the tasks that the reader writes to."""
    srun = Srun(template, ["sh", "-c", "cat; echo over"])
    reader = Reader(srun.step)
    reader.send(step_io.STDIN, 1, b"hello\n")
    reader.send(step_io.STDIN, 1)
    hear_line(srun, 1, b"hello\nover\n")
    assert (0, step_io.STDOUT) not in srun.out
    srun.send(step_io.STDIN)
    srun.finish()
    reader.read_all()
    assert srun.out[0, step_io.STDOUT] == b"over\n"


def test_a_reader_may_not_signal_or_end_the_step(template: Template) -> None:
    """Signals end sattach, not the tasks; only srun's frames are obeyed."""
    srun = Srun(template, ["sh", "-c", "read line; echo $line"], count=1)
    reader = Reader(srun.step)
    reader.send(step_io.TERMINATE, body=b"FORCED")
    reader.connection.sendall(step_io.pack_number(step_io.SIGNAL, step_io.ALL, 9))
    reader.send(step_io.STDIN, body=b"alive\n")
    reader.read_all()
    srun.finish()
    assert srun.out[0, step_io.STDOUT] == b"alive\n"
    assert srun.exits == {0: 0}


def test_a_process_without_the_key_gets_nothing(template: Template) -> None:
    srun = Srun(template, ["sh", "-c", "read line; echo $line"], count=1)
    stranger = Reader(srun.step, is_known=False)
    stranger.send(step_io.STDIN, body=b"stolen\n")
    stranger.read_all()
    srun.send(step_io.STDIN, body=b"own\n")
    srun.finish()
    assert set(stranger.hello) == {"key", "node", "node_index", "pid"}
    assert stranger.out == {}
    assert srun.out[0, step_io.STDOUT] == b"own\n"


def test_only_so_many_readers_are_served(template: Template) -> None:
    """Each may keep a megabyte of the supervisor's memory; one that goes makes room."""
    srun = Srun(template, ["sh", "-c", "read line"], count=1)
    readers = [Reader(srun.step) for _ in range(MOST_READERS)]
    assert Reader(srun.step).problem == "8 readers are attached to this step already"
    gone = readers.pop()
    gone.close()
    while (late := Reader(srun.step)).problem:
        pass
    srun.send(step_io.STDIN)
    for reader in (*readers, late):
        reader.read_all()
    srun.finish()
    assert late.done


def test_only_bytes_of_srun_count_as_taken() -> None:
    """srun would otherwise send more than the step keeps, and lose its step."""
    reading, writing = os.pipe()
    try:
        inlet = Inlet(PollLoop(), writing, lambda: None, is_terminal=False)
        inlet.put_more(b"x" * 1000)
        assert inlet.taken == 0
        inlet.put(b"y" * 10)
        assert inlet.taken == 10
        inlet.put_more(bytes(1 << 20))
        inlet.put(b"z" * 10)
        assert inlet.is_busy and inlet.taken == 10
        inlet.close()
        assert not inlet.is_busy
    finally:
        os.close(reading)
