"""Frames between srun and the step supervisors: streams, signals, exits on one connection.

Each node's stepd connects to srun's port and says HELLO with the key from LaunchStep; then both
send frames. Nothing here is heavy to import: srun and stepd both start fast.

Frame: 12 bytes of head, big-endian: type (u8), flags (u8, 0), reserved (u16), task (u32, global
task id or ALL), length (u32); then the body.

Flow control. Output: stepd reads a task's pipe only while little is unsent, so a slow reader
slows its tasks and nothing is lost. Input: srun may send as many stdin bytes as it has credit;
a connection begins with `STDIN_WINDOW` for its node and gets CREDIT frames as tasks have taken
bytes. For input to ALL the slowest task counts; a task that closed its stdin does not.

Who speaks what:

| type | from | body |
| --- | --- | --- |
| HELLO | stepd | msgpack map: key, node, node_index, tasks (global ids), pid |
| STARTED | stepd | msgpack map: `pids`, a map by global task id; once, when every task here runs |
| FAILED | stepd | msgpack map: code, text; a task or the step could not start (EXIT follows) |
| STDOUT, STDERR | stepd | bytes; empty at the end of that task's stream |
| STDIN | srun | bytes for `task` or ALL; empty at the end of input |
| CREDIT | stepd | u32: so many more bytes of STDIN |
| EXIT | stepd | u32 wait status, u32 flags (EXIT_*) |
| NOTICE | stepd | text for srun's stderr: `[time] error: *** STEP 5.0 ON n1 CANCELLED ... ***` |
| DONE | stepd | empty: every task ended, all output is sent; stepd closes next |
| SIGNAL | srun | u32 signal number, for `task` or ALL |
| TERMINATE | srun | text: why, for the notice (`TASK FAILURE`); TERM now, KILL after KillWait |
| WINDOW | srun | u16 rows, u16 columns of the terminal |
| PING, PONG | both | empty |
"""

import struct

HEAD = struct.Struct(">BBHII")
HEAD_BYTES = HEAD.size
ALL = 0xFFFFFFFF
MAX_BODY_BYTES = 1 << 20
CHUNK_BYTES = 65536
STDIN_WINDOW = 262144

HELLO = 1
STDOUT = 2
STDERR = 3
STDIN = 4
CREDIT = 5
STARTED = 6
EXIT = 7
SIGNAL = 8
NOTICE = 9
WINDOW = 10
DONE = 11
PING = 12
PONG = 13
TERMINATE = 14
FAILED = 15

EXIT_OUT_OF_MEMORY, EXIT_ENDS_STEP = 1, 2
"""Bits of an EXIT frame's second number: how the task ended, and that all others are to end."""


class BadStepFrame(Exception):
    """What came is not a frame of ours; the connection is of no use any more."""


def pack(kind: int, task: int = ALL, body: bytes = b"") -> bytes:
    """Return one frame."""
    return HEAD.pack(kind, 0, 0, task, len(body)) + body


def pack_number(kind: int, task: int, *numbers: int) -> bytes:
    """Return a frame whose body is 32-bit numbers: SIGNAL, CREDIT, EXIT."""
    return pack(kind, task, struct.pack(f">{len(numbers)}I", *numbers))


def pack_window(rows: int, columns: int) -> bytes:
    """Return a WINDOW frame."""
    return pack(WINDOW, 0, struct.pack(">HH", rows, columns))


def numbers(body: bytes) -> "tuple[int, ...]":
    """Return the 32-bit numbers of a body.

    Raises:
        BadStepFrame: its length is not a multiple of four.
    """
    if len(body) % 4:
        raise BadStepFrame(f"{len(body)} bytes are no 32-bit numbers")
    return struct.unpack(f">{len(body) // 4}I", body)


class Frames:
    """Takes bytes as they come and gives whole frames."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = MAX_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: "bytes | bytearray | memoryview") -> "list[tuple[int, int, bytes]]":
        """Return the frames (type, task, body) that `data` completes.

        Raises:
            BadStepFrame: a body longer than the limit was announced, or a type we do not know.
        """
        buffer = self._buffer
        buffer += data
        frames = []
        at = 0
        have = len(buffer)
        while have - at >= HEAD_BYTES:
            kind, _, _, task, length = HEAD.unpack_from(buffer, at)
            if length > self._limit:
                raise BadStepFrame(f"a body of {length} bytes; {self._limit} are allowed")
            if not HELLO <= kind <= FAILED:
                raise BadStepFrame(f"unknown frame type {kind}")
            end = at + HEAD_BYTES + length
            if end > have:
                break
            frames.append((kind, task, bytes(buffer[at + HEAD_BYTES : end])))
            at = end
        if at:
            del buffer[:at]
        return frames
