"""The frame around every message, the same on Unix stream, TCP stream and ZeroMQ.

A frame is a fixed head of 24 bytes, the kind (ASCII), the credential and the body; in ZeroMQ it
is a message of one part. Integers are big-endian:

    magic "psng" | version 1 | flags 1 | kind length 1 | zero 1 | credential length 4
    | body length 4 | sequence 8

The asking side of a connection chooses `sequence`; the reply has the same one. Lengths are judged
from the head alone, before anything of that size is allocated: head, kind and credential together
stay below 64 KiB, and a body is admitted only after its credential was verified, up to the limit of
its kind.

Commands import this module, so it imports only builtins and C modules. `__future__` would be one
more module to load.
"""

from _struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"psng"
VERSION = 1
HEAD = Struct(">4sBBBBIIQ")
HEAD_BYTES = HEAD.size
MAX_KIND_BYTES = 64
MAX_UNAUTHENTICATED_BYTES = 64 << 10
MAX_CREDENTIAL_BYTES = MAX_UNAUTHENTICATED_BYTES - HEAD_BYTES - MAX_KIND_BYTES
MAX_REPLY_BYTES = 1 << 30

FLAG_REPLY = 1
"""The frame answers the request with the same sequence."""
FLAG_MORE = 2
"""More replies to the same request follow."""
FLAG_ERROR = 4
"""The body is an `ErrorReply`."""
ALL_FLAGS = FLAG_REPLY | FLAG_MORE | FLAG_ERROR
ABOUT_CONNECTION = 0
"""The sequence of what a daemon says about a whole connection: that it is refused, or, with
FLAG_MORE, that the daemon is at work on its requests."""


class BadFrame(Exception):
    """The bytes are not an acceptable frame; the connection cannot go on.

    `cause` is a short word for counters, `sequence` that of the frame when it is known.
    """

    def __init__(self, cause: str, text: str, sequence: int = 0) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text
        self.sequence = sequence


def pack_head(
    kind: str, sequence: int, flags: int, credential_bytes: int, body_bytes: int
) -> bytes:
    """Return head and kind of a frame."""
    name = kind.encode("ascii")
    return (
        HEAD.pack(MAGIC, VERSION, flags, len(name), 0, credential_bytes, body_bytes, sequence)
        + name
    )


def pack_frame(
    kind: str, sequence: int, body: bytes, flags: int = 0, credential: bytes = b""
) -> bytes:
    """Return a whole frame for a stream."""
    head = pack_head(kind, sequence, flags, len(credential), len(body))
    return b"".join((head, credential, body))


def parse_head(
    buffer: bytes | bytearray | memoryview, at: int = 0
) -> tuple[int, int, int, int, int]:
    """Return (flags, kind length, credential length, body length, sequence) of the head at `at`.

    Raises:
        BadFrame: not our magic or version, unknown flags, a length no frame may have.
    """
    magic, version, flags, kind_bytes, zero, credential_bytes, body_bytes, sequence = (
        HEAD.unpack_from(buffer, at)
    )
    if magic != MAGIC:
        raise BadFrame("bad_magic", "not a pyslurm-ng message")
    if version != VERSION:
        raise BadFrame(
            "bad_version",
            f"message frame version {version}, this program speaks {VERSION}",
            sequence,
        )
    if zero or flags & ~ALL_FLAGS or not 0 < kind_bytes <= MAX_KIND_BYTES:
        raise BadFrame("bad_head", "malformed message head", sequence)
    if credential_bytes > MAX_CREDENTIAL_BYTES:
        raise BadFrame(
            "credential_too_long",
            f"credential of {credential_bytes} bytes, at most {MAX_CREDENTIAL_BYTES} are allowed",
            sequence,
        )
    if body_bytes > MAX_REPLY_BYTES:
        raise BadFrame(
            "too_long",
            f"message of {body_bytes} bytes, at most {MAX_REPLY_BYTES} are allowed",
            sequence,
        )
    return flags, kind_bytes, credential_bytes, body_bytes, sequence


