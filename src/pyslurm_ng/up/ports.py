"""Find TCP ports that are not in use, or check those that the user chose."""

from __future__ import annotations

import random
import socket

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes one of ours
# between this look and the daemon's bind; the second half is each port's ZeroMQ companion.
LOWEST = 10_240
HIGHEST = 21_999
LEAST_CHOSEN = 1024
"""Ports below this are root's."""
GREATEST = 65_535


class NoPorts(Exception):
    """There are not enough neighbouring free ports."""


def is_free(port: int) -> bool:
    """Return whether a daemon could listen on `port`, at any address of this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def companion(port: int) -> int:
    """Return the port that a daemon listens on for other daemons beside its own."""
    from pyslurm_ng.wire.endpoint import zmq_port  # loads ZeroMQ, which other verbs do without

    return zmq_port(port)


def chosen_row(first: int, count: int) -> int:
    """Return `first` if it and the `count` - 1 ports behind it can be used, with companions.

    Errors: NoPorts names the port that cannot.
    """
    if first + count - 1 > GREATEST:
        raise NoPorts(f"--port {first}: {count} ports from there on go beyond {GREATEST}")
    row = range(first, first + count)
    used = sorted(set(row) & {companion(port) for port in row})
    if used:
        raise NoPorts(f"--port {first}: port {used[0]} would be needed twice")
    for port in row:
        for needed in (port, companion(port)):
            if not is_free(needed):
                beside = "" if needed == port else f", which belongs to {port},"
                raise NoPorts(f"--port {first}: port {needed}{beside} is in use")
    return first


def free_row(count: int, attempts: int = 200) -> int:
    """Return the first of `count` neighbouring free ports whose companions are free, too.

    The place is drawn at random, so that clusters started at the same time rarely meet.

    Errors: NoPorts.
    """
    first_ports = HIGHEST - LOWEST + 1 - count
    if first_ports < 0:
        raise NoPorts(f"{count} ports are more than there are between {LOWEST} and {HIGHEST}")
    for _ in range(attempts):
        first = LOWEST + random.randrange(first_ports + 1)
        row = range(first, first + count)
        if all(is_free(port) and is_free(companion(port)) for port in row):
            return first
    raise NoPorts(f"found no {count} free neighbouring ports between {LOWEST} and {HIGHEST}")
