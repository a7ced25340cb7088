"""A step's file on the node: its specification, its supervisor's process, its end.

Records are appended, each a 4-byte length and a msgpack value, so that three writers (slurmd, the
template, the supervisor) need no agreement but their order. The file outlives all of them: a
restarted slurmd finds every step by it. It need not outlive the machine, so it is not synced.

1. `spec`, by slurmd, which creates the file exclusively: so the same attempt is not started twice;
   with the boot id, as a step that has nothing else may be begun by a restarted slurmd.
2. `pid`, by the template right after fork: pid, start time in ticks since boot, boot id; reaper
   and reaper_start are the template's own.
3. `tasks`, by the supervisor: pids by global task id.
4. `end`, by the supervisor, its last word.
5. `swept`, by the template, if the supervisor died without it: none of its processes is left.
   `used` is what they had used: user and system time in microseconds, and the largest in KiB.
6. `reported`, by slurmd: the controller knows the end.

A file system that is full must not turn a job that ended into one that was lost, so the file is
created with some unused room, a length with its highest bit set. A record that can no longer be
appended is written there.
"""

import os
import struct

from pyslurm_ng.daemon.process_tree import read_proc
from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LENGTH = struct.Struct(">I")
LARGEST = 256 << 20
_UNUSED = 1 << 31
_ROOM_BYTES = 2048
_TASK_ROOM_BYTES = 512  # for the usage of one task
_LARGEST_ROOM = 256 << 10


class StepRecordError(Exception):
    """The file is there and cannot be understood; the text names it."""


def file_name(job_id: int, step_id: int, attempt: int) -> str:
    """Return a step's file name; the numbers can be read back by `parse_name`."""
    return f"{job_id}.{step_id}.{attempt}"


def parse_name(name: str) -> "tuple[int, int, int] | None":
    """Return job, step and attempt of a file name, None for another file."""
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def create(path: str, spec: "Mapping[str, Any]") -> None:
    """Begin a step's file.

    Raises:
        FileExistsError: this attempt was begun before.
        OSError: no space, no directory.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        room = min(_LARGEST_ROOM, _ROOM_BYTES + _TASK_ROOM_BYTES * len(spec.get("tasks", ())))
        _append(descriptor, _framed({"kind": "spec", **spec}) + _unused(room))
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def append(path: str, record: "dict[str, Any]") -> None:
    """Add a record, into the room kept for it if the file can no longer grow; raises OSError."""
    framed = _framed(record)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _append(descriptor, framed)
    except OSError:
        if not _use_room(path, framed):
            raise
    finally:
        os.close(descriptor)


def _append(descriptor: int, framed: bytes) -> None:
    written = 0
    try:
        while written < len(framed):
            written += os.write(descriptor, framed[written:])
    except OSError:
        if written:
            # Half a record would hide all that is appended behind it later.
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise


def _use_room(path: str, framed: bytes) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return _overwrite(descriptor, framed)
    finally:
        os.close(descriptor)


def _overwrite(descriptor: int, framed: bytes) -> bool:
    """Write a record over unused room; return whether there was enough of it."""
    at = 0
    while True:
        head = os.pread(descriptor, 4, at)
        if len(head) < 4:
            return False
        (length,) = _LENGTH.unpack(head)
        room = 4 + (length & ~_UNUSED)
        free_bytes = room - len(framed)
        if length & _UNUSED and (free_bytes == 0 or free_bytes >= 4):
            # The head of what is left first: the record counts from the write of its own head on.
            if free_bytes:
                os.pwrite(descriptor, _LENGTH.pack(free_bytes - 4 | _UNUSED), at + len(framed))
            os.pwrite(descriptor, framed[4:], at + 4)
            os.pwrite(descriptor, framed[:4], at)
            return True
        at += room


def _framed(record: "dict[str, Any]") -> bytes:
    body = pack(record)
    return bytes(_LENGTH.pack(len(body)) + body)


def _unused(room: int) -> bytes:
    return bytes(_LENGTH.pack(room | _UNUSED) + bytes(room))


def read(path: str) -> "dict[str, Any]":
    """Return the records by kind; a half-written last one is left out.

    Raises:
        StepRecordError: not a step's file.
        OSError: it cannot be read.
    """
    return _records(path, _content(path))


def read_end(path: str) -> "dict[str, Any]":
    """Return the records without the spec if there is an end; if there is none, as `read`.

    Most steps end well, and their spec is most of the file.
    """
    content = _content(path)
    if len(content) >= 4:
        (length,) = _LENGTH.unpack_from(content)
        records = _records(path, content, 4 + length)
        if "end" in records:
            return records
    return _records(path, content)


def _records(path: str, content: bytes, at: int = 0) -> "dict[str, Any]":
    """Return the records by kind that begin at a position or behind it."""
    records: dict[str, dict[str, Any]] = {}
    while at + 4 <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        if length & _UNUSED:
            at += 4 + (length & ~_UNUSED)
            continue
        end = at + 4 + length
        if length > LARGEST or end > len(content):
            break
        try:
            record = unpack(content[at + 4 : end])
            records[record["kind"]] = record
        except (ValueError, TypeError, KeyError) as error:
            raise StepRecordError(f"{path}: damaged at byte {at}: {error}") from None
        at = end
    return records


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        room = os.fstat(descriptor).st_size + 1
        parts = [os.read(descriptor, room)]
        while len(parts[-1]) == room:
            room = 1 << 20
            parts.append(os.read(descriptor, room))
    finally:
        os.close(descriptor)
    return b"".join(parts)


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return read_proc("/proc/sys/kernel/random/boot_id").decode().strip()


def start_ticks(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 when there is none."""
    try:
        stat = read_proc(f"/proc/{pid}/stat")
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def is_alive(record: "dict[str, Any] | None") -> bool:
    """Return whether the process of a `pid` record still runs: the same one, on the same boot."""
    if not record or record["boot"] != boot_id():
        return False
    return bool(record["start"] == start_ticks(record["pid"]) != 0)
