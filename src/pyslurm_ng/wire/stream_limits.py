"""The bounds of a stream server: connections, requests, bytes and times."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.wire.shares import ShareLimits


@dataclass(frozen=True, slots=True)
class StreamLimits(ShareLimits):
    """Bounds of one server; rates in bytes per second.

    `frame_s` is the time for one request from its first byte to its last, less the time in which we
    did not read.
    """

    outstanding: int = 1_024
    waiting_per_uid: int = 4_096
    write_buffer_bytes: int = 1 << 30
    handshake_s: float = 10.0
    frame_s: float = 120.0
    idle_s: float = 600.0
    grace_s: float = 10.0
    least_rate: int = 1_024
