from collections.abc import Sequence

from typing_extensions import Required, TypedDict, Unpack

class _How(TypedDict, total=False):
    stdin: Required[int]
    stdout: Required[int]
    stderr: Required[int]
    cwd: bytes
    uid: int
    gid: int
    groups: Sequence[int]
    umask: int
    rlimits: Sequence[tuple[int, int, int]]
    cpus: bytes
    cgroup_fds: Sequence[int]
    terminal: bool
    nice: int
    die_with_parent: bool
    pid_name: bytes
    memory_mode: int
    memory_nodes: bytes
    report: bytes
    is_sibling: bool
    kept: int

class _HowAtOnce(_How, total=False):
    in_place: bool

class _HowInBackground(_How, total=False):
    opens: Sequence[tuple[bytes, int, bool]]
    holds: bool

def spawn(
    paths: Sequence[bytes],
    argv: Sequence[bytes],
    env: Sequence[bytes],
    **how: Unpack[_HowAtOnce],
) -> int:
    """Start a program in a new session and return its process id.

    The program is the first of `paths` that can be executed. `uid` -1 keeps the caller's identity;
    otherwise groups, gid and uid are set for good and verified. `rlimits` holds (resource, soft,
    hard) with -1 for no limit; they are set after the identity, and never raise a hard limit of
    ours. `cpus` is a mask, little endian. `cgroup_fds` are open `cgroup.procs` files to join. With
    `terminal` descriptor 0 becomes the controlling terminal. A `nice` above 19 keeps the caller's.
    `pid_name` is a variable that the program finds its own process id in. `memory_mode` is a memory
    policy of the kernel (MPOL_*), -1 for none, and `memory_nodes` the mask it holds for, little
    endian. `report` is written to its standard error just before it begins; in it `\\1` stands for
    its process id.

    The caller is stopped until the program begins; a user's file system may delay that for ever.
    With `is_sibling` the program becomes a child of our parent, which must also reap a program that
    did not begin. With `in_place` no process is made: the caller itself becomes the program, and
    only a failure returns. Files other than the streams must be O_CLOEXEC then. `kept` is a
    descriptor above 2 that the program has, too, with the same number.

    Raises:
        OSError: with `filename` saying which step failed: cgroup, affinity, memory policy, limits,
            groups, gid, uid, chdir, exec or fork.
    """

class Background:
    """Starts programs, one after another, without a wait for any.

    A separate thread without Python waits until a program begins; it lives as long as the process.
    """

    def fileno(self) -> int:
        """Return a descriptor that is readable when `take` has something."""

    @property
    def pid(self) -> int:
        """The process that becomes or has become the program; 0 if there is none."""

    def begin(
        self,
        paths: Sequence[bytes],
        argv: Sequence[bytes],
        env: Sequence[bytes],
        **how: Unpack[_HowInBackground],
    ) -> None:
        """Begin a program as `spawn` does; `take` returns the result.

        Its process first closes all that it does not need. With the user's rights and umask it
        then enters `cwd` and opens files: `opens` are (path, flags of open(2), whether we get the
        descriptor, too), at most four. A stream of -1 is the first of them, -2 the second. Without
        `paths` it ends when they are open. With `holds` it is the program's process in all respects
        when it waits for `go_on`.

        Raises:
            OSError: `filename` is fork.
        """

    def take(self) -> list[int] | int | OSError | None:
        """Return what has happened, None if nothing has yet.

        Descriptors of `opens`; none when it holds. After them, and for the last time, the process
        id of the program that has begun (or was cancelled), or why it has not: an error as of
        `spawn`, with the path in bytes as `filename` if that could not be opened. A wait for
        children returns that process, too.
        """

    def go_on(
        self,
        paths: Sequence[bytes],
        argv: Sequence[bytes],
        env: Sequence[bytes],
        report: bytes = b"",
    ) -> None:
        """Let a process that holds begin this program, or end without one if there is no path."""

    def cancel(self) -> None:
        """Cancel the start; only before the caller waits for the process.

        The process is killed while it opens files. Later it may already be the program; signals in
        between reach the program.
        """

    def close(self) -> None:
        """End the thread's work; no program can be started after this."""

def become_subreaper() -> None:
    """Let processes whose parents died become our children."""

def set_name(name: bytes) -> None:
    """Set what `ps -o comm` shows, at most 15 bytes."""

def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid core files of, and tracing by others of, this process."""

def unshare(kinds: int) -> None:
    """Move this process to new namespaces (CLONE_NEW*). Raises OSError."""

def enter_namespace(descriptor: int, kind: int) -> None:
    """Move this process to the namespace of an open file. Raises OSError."""

def mount(source: bytes, target: bytes, kind: bytes, flags: int, data: bytes = b"") -> None:
    """mount(2); an empty kind or data is none. Raises OSError."""

def umount(target: bytes, flags: int) -> None:
    """umount2(2). Raises OSError."""
