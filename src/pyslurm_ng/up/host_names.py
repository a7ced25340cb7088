"""Let each node daemon of a pretended cluster have a host name and a hosts file of its own.

`srun -N4 hostname` then prints n1 to n4, the names resolve inside jobs, and programs that count
hosts see four. A UTS namespace holds the name, a mount namespace the hosts file; an ordinary user
needs a user namespace for both, which some kernels forbid.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 1 << 12, 1 << 14, 1 << 19
"""From linux/sched.h and linux/mount.h; Python has unshare from 3.12 on, and no mount."""
HOSTS = Path("/etc/hosts")
PER_NETWORK = 254
"""Addresses of 127.64.N.1 and up that are given to nodes; every one of them is this host."""


def address_of(number: int) -> str:
    """Return the loopback address of the node with this number, from 1."""
    return f"127.64.{(number - 1) // PER_NETWORK}.{(number - 1) % PER_NETWORK + 1}"


def hosts_text(names: Sequence[str]) -> str:
    """Return the hosts file of the nodes: this host's own, then each node at its address."""
    own = HOSTS.read_text() if HOSTS.exists() else "127.0.0.1 localhost\n"
    lines = [f"{address_of(number)} {name}" for number, name in enumerate(names, 1)]
    return "\n".join([own.rstrip("\n"), *lines]) + "\n"


def enter(name: str, hosts: Path) -> None:
    """Move this process to namespaces of its own, where the host is called `name`.

    For the time between fork and exec: what is run next has no more rights than its user.

    Raises:
        OSError: the kernel does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function: str, *words: object) -> None:
        if getattr(libc, function)(*words):
            code = ctypes.get_errno()
            raise OSError(code, f"{function}: {os.strerror(code)}")

    uid, gid = os.geteuid(), os.getegid()
    call("unshare", _CLONE_NEWNS | _CLONE_NEWUTS | (_CLONE_NEWUSER if uid else 0))
    if uid:
        for file, text in (("setgroups", "deny"), ("uid_map", uid), ("gid_map", gid)):
            line = text if text == "deny" else f"{text} {text} 1"
            Path(f"/proc/self/{file}").write_text(line)
    # What the host mounts later shall appear, but nothing mounted here shall appear there.
    call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)
    call("mount", bytes(hosts), bytes(HOSTS), None, ctypes.c_ulong(_MS_BIND), None)
    socket.sethostname(name)


def why_not() -> str:
    """Return why nodes cannot have host names of their own here, or ""."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter("n0", HOSTS)
        except OSError as problem:
            os.write(writer, os.fsencode(problem.strerror or str(problem)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        reason = os.fsdecode(file.read())
    os.waitpid(child, 0)
    return reason


def entry(name: str, hosts: Path) -> Callable[[], None]:
    """Return what a child process calls before it runs a program on the host `name`."""
    return lambda: enter(name, hosts)
