"""Burst buffers: what scontrol asks the controller."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import message, reply

MOST_WORDS = 256


@message(kind="ShowBurstBuffers", roles="user", max_bytes=1024)
class ShowBurstBuffers(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol show burstbuffer`."""


@reply("BurstBuffersShown", max_bytes=64 << 20)
class BuffersShown(msgspec.Struct, frozen=True):
    """The lines of a controller with burst buffers, as Slurm prints them; none without."""

    lines: list[str]


@message(kind="AskBufferStatus", roles="user", max_bytes=1 << 20)
class AskBufferStatus(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol show bbstat WORDS`: what the site's slurm_bb_get_status says."""

    words: Annotated[list[b.ListText], msgspec.Meta(max_length=MOST_WORDS)] = []


@reply("BufferStatus", max_bytes=8 << 20)
class BufferStatus(msgspec.Struct, frozen=True):
    """The text that the function returned."""

    text: str
