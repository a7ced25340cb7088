"""Opening a user's files: as the user, from the supervisor, whose thread borrows the identity.

The supervisor has one thread, so changing the effective ids for the time of some system calls
affects nothing else; the real user's rights decide, on networked file systems too, and the
supervisor can say in words what failed.
"""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NULL = "/dev/null"


class AsUser:
    """A context in which system calls have a user's rights; nothing when we are that user."""

    def __init__(self, uid: int, gid: int, groups: "Sequence[int]") -> None:
        self._uid, self._gid, self._groups = uid, gid, list(groups)
        self._own_groups: list[int] = []
        self._is_root = os.geteuid() == 0

    def __enter__(self) -> None:
        if self._is_root:
            self._own_groups = os.getgroups()
            os.setgroups(self._groups)
            os.setegid(self._gid)
            os.seteuid(self._uid)

    def __exit__(self, *problem: object) -> None:
        if self._is_root:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(self._own_groups)


def open_output(path: str, *, append: bool) -> int:
    """Open a file to write, made if missing; return its descriptor.

    A FIFO without a reader, a directory or a socket is refused instead of waited for.

    Raises:
        OSError: as the user would see it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    flags |= os.O_APPEND if append else os.O_TRUNC
    descriptor = os.open(path, flags, 0o666)
    return _checked(descriptor, path)


def open_input(path: str) -> int:
    """Open a file to read; return its descriptor. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    return _checked(descriptor, path)


def _checked(descriptor: int, path: str) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise IsADirectoryError(21, "Is a directory", path)
    # Only to open without waiting; a program expects its files to block.
    os.set_blocking(descriptor, True)
    return descriptor


class OutputFiles:
    """Output files of a step by name, so that tasks with the same name share one descriptor."""

    def __init__(self, *, append: bool) -> None:
        self._append = append
        self._open: dict[str, int] = {}

    def get(self, path: str) -> int:
        """Return the descriptor of a file, opened now or before. Raises OSError."""
        if path not in self._open:
            self._open[path] = open_output(path, append=self._append or path == _NULL)
        return self._open[path]

    def close(self) -> None:
        """Close ours; the tasks have their own."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def write_script(directory: str, script: bytes, uid: int, gid: int) -> str:
    """Put a batch script where only its user can read it; return its path.

    Raises:
        OSError: the spool is full or the directory was not left clean.
    """
    is_root = os.geteuid() == 0
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        remove_script(directory)
        os.mkdir(directory, 0o700)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open("slurm_script", flags, 0o700, dir_fd=folder)
        try:
            rest = memoryview(script)
            while rest:
                rest = rest[os.write(file, rest) :]
            if is_root:
                os.fchown(file, uid, gid)
        finally:
            os.close(file)
        if is_root:
            os.fchown(folder, uid, gid)
    finally:
        os.close(folder)
    return f"{directory}/slurm_script"


def remove_script(directory: str) -> None:
    """Remove a script's directory and what the user left in it; never follows a link."""
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _empty(folder)
    finally:
        os.close(folder)
    try:
        os.rmdir(directory)
    except OSError:
        return


def _empty(folder: int) -> None:
    for name in _names(folder):
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except IsADirectoryError:
            pass
        except OSError:
            continue
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            continue
        try:
            _empty(inner)
        finally:
            os.close(inner)
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            continue


def _names(folder: int) -> "Iterator[str]":
    yield from os.listdir(folder)
