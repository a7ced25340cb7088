"""What slurmctld and the process that runs the site's scripts say to each other.

Each message is msgpack after its length in four bytes. Both ends decode by these types. What comes
back of a request is decoded as a `JobRequest` afterwards, with all its bounds, as if a command had
sent it.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.bounds import Number16, Number32
from pyslurm_ng.policy.description import MOST_CHARACTERS, MOST_LINES

HEADER = struct.Struct(">I")
MOST_BYTES = 128 << 20
"""Above every request: a script of 64 MiB, 16 MiB of environment, 4 MiB of options."""

Line = Annotated[str, Meta(max_length=MOST_CHARACTERS)]
Lines = Annotated[list[Line], Meta(max_length=MOST_LINES)]
LogLine = tuple[Annotated[int, Meta(ge=1, le=9)], Line]
Code = Annotated[int, Meta(ge=-(2**31), le=INFINITE)]
Row: TypeAlias = dict[str, Any]
"""Fields by Slurm's names: of a partition, a job, a reservation."""

# To the process -----------------------------------------------------------------------------------


class Begin(Struct, tag=True):
    """The first message: which plugins to load, in order, and from where."""

    plugins: tuple[str, ...]
    directory: str
    cluster_name: str
    memory_bytes: int


class Partitions(Struct, tag=True):
    """All partitions, each time any has changed."""

    rows: list[Row]


class Question(Struct, tag=True):
    """One call of each plugin's function for a request.

    Attributes:
        known: fields that can only be read: `user_id`, `default_account` ...
        hidden: the names of partitions that the user may not use.
        record: the job as it is, for a change of one; None for a submission.
    """

    number: Number32
    plugins: tuple[str, ...]
    uid: Number32
    request: Raw
    known: Row
    hidden: tuple[str, ...] = ()
    environment: bytes = b""
    script: bytes = b""
    record: Row | None = None


class Rows(Struct, tag=True):
    """The answer to `AskRows`; `next_id` is where the next part begins, 0 after the last."""

    rows: list[Row]
    next_id: Number32 = 0


# From the process ---------------------------------------------------------------------------------


class Loaded(Struct, tag=True, forbid_unknown_fields=True):
    """All plugins are loaded, unless there are errors."""

    errors: Lines


class Verdict(Struct, tag=True, forbid_unknown_fields=True):
    """What came of a question.

    Attributes:
        code: 0, or Slurm's number for why the request is refused.
        request: the request as the plugins left it.
        environment, script: the same; None if unchanged.
        user_lines: what the user is to read.
        log_lines: lines for slurmctld's log, with their levels.
    """

    number: Number32
    code: Code
    request: Raw
    environment: Annotated[bytes, Meta(max_length=16 << 20)] | None = None
    script: Annotated[bytes, Meta(max_length=64 << 20)] | None = None
    user_lines: Lines = []
    log_lines: Annotated[list[LogLine], Meta(max_length=MOST_LINES)] = []


class AskRows(Struct, tag=True, forbid_unknown_fields=True):
    """A script looks at jobs or reservations: at one, or at all from `first` on."""

    kind: Annotated[str, Meta(max_length=16)]
    name: Annotated[str, Meta(max_length=255)] = ""
    first: Number32 = 0
    most: Number16 = 500


ToProcess: TypeAlias = Begin | Partitions | Question | Rows
FromProcess: TypeAlias = Loaded | Verdict | AskRows

_encoder = msgspec.msgpack.Encoder()


def packed(message: Struct) -> bytes:
    """Return a message with its length before it."""
    body = _encoder.encode(message)
    return HEADER.pack(len(body)) + body
