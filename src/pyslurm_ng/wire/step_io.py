"""Frames between srun and the step supervisors: streams, signals, exits on one connection.

Each node's stepd connects to srun's port and says HELLO with the first half of the key from
LaunchStep, srun answers WELCOME with the second, then both send frames. Any process can connect to
srun's port, and after srun's death any process can open that port. So neither side sends or accepts
anything before it has seen the other's half. Nothing here is heavy to import: srun and stepd start
fast.

Frame: 12 bytes of head, big-endian: type (u8), flags (u8, 0), reserved (u16), task (u32, global
task id or ALL), length (u32); then the body.

Flow control. Output: stepd reads a task's pipe only while little is unsent, so a slow reader
slows its tasks and nothing is lost. Input: srun may send as many stdin bytes as it has credit;
a connection begins with `STDIN_WINDOW` for its node and gets CREDIT frames as tasks have taken
bytes. For input to ALL the slowest task counts; a task that closed its stdin does not.

Who speaks what:

| type | from | body |
| --- | --- | --- |
| HELLO | stepd | msgpack map: key (its first half), node, node_index, pid |
| WELCOME | srun | the second half of the key; its first frame |
| STARTED | stepd | msgpack map: `pids`, a map by global task id; once, when every task here runs |
| FAILED | stepd | msgpack map: code, text; a task or the step could not start (EXIT follows) |
| STDOUT, STDERR | stepd | bytes; empty at the end of that task's stream |
| STDIN | srun | bytes for `task` or ALL; empty at the end of input |
| CREDIT | stepd | u32: so many more bytes of STDIN |
| EXIT | stepd | u32 wait status, u32 flags (EXIT_*) |
| NOTICE | stepd | text for srun's stderr: `[time] error: *** STEP 5.0 ON n1 CANCELLED ... ***` |
| DONE | stepd | empty: every task ended, all output is sent; stepd closes next |
| SIGNAL | srun | u32 signal number, for `task` or ALL |
| TERMINATE | srun | text: why, for the notice (`TASK FAILURE`); TERM now, KILL after KillWait; |
|           |      | `FORCED`: KILL now |
| WINDOW | srun | u16 rows, u16 columns of the terminal |
| MPI | both | msgpack map: what ranks exchange, see `wire.mpi_frames` |
| X11 | both | bytes of the X11 connection `task`; empty at its end, see `wire.tunnel` |
| X11_CREDIT | both | u32: so many more bytes of that connection |
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
WELCOME = 16
MPI = 17
X11 = 18
X11_CREDIT = 19

FORCED = "SIGNAL Killed"
"""Why a step ends whose user does not want to wait for it."""

SRUN, STEPD, BOTH = "srun", "stepd", "both"

_TEXT_BYTES = 65536
_HELLO_BYTES = 4096
_MOST_KEY_BYTES = 64
_U32 = (0, 0xFFFFFFFF)
FRAMES: "dict[int, tuple[str, str, int, int, tuple[tuple[int, int], ...]]]" = {
    HELLO: ("HELLO", STEPD, 1, _HELLO_BYTES, ()),
    STARTED: ("STARTED", STEPD, 1, MAX_BODY_BYTES, ()),
    FAILED: ("FAILED", STEPD, 1, _TEXT_BYTES, ()),
    STDOUT: ("STDOUT", STEPD, 0, MAX_BODY_BYTES, ()),
    STDERR: ("STDERR", STEPD, 0, MAX_BODY_BYTES, ()),
    STDIN: ("STDIN", SRUN, 0, MAX_BODY_BYTES, ()),
    CREDIT: ("CREDIT", STEPD, 4, 4, (_U32,)),
    EXIT: ("EXIT", STEPD, 8, 8, (_U32, _U32)),
    NOTICE: ("NOTICE", STEPD, 0, _TEXT_BYTES, ()),
    DONE: ("DONE", STEPD, 0, 0, ()),
    SIGNAL: ("SIGNAL", SRUN, 4, 4, ((1, 64),)),
    TERMINATE: ("TERMINATE", SRUN, 0, 4096, ()),
    WINDOW: ("WINDOW", SRUN, 4, 4, ()),
    WELCOME: ("WELCOME", SRUN, 1, _MOST_KEY_BYTES, ()),
    MPI: ("MPI", BOTH, 1, MAX_BODY_BYTES, ()),
    X11: ("X11", BOTH, 0, MAX_BODY_BYTES, ()),
    X11_CREDIT: ("X11_CREDIT", BOTH, 4, 4, ((1, 1 << 20),)),
    PING: ("PING", BOTH, 0, 0, ()),
    PONG: ("PONG", BOTH, 0, 0, ()),
}
"""By type: name, sender, least and most bytes of the body, ranges of numbers; `Frames` checks all.
"""

EXIT_OUT_OF_MEMORY, EXIT_ENDS_STEP = 1, 2
"""Bits of an EXIT frame's second number: how the task ended, and that all others are to end."""


