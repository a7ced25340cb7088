from collections.abc import Sequence

def spawn(
    paths: Sequence[bytes],
    argv: Sequence[bytes],
    env: Sequence[bytes],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    cwd: bytes = b"",
    uid: int = -1,
    gid: int = -1,
    groups: Sequence[int] = (),
    umask: int = -1,
    rlimits: Sequence[tuple[int, int, int]] = (),
    cpus: bytes = b"",
    cgroup_fds: Sequence[int] = (),
    terminal: bool = False,
    nice: int = 100,
    die_with_parent: bool = True,
    pid_name: bytes = b"",
    memory_mode: int = -1,
    memory_nodes: bytes = b"",
    report: bytes = b"",
) -> int:
    """Start a program in a session of its own and return its process id.

    The first of `paths` that can be executed is. `uid` -1 keeps the caller's identity; otherwise
    groups, gid and uid are set for good and verified. `rlimits` holds (resource, soft, hard) with
    -1 for no limit; a hard limit above ours is lowered to ours where we may not raise it. `cpus`
    is a mask, little endian. `cgroup_fds` are open `cgroup.procs` files to join. With `terminal`
    descriptor 0 becomes the controlling terminal. A `nice` above 19 keeps the caller's. `pid_name`
    is a variable that the program finds its own process id in. `memory_mode` is a memory policy of
    the kernel (MPOL_*), -1 for none, and `memory_nodes` the mask it holds for, little endian.
    `report` is written to its standard error just before it begins; in it `\\1` stands for its
    process id.

    Raises:
        OSError: with `filename` saying which step failed: cgroup, affinity, memory policy, limits,
            groups, gid, uid, chdir, exec or fork.
    """

def become_subreaper() -> None:
    """Let processes whose parents died become our children."""

def set_name(name: bytes) -> None:
    """Set what `ps -o comm` shows, at most 15 bytes."""

def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid core files of, and tracing by others of, this process."""
