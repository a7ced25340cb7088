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
    is_sibling: bool = False,
    in_place: bool = False,
) -> int:
    """Start a program in a session of its own and return its process id.

    The first of `paths` that can be executed is. `uid` -1 keeps the caller's identity; otherwise
    groups, gid and uid are set for good and verified. `rlimits` holds (resource, soft, hard) with
    -1 for no limit; they are set after the identity, and never raise a hard limit of ours. `cpus`
    is a mask, little endian. `cgroup_fds` are open `cgroup.procs` files to join. With `terminal`
    descriptor 0 becomes the controlling terminal. A `nice` above 19 keeps the caller's. `pid_name`
    is a variable that the program finds its own process id in. `memory_mode` is a memory policy of
    the kernel (MPOL_*), -1 for none, and `memory_nodes` the mask it holds for, little endian.
    `report` is written to its standard error just before it begins; in it `\\1` stands for its
    process id.

    The caller stands still until the program begins, which a file system of the user's may put off
    for ever. With `is_sibling` the program becomes a child of our parent instead of ours, which
    also has to reap one that did not begin. With `in_place` no process is made: the caller itself
    becomes the program, and only a failure returns; what is open beyond the streams has to be
    O_CLOEXEC then.

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
