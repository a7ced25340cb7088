"""A step's file on the node: what it is to do, whose process does it, how it ended.

Records are appended, each a 4-byte length and a msgpack value, so that three writers (slurmd, the
template, the supervisor) need no agreement but their order. The file outlives all of them: a
restarted slurmd finds every step by it. It does not have to outlive the machine, hence no fsync.

1. `spec`, by slurmd, which creates the file exclusively: nobody starts the same attempt twice.
2. `pid`, by the template right after fork: pid, start time in ticks since boot, boot id.
3. `tasks`, by the supervisor: pids by global task id.
4. `end`, by the supervisor, its last word.
"""

import os
import struct

from pyslurm_ng._records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = struct.Struct(">I")
LARGEST = 256 << 20


class StepRecordError(Exception):
    """The file is there and cannot be understood; the text names it."""


def file_name(job_id: int, step_id: int, attempt: int) -> str:
    """Return a step's file name; the numbers can be read back by `parse_name`."""
    return f"{job_id}.{step_id}.{attempt}"


def parse_name(name: str) -> "tuple[int, int, int] | None":
    """Return job, step and attempt of a file name, None for another file."""
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


def create(path: str, spec: "dict[str, Any]") -> None:
    """Begin a step's file.

    Raises:
        FileExistsError: this attempt was begun before.
        OSError: no space, no directory.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        _write(descriptor, {"kind": "spec", **spec})
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def append(path: str, record: "dict[str, Any]") -> None:
    """Add a record; raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    try:
        _write(descriptor, record)
    finally:
        os.close(descriptor)


def _write(descriptor: int, record: "dict[str, Any]") -> None:
    body = pack(record)
    rest = memoryview(_LENGTH.pack(len(body)) + body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read(path: str) -> "dict[str, dict[str, Any]]":
    """Return the records by kind; a half-written last one is left out.

    Raises:
        StepRecordError: not a step's file.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    records: dict[str, dict[str, Any]] = {}
    at = 0
    while at + 4 <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
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


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().decode().strip()


def start_ticks(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def is_alive(record: "dict[str, Any] | None") -> bool:
    """Return whether the process of a `pid` record still runs: the same one, on the same boot."""
    if not record or record["boot"] != boot_id():
        return False
    return bool(record["start"] == start_ticks(record["pid"]) != 0)
