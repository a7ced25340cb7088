"""Reading the output of a job: a user asks slurmctld, which asks the node of the job's script.

    ReadOutput (user -> slurmctld) -> ReadJobFile (slurmctld -> slurmd) -> JobFilePart -> OutputPart

A process with the rights of the job's user reads the file on the node.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import message, reply

MOST_BYTES = 64 << 10
"""The most of a file in one answer."""
FROM_END = -1
Offset = Annotated[int, msgspec.Meta(ge=FROM_END, le=2**62)]
Length = Annotated[int, msgspec.Meta(ge=1, le=MOST_BYTES)]


@message(kind="ReadOutput", roles="user", owner_rule="rule", max_bytes=4096)
class ReadOutput(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Read a part of a batch job's output file; `offset` of -1 means its last bytes."""

    job: b.JobNameText
    stream: Literal["out", "err"] = "out"
    offset: Offset = FROM_END
    length: Length = MOST_BYTES


@reply("OutputPart", max_bytes=1 << 20)
class OutputPart(msgspec.Struct, frozen=True):
    """`data` stands at `offset` of a file that has `size` bytes now."""

    path: str
    node: str
    size: int
    offset: int
    data: bytes
    is_over: bool  # the job writes no more


@message(kind="ReadJobFile", roles="slurmctld", max_bytes=32 << 20)
class ReadJobFile(msgspec.Struct, array_like=True, frozen=True):
    """Read a part of a file as the user of a job; the credential says who that is."""

    epoch: b.Amount
    credential: Annotated[bytes, msgspec.Meta(max_length=16 << 20)]
    path: b.PathText
    offset: Offset = FROM_END
    length: Length = MOST_BYTES


@reply("JobFilePart", max_bytes=1 << 20)
class JobFilePart(msgspec.Struct, frozen=True):
    """A part of a file."""

    size: int
    offset: int
    data: bytes
