"""What a node has sent and received over its network and file system, by counters of the kernel.

Readings are (operations in, operations out, bytes in, bytes out) since the meter began to count:
packets of a network, reads and writes of a file system. A counter that begins again (a reset card,
a file system mounted anew) adds what it has since then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pyslurm_ng.d.host.kernel_files import read_text

Amounts: TypeAlias = tuple[int, int, int, int]

_LANE_BYTES = 4  # port_rcv_data and port_xmit_data count words of four octets
_MOST_SOURCES = 256
_LLITE_ROOTS = ("proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite")
_LLITE_LINE = re.compile(
    r"^(?P<name>\w+)\s+(?P<count>\d+)\s+samples\s+\[(?P<unit>\w+)\](?P<rest>.*)$"
)


class TrafficError(Exception):
    """The counters are not there; one line for the log."""


def infiniband(port: int, root: str = "/") -> dict[str, Amounts]:
    """Return the counters of one port of every InfiniBand card, by card.

    Raises:
        TrafficError: no card has this port.
    """
    folder = os.path.join(root, "sys/class/infiniband")
    counts: dict[str, Amounts] = {}
    for card in _names(folder):
        counters = f"{folder}/{card}/ports/{port}/counters"
        words = [
            _number(f"{counters}/{name}")
            for name in ("port_rcv_packets", "port_xmit_packets", "port_rcv_data", "port_xmit_data")
        ]
        if None not in words:
            packets_in, packets_out, lanes_in, lanes_out = (word or 0 for word in words)
            counts[card] = (
                packets_in, packets_out, lanes_in * _LANE_BYTES, lanes_out * _LANE_BYTES,
            )  # fmt: skip
    if not counts:
        raise TrafficError(f"{folder}: no card has counters of port {port}")
    return counts


def interfaces(names: Sequence[str], root: str = "/") -> dict[str, Amounts]:
    """Return the counters of some network interfaces, by name.

    Raises:
        TrafficError: none of them is there.
    """
    counts: dict[str, Amounts] = {}
    for name in names:
        folder = os.path.join(root, "sys/class/net", name.replace("/", "_"), "statistics")
        words = [
            _number(f"{folder}/{file}")
            for file in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
        ]
        if None not in words:
            packets_in, packets_out, bytes_in, bytes_out = (word or 0 for word in words)
            counts[name] = packets_in, packets_out, bytes_in, bytes_out
    if not counts:
        raise TrafficError(f"{root}sys/class/net: there is no {' or '.join(names)}")
    return counts


def lustre(root: str = "/") -> dict[str, Amounts]:
    """Return the counters of every Lustre file system that is mounted here, by mount.

    Raises:
        TrafficError: none is mounted.
    """
    counts: dict[str, Amounts] = {}
    for inner in _LLITE_ROOTS:
        folder = os.path.join(root, inner)
        for mount in _names(folder):
            text = read_text(f"{folder}/{mount}/stats")
            if text:
                counts.setdefault(mount, _llite_amounts(text))
    if not counts:
        raise TrafficError(f"{root}{_LLITE_ROOTS[0]}: no Lustre file system is mounted")
    return counts


def _llite_amounts(text: str) -> Amounts:
    """Return the reads and writes of `read_bytes 12 samples [bytes] 0 4194304 9000`."""
    sums = {"read_bytes": (0, 0), "write_bytes": (0, 0)}
    for line in text.splitlines():
        match = _LLITE_LINE.match(line)
        if match is None or match["name"] not in sums:
            continue
        numbers = match["rest"].split()
        total = int(numbers[2]) if len(numbers) > 2 and numbers[2].isdecimal() else 0
        sums[match["name"]] = int(match["count"]), total
    (reads, read_bytes), (writes, written_bytes) = sums["read_bytes"], sums["write_bytes"]
    return reads, writes, read_bytes, written_bytes


class Traffic:
    """Adds up the counters of one kind.

    Args:
        read: returns them by card, interface or mount; raises TrafficError.
        before: the state of an earlier meter of this boot.
    """

    def __init__(self, read: Callable[[], dict[str, Amounts]], before: Any = None) -> None:
        self._read = read
        self._totals: list[int] = [0, 0, 0, 0]
        self._counters: dict[str, Sequence[int]] = {}
        if before:
            self._totals, self._counters = list(before[0]), dict(before[1])

    def sample(self) -> None:
        """Read the counters; raises TrafficError."""
        for name, counters in self._read().items():
            before = self._counters.get(name, counters)
            for position, (now, then) in enumerate(zip(counters, before, strict=True)):
                self._totals[position] += now - then if now >= then else now
            self._counters[name] = counters

    def totals(self) -> list[int]:
        """Return what was counted since the first look."""
        return list(self._totals)

    def state(self) -> Any:
        """Return what another meter needs to go on after this one."""
        return [self._totals, self._counters]


def _names(folder: str) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST_SOURCES]
    except OSError:
        return ()


def _number(path: str) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
