"""Processes that the supervisor forks for work that may never end.

A user's file (a FIFO, one on FUSE or on a lost NFS server) may make a process wait for ever, even
after SIGKILL. So the supervisor does not touch such files: it forks a process for them.
"""

import os
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGCHLD,
    SIGTERM,
    set_wakeup_fd,
    signal,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import StepSpec

_MOST_DESCRIPTORS = 1 << 20


def fork_own(work: "Callable[[], None]", keep: "list[int]") -> int:
    """Fork a process that does `work` with no other descriptors than `keep`; return its id.

    All others are closed: the peer of a connection that this process had open would never see the
    connection's end.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        set_wakeup_fd(-1)
        for number in (SIGCHLD, SIGTERM):
            signal(number, SIG_DFL)
        close_all_but(keep)
        work()
        code = 0
    finally:
        os._exit(code)


def close_all_but(keep: "list[int]") -> None:
    """Close all descriptors but `keep`, stdin, stdout and stderr."""
    after = 3
    for descriptor in sorted({descriptor for descriptor in keep if descriptor >= 3}):
        os.closerange(after, descriptor)
        after = descriptor + 1
    os.closerange(after, _MOST_DESCRIPTORS)


def identity_of(spec: "StepSpec") -> "dict[str, Any]":
    """Return the user of a step's programs in the form of `spawn`; {} if we are not root."""
    if os.geteuid() != 0:
        return {}
    return {"uid": spec["uid"], "gid": spec["gid"], "groups": spec["groups"]}


def become(identity: "dict[str, Any]") -> None:
    """Become a user for ever; do nothing if `identity` is empty."""
    if identity:
        os.setgroups(identity["groups"])
        os.setresgid(identity["gid"], identity["gid"], identity["gid"])
        os.setresuid(identity["uid"], identity["uid"], identity["uid"])
