"""Which processes live on this host, from /proc: not every Debian has pgrep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waits for, as in containers, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def resident_mib(pid: int) -> int:
    """Return the memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def _commands() -> Iterator[list[str]]:
    """Yield the words of each living process's command line."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            command = os.fsdecode(Path(f"/proc/{name}/cmdline").read_bytes())
        except OSError:  # it has ended
            continue
        if command:
            yield command.rstrip("\0").split("\0")


def is_running(word: str) -> bool:
    """Return whether any living process has a word in its command line."""
    return any(word in words for words in _commands())


def running_in(directory: Path) -> list[str]:
    """Return the process ids of those that live and have a directory as their current one.

    A job's processes begin there, and other tests of the same user do not.
    """
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(directory):
                pids.append(name)
        except OSError:  # it has ended
            continue
    return pids


def count_in_script(words: str) -> str:
    """Return what a job's script counts such words with: a pattern for grep -E, each word once."""
    matching = f"grep -hsEz '^({words})$' /proc/[0-9]*/cmdline"
    return f"$({matching} | sort -zu | tr -cd '\\0' | wc -c)"
