"""Find TCP ports that are not in use."""

from __future__ import annotations

import random
import socket

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes one of ours
# between this look and the daemon's bind; the second half is each port's ZeroMQ companion.
LOWEST = 10_240
HIGHEST = 21_999
COMPANION = 10_000
"""Daemons also listen on their port plus this (see wire/endpoint.py)."""


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


def free_row(count: int, attempts: int = 200) -> int:
    """Return the first of `count` neighbouring free ports whose companions are free, too.

    The place is drawn at random, so that clusters started at the same time rarely meet.

    Errors: NoPorts.
    """
    places = HIGHEST - LOWEST + 1 - count
    if places < 0:
        raise NoPorts(f"{count} ports are more than there are between {LOWEST} and {HIGHEST}")
    for _ in range(attempts):
        first = LOWEST + random.randrange(places + 1)
        row = range(first, first + count)
        if all(is_free(port) and is_free(port + COMPANION) for port in row):
            return first
    raise NoPorts(f"found no {count} free neighbouring ports between {LOWEST} and {HIGHEST}")