def parse_kind(name: bytes | bytearray | memoryview, sequence: int = 0) -> str:
    """Return the kind as text; only ASCII letters and digits make one."""
    raw = bytes(name)
    if not raw.isalnum() or not raw.isascii():
        raise BadFrame("bad_head", "malformed message type", sequence)
    return raw.decode("ascii")


def _refuse_all(kind: str, flags: int, sequence: int, credential: bytes, body: int) -> None:
    raise BadFrame("closed", "the connection has ended", sequence)


def _drop(kind: str, flags: int, sequence: int, ticket: object, body: bytes) -> None:
    """Take no further frames: nothing reads what still arrives on a closed connection."""


class Parser:
    """Cuts a byte stream into frames; never holds more than one frame and what came with it.

    `admit(kind, flags, sequence, credential, body_length)` is called once per frame, when head,
    kind and credential are there and before any of the body is waited for. It returns the frame's
    ticket (the sender, or another value that the caller keeps with the frame) or raises `BadFrame`.
    If it returns None, the stream is held and the next `feed` asks again.

    `deliver(kind, flags, sequence, ticket, body)` is called for each whole frame before the next is
    admitted, so that the room one frame takes counts for the next.
    """

    __slots__ = ("_admit", "_deliver", "_head", "_need", "_rest", "_ticket", "is_held")

    def __init__(
        self,
        admit: "Callable[[str, int, int, bytes, int], object | None]",
        deliver: "Callable[[str, int, int, object, bytes], None]",
    ) -> None:
        self._admit = admit
        self._deliver = deliver
        self._rest = bytearray()
        self._head: tuple[str, int, int, int] | None = None
        self._ticket: object = None
        self._need = HEAD_BYTES
        self.is_held = False

    @property
    def is_between_frames(self) -> bool:
        """Whether the last frame that began has ended."""
        return self._head is None and not self._rest

    @property
    def pending_bytes(self) -> int:
        """How many bytes of unfinished frames are kept."""
        return len(self._rest)

    def close(self) -> None:
        """Drop kept bytes and the callbacks, so that no circle of references stays."""
        self._admit = _refuse_all
        self._deliver = _drop
        self._rest.clear()
        self._head = self._ticket = None

    def feed(self, received: bytes) -> None:
        """Take bytes and deliver the frames they complete. Not to be called from a callback.

        Raises:
            BadFrame: after this the parser must not be used again.
        """
        source: bytes | bytearray = received
        if self._rest:
            self._rest += received
            source = self._rest
        at = 0
        self.is_held = False
        while len(source) - at >= self._need:
            if self._head is None:
                at = self._take_head(source, at)
                if self.is_held:
                    break
                continue
            kind, flags, sequence, body_bytes = self._head
            end = at + body_bytes
            body = received[at:end] if source is received else bytes(memoryview(source)[at:end])
            at = end
            ticket = self._ticket
            self._head = self._ticket = None
            self._need = HEAD_BYTES
            self._deliver(kind, flags, sequence, ticket, body)
        if source is received:
            if at < len(received):
                self._rest = bytearray(memoryview(received)[at:])
        elif at:
            del self._rest[:at]

    def _take_head(self, source: bytes | bytearray, at: int) -> int:
        """Read head, kind and credential at `at` if complete; return where the body begins."""
        flags, kind_bytes, credential_bytes, body_bytes, sequence = parse_head(source, at)
        start = at + HEAD_BYTES
        end = start + kind_bytes + credential_bytes
        if len(source) < end:
            self._need = end - at
            return at
        kind = parse_kind(source[start : start + kind_bytes], sequence)
        credential = bytes(source[start + kind_bytes : end])
        ticket = self._admit(kind, flags, sequence, credential, body_bytes)
        if ticket is None:
            self._need = end - at
            self.is_held = True
            return at
        self._head = (kind, flags, sequence, body_bytes)
        self._ticket = ticket
        self._need = body_bytes
        return end