class BadStepFrame(Exception):
    """The bytes are not one of our frames; the connection cannot be used after this."""


def halves(key: bytes) -> "tuple[bytes, bytes]":
    """Return the halves of a step's key that stepd and srun show."""
    return key[: len(key) // 2], key[len(key) // 2 :]


def same_key(left: object, right: bytes) -> bool:
    """Compare keys in constant time."""
    if not isinstance(left, bytes) or len(left) != len(right):
        return False
    difference = 0
    for byte, other in zip(left, right, strict=True):
        difference |= byte ^ other
    return not difference


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


def window(body: bytes) -> "tuple[int, int]":
    """Return rows and columns of a WINDOW frame."""
    rows, columns = struct.unpack(">HH", body)
    return rows, columns


def check_body(kind: int, body: bytes) -> None:
    """Raise BadStepFrame unless length and numbers of a body are within the bounds of its type."""
    name, _, least, most, ranges = FRAMES[kind]
    if not least <= len(body) <= most:
        allowed = f"{least}" if least == most else f"{least} to {most}"
        raise BadStepFrame(f"{name}: a body of {len(body)} bytes; {allowed} are allowed")
    if ranges:
        for number, (low, high) in zip(numbers(body), ranges):  # noqa: B905 - one for each
            if not low <= number <= high:
                raise BadStepFrame(f"{name}: {number}; {low} to {high} are allowed")


class Frames:
    """Takes bytes as they come and gives whole frames, each as `FRAMES` has it."""

    __slots__ = ("_buffer", "_sender")

    def __init__(self, sender: str = BOTH) -> None:
        """Begin a stream of frames that SRUN or STEPD sends; BOTH takes those of either."""
        self._buffer = bytearray()
        self._sender = sender

    def _check_head(self, kind: int, length: int) -> bool:
        """Return whether the body has to be checked, too. Raises BadStepFrame."""
        row = FRAMES.get(kind)
        if row is None:
            raise BadStepFrame(f"unknown frame type {kind}")
        if BOTH not in (self._sender, row[1]) and self._sender != row[1]:
            raise BadStepFrame(f"{row[0]} is not sent by {self._sender}")
        if length > row[3]:
            raise BadStepFrame(f"{row[0]}: a body of {length} bytes; {row[3]} are allowed")
        return bool(row[2] or row[4])

    def feed(self, data: "bytes | bytearray | memoryview") -> "list[tuple[int, int, bytes]]":
        """Return the frames (type, task, body) that `data` completes.

        Frames before a malformed one are returned; then the next call raises.

        Raises:
            BadStepFrame: a type we do not know or that the other side does not send, a body that
                is longer than its type allows (before it comes) or shorter, a number out of range.
        """
        buffer = self._buffer
        buffer += data
        frames: list[tuple[int, int, bytes]] = []
        at = 0
        have = len(buffer)
        while have - at >= HEAD_BYTES:
            kind, _, _, task, length = HEAD.unpack_from(buffer, at)
            end = at + HEAD_BYTES + length
            try:
                needs_check = self._check_head(kind, length)
                if end > have:
                    break
                body = bytes(buffer[at + HEAD_BYTES : end])
                if needs_check:
                    check_body(kind, body)
            except BadStepFrame:
                if frames:
                    break
                raise
            frames.append((kind, task, body))
            at = end
        if at:
            del buffer[:at]
        return frames
