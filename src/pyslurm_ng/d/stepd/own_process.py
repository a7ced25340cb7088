"""Processes of the supervisor's own: for what may take for ever, since the supervisor must not.

A file system of the user's (a FIFO, FUSE, a lost NFS server) may keep a process that touches it
waiting, even beyond the reach of SIGKILL. So the supervisor touches none: it forks, and goes on
serving.
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

    It must hold nothing else: a peer that waits for the end of a connection would wait for it, too.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        set_wakeup_fd(-1)
        for number in (SIGCHLD, SIGTERM):
            signal(number, SIG_DFL)
        _close_all_but(keep)
        work()
        code = 0
    finally:
        os._exit(code)


def _close_all_but(keep: "list[int]") -> None:
    after = 3
    for descriptor in sorted({descriptor for descriptor in keep if descriptor >= 3}):
        os.closerange(after, descriptor)
        after = descriptor + 1
    os.closerange(after, _MOST_DESCRIPTORS)


def identity_of(spec: "StepSpec") -> "dict[str, Any]":
    """Return the user that a step's programs run as, as `spawn` takes it; {} where it cannot be
    changed."""
    if os.geteuid() != 0:
        return {}
    return {"uid": spec["uid"], "gid": spec["gid"], "groups": spec["groups"]}


def become(identity: "dict[str, Any]") -> None:
    """Take a user's identity finally; do nothing where it cannot be changed."""
    if identity:
        os.setgroups(identity["groups"])
        os.setresgid(identity["gid"], identity["gid"], identity["gid"])
        os.setresuid(identity["uid"], identity["uid"], identity["uid"])
