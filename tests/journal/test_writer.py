"""Group commit: in order, durable before it is said, final when the disk fails."""

from __future__ import annotations

import errno
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyslurm_ng.journal.checkpoint import (
    ARCHIVE,
    ARCHIVE_DAYS,
    remove_outdated,
    write_checkpoint,
)
from pyslurm_ng.journal.follow import CursorLost, Follow
from pyslurm_ng.journal.lock import StateLock
from pyslurm_ng.journal.reserve import Reserve, is_full
from pyslurm_ng.journal.segment import (
    HEADER_BYTES,
    JournalDamage,
    JournalError,
    SegmentReader,
)
from tests.journal.journal_room import Room

ROOT = Path(__file__).resolve().parents[2]


def test_sequences_are_given_at_once_and_durable_in_order(room: Room) -> None:
    """The loop never waits for the disk; the disk reports rising numbers, the last one too."""
    writer = room.start()
    assert [writer.append(b"%d" % number) for number in range(500)] == list(range(1, 501))
    writer.close()
    assert writer.durable == 500
    assert room.durable == sorted(set(room.durable))
    assert writer.groups <= len(room.durable) < 500
    assert room.recover()[1] == [b"%d" % number for number in range(500)]


def test_a_record_is_in_the_file_when_it_is_called_durable(room: Room) -> None:
    """At each call of on_durable a second reader finds everything up to that number."""
    seen: list[bool] = []

    def look(sequence: int) -> None:
        with SegmentReader(room.segments()[-1]) as reader:
            seen.append([frame.sequence for frame in reader][-1] >= sequence)

    writer = room.start()
    writer._on_durable = look
    for number in range(50):
        writer.append(b"%d" % number)
    writer.close()
    assert seen
    assert all(seen)


def test_a_closed_segment_has_its_true_length(room: Room) -> None:
    """The zeroed rest is given back, so small clusters keep small directories."""
    room.write([b"x" * 100])
    assert room.segments()[0].stat().st_size < 400


def test_two_controllers_cannot_begin_the_same_epoch(room: Room) -> None:
    """The segment's name is created exclusively."""
    first, _ = room.recover()
    writer = room.start()
    name = room.segments()[0]
    writer.close()
    assert first.next_epoch == 1
    recovery, _ = room.recover()
    assert recovery.next_epoch == 2
    assert name.name.startswith("00000001-")
    late = Room(room.layout.state)
    late.recover = lambda **_: (first, [])  # type: ignore[method-assign]
    with pytest.raises(FileExistsError):
        late.start()


def test_a_batch_too_large_is_refused_before_it_is_numbered(room: Room) -> None:
    """Its caller gets the error, and the journal goes on."""
    writer = room.start()

    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 40

    with pytest.raises(ValueError, match="exceeds"):
        writer.append(Huge())
    assert writer.append(b"next") == 1
    writer.close()


def test_a_failed_sync_is_final(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: one error line, nothing more is accepted, no second sync on that descriptor."""
    writer = room.start()
    calls: list[int] = []

    def failing(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", failing)
    writer.append(b"lost")
    assert room.is_told.wait(30)
    writer.close()
    assert "Input/output error" in room.fatal[0]
    assert "records up to 0 are safe" in room.fatal[0]
    assert len(calls) == 1
    assert room.durable == []
    with pytest.raises(ValueError, match="closed"):
        writer.append(b"more")


CHILD = """
import os, sys, time
sys.path[:0] = [{root!r}, {root!r} + "/src"]
from pathlib import Path
from tests.journal.journal_room import Room
room = Room(Path(sys.argv[1]))
writer = room.start(segment_bytes=4000)
told = 0
def durable(sequence):
    os.write(1, b"%d\\n" % sequence)
def fatal(why):
    os.write(2, why.encode() + b"\\n")
    os._exit(1)
writer._on_durable, writer._on_fatal = durable, fatal
number = 0
while number < {count}:
    number += 1
    sequence = writer.append(b"payload of record %d " % number * 3)
    while writer.appended - writer.durable > 20:
        time.sleep(0.0002)  # spinning would keep the writer's thread from running
writer.close()
"""


def child_code(count: int) -> str:
    return textwrap.dedent(CHILD.format(root=str(ROOT), count=count))


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_writer_loses_nothing_it_called_durable(room: Room, seed: int) -> None:
    """RELIABILITY 1, the journal's part: kill -9 in a stream, then read what was promised."""
    process = subprocess.Popen(
        [sys.executable, "-c", child_code(10**9), str(room.layout.state)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    promised = 0
    for _ in range(random.Random(seed).randrange(1, 120)):
        promised = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split(b"\n")
    process.stdout.close()
    process.wait()
    promised = max([promised, *(int(line) for line in rest[:-1] if line)])
    recovery, payloads = room.recover()
    assert len(payloads) >= promised
    assert recovery.position.sequence == len(payloads)
    for number, payload in enumerate(payloads, 1):
        assert payload == b"payload of record %d " % number * 3


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "pwrite64"])
def test_an_io_error_from_the_kernel_stops_the_process(room: Room, call: str) -> None:
    """RELIABILITY 7: EIO at the n-th call ends the process with a clear line; restart recovers."""
    trace = room.layout.state / "trace"
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=fdatasync,fsync,pwrite64"]
    command += ["-e", f"inject={call}:error=EIO:when=8"]
    ran = subprocess.run(
        [*command, sys.executable, "-c", child_code(4000), str(room.layout.state)],
        capture_output=True,
        check=False,
    )
    if b"PTRACE" in ran.stderr or b"ptrace" in ran.stderr:
        pytest.skip("ptrace is not permitted here")
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.decode().count("\n") == 1
    assert "Input/output error" in ran.stderr.decode()
    lines = trace.read_text().splitlines()
    failed = next(index for index, line in enumerate(lines) if "INJECTED" in line)
    descriptor = lines[failed].split("(")[1].split(",")[0].split(")")[0]
    assert not [line for line in lines[failed + 1 :] if f"sync({descriptor})" in line]
    trace.unlink()
    promised = max([0, *map(int, ran.stdout.split())])
    assert len(room.recover()[1]) >= promised


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Room]:
    """A file system of 192 KiB, as in RELIABILITY 6."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    directory = tmp_path / "tiny"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(directory)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not permitted here")
    try:
        yield Room(directory)
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(file: io.FileIO) -> OSError:
    try:
        while True:
            file.write(b"b" * 4096)
    except OSError as error:
        return error


@pytest.mark.root
def test_a_full_disk_is_noticed_before_the_reserve_is_used(tiny_disk: Room) -> None:
    """Submissions stop at the flag, running work goes on in the reserve, and space ends it all.

    The program that has filled the disk goes on: it must not get the reserve.
    """
    writer = tiny_disk.start()
    ballast = tiny_disk.layout.state / "ballast"
    ballast.write_bytes(bytes(100 << 10))
    while not writer.space_low:
        sequence = writer.append(b"s" * 2000)
        while writer.durable < sequence:
            pass
    assert not writer.is_stalled
    reserve = tiny_disk.layout.reserve
    assert reserve.stat().st_blocks > 0
    in_reserve = 0
    with ballast.open("ab", buffering=0) as file:
        while not writer.is_stalled:
            assert is_full(fill(file))
            sequence = writer.append(b"e" * 2000)
            while writer.durable < sequence and not writer.is_stalled:
                pass
            in_reserve += not reserve.exists()
    assert in_reserve > 4
    promised = writer.durable
    assert promised < sequence
    ballast.unlink()
    while writer.durable < sequence or writer.space_low:
        pass
    assert not writer.is_stalled
    assert reserve.stat().st_blocks > 0
    writer.close()
    assert len(tiny_disk.recover()[1]) == sequence
    assert tiny_disk.fatal == []


@pytest.mark.parametrize("step", ["rename", "sync_directory", "close"])
def test_killed_while_the_reserve_becomes_a_segment(
    room: Room, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """RELIABILITY 10: nothing that was durable is lost, and the next start has a reserve again."""
    writer = room.start()
    sequence = writer.append(b"kept")
    while writer.durable < sequence:
        pass
    used: list[str] = []

    class Killed(BaseException):
        pass

    def die(*words: object, **more: object) -> None:
        used.append(step)
        raise Killed

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("pyslurm_ng.journal.writer.disk.write_fully", _but_heads(full))
        if step == "sync_directory":
            patch.setattr("pyslurm_ng.journal.reserve.disk.sync_directory", die)
        else:
            patch.setattr(os, step, die)
        patch.setattr(threading, "excepthook", lambda args: None)
        writer.append(b"never said to be durable" * 100_000)
        while not room.fatal:
            room.is_told.wait(1)
    assert used == [step]
    assert room.durable == [sequence]
    assert room.recover()[1] == [b"kept"]
    again = room.start()
    assert room.layout.reserve.stat().st_size >= Reserve(room.layout.reserve).size
    again.append(b"more")
    again.close()
    assert room.recover()[1] == [b"kept", b"more"]


def _but_heads(refuse: Callable[..., None]) -> Callable[[int, bytes, int], None]:
    """Return a write that fails, but for what is as short as a segment's header."""

    def write(fd: int, content: bytes, offset: int) -> None:
        if len(content) > HEADER_BYTES:
            refuse()
        os.pwrite(fd, content, offset)

    return write


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_more_writes_ends_the_process(
    room: Room, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """RELIABILITY 7: a file system that was mounted read-only is not a full one. Nothing waits."""
    writer = room.start()

    def refuse(*words: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("pyslurm_ng.journal.writer.disk.write_fully", refuse)
    writer.append(b"x")
    assert room.is_told.wait(60)
    assert os.strerror(number) in room.fatal[0]
    assert "records up to 0 are safe" in room.fatal[0]
    assert room.durable == []


def test_a_file_size_limit_is_waited_for(room: Room) -> None:
    """The same without root: RLIMIT_FSIZE gives EFBIG until it is raised."""
    writer = room.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        sequence = writer.append(b"x" * 4000)
        while not writer.is_stalled:
            pass
        assert writer.space_low
        assert writer.durable == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    while writer.durable < sequence:
        pass
    writer.close()
    assert room.recover()[1] == [b"x" * 4000]


def test_the_reserve_is_a_part_of_a_small_file_system(tmp_path: Path) -> None:
    """Low is reported while the reserve is whole, and longer once it has been used."""
    reserve = Reserve(tmp_path / "reserve", 8192)
    assert not reserve.is_low(20000)
    assert reserve.is_low(8192)
    assert reserve.give_up()
    assert not reserve.give_up()
    assert reserve.is_low(20000)
    assert not reserve.is_low(40000)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 8192
    reserve.close()


def test_one_controller_per_state_directory(tmp_path: Path) -> None:
    """The second one names the process that holds the lock. The lock ends with its holder."""
    lock = StateLock(tmp_path)
    with pytest.raises(JournalError, match=rf"in use by another slurmctld \(pid {os.getpid()} on"):
        StateLock(tmp_path)
    lock.release()
    StateLock(tmp_path).release()


def test_a_follower_gets_each_durable_batch_once(room: Room) -> None:
    """Backlog from files of several segments and epochs, then what comes, never more."""
    room.write([b"%d" % number for number in range(20)], segment_bytes=300)
    writer = room.start(segment_bytes=300)
    for number in range(20, 40):
        writer.append(b"%d" % number)
    while writer.durable < 40:
        pass
    follow = Follow(room.layout.journal, 7)
    got = []
    while frames := follow.read(33, max_bytes=100):
        got += frames
    assert [frame.sequence for frame in got] == list(range(8, 34))
    assert follow.read(33) == []
    got += follow.read(40)
    while follow.sequence < 40:
        got += follow.read(40)
    assert [frame.payload for frame in got] == [b"%d" % number for number in range(7, 40)]
    sequence = writer.append(b"live")
    while writer.durable < sequence:
        pass
    assert [frame.payload for frame in follow.read(sequence)] == [b"live"]
    follow.close()
    writer.close()


def test_a_follower_behind_the_oldest_record_gets_an_error(room: Room) -> None:
    """Removed records are not skipped in silence."""
    room.write([b"%d" % number for number in range(20)], segment_bytes=300)
    room.segments()[0].unlink()
    with pytest.raises(CursorLost, match="record 1 is no longer kept"):
        Follow(room.layout.journal, 0).read(20)


def test_a_follower_stops_at_damage(room: Room) -> None:
    """A durable record that cannot be read is an error, not an end."""
    room.write([b"%d" % number for number in range(20)])
    path = room.segments()[0]
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    follow = Follow(room.layout.journal, 0)
    assert len(follow.read(20)) == 19
    with pytest.raises(JournalDamage):
        follow.read(20)
    follow.close()


def test_segments_go_behind_the_older_checkpoint_and_the_slowest_follower(room: Room) -> None:
    """Neither a damaged newest checkpoint nor a database that was away for hours loses records."""
    room.write([b"record %d" % number for number in range(40)], segment_bytes=500)
    key, positions = b"", {}
    for path in room.segments():
        with SegmentReader(path) as reader:
            key = reader.header.journal_id
            positions.update({frame.sequence: frame.position for frame in reader})

    def removed(keep_after: int) -> int:
        before = len(room.segments())
        remove_outdated(room.layout.journal, room.layout.checkpoints, keep_after)
        return before - len(room.segments())

    write_checkpoint(room.layout.checkpoints, key, positions[35], b"")
    assert removed(100) == 0
    write_checkpoint(room.layout.checkpoints, key, positions[39], b"")
    assert removed(0) == 0
    assert removed(20) > 0
    assert Follow(room.layout.journal, 20).read(40)[0].sequence == 21
    write_checkpoint(room.layout.checkpoints, key, positions[40], b"")
    assert removed(100) > 0
    assert len(list(room.layout.checkpoints.glob("*.checkpoint"))) == 2
    assert Follow(room.layout.journal, 39).read(40)[0].sequence == 40
    assert room.recover()[0].position.sequence == 40


def test_an_archive_keeps_segments_that_are_no_longer_needed(room: Room) -> None:
    """They are moved there, with a checkpoint that they continue.

    Segments that are too old are removed.
    """
    room.write([b"record %d" % number for number in range(40)], segment_bytes=500)
    key, positions, records = b"", {}, {}
    for path in room.segments():
        with SegmentReader(path) as reader:
            key = reader.header.journal_id
            positions.update({frame.sequence: frame.position for frame in reader})
        records[path.name] = path.read_bytes()
    archive = room.layout.state / ARCHIVE
    archive.mkdir()
    for sequence in (20, 30, 40):
        write_checkpoint(room.layout.checkpoints, key, positions[sequence], b"")
    remove_outdated(room.layout.journal, room.layout.checkpoints, 100)
    names = {path.name: path for path in archive.glob("*.journal")}
    kept = {path.name for path in room.segments()}
    assert names.keys() | kept == records.keys() and names.keys().isdisjoint(kept)
    assert all(path.read_bytes() == records[name] for name, path in names.items())
    assert len(list(archive.glob("*.checkpoint"))) == 1
    old_s = (ARCHIVE_DAYS + 1) * 86_400
    first = min(names.values())
    os.utime(first, (first.stat().st_mtime - old_s,) * 2)
    write_checkpoint(room.layout.checkpoints, key, positions[39], b"")
    remove_outdated(room.layout.journal, room.layout.checkpoints, 100)
    assert not first.exists()
    assert len(list(archive.glob("*.journal"))) >= len(names) - 1


def test_many_threads_of_patience_end(room: Room) -> None:
    """Closing an idle writer does not hang."""
    before = threading.active_count()
    room.start().close()
    assert threading.active_count() == before
