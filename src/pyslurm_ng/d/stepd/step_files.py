"""Opening a user's files: as the user, from a process of one thread that borrows the identity.

That thread is the only one, so changing the effective ids for the time of some system calls
affects nothing else; the real user's rights decide, on networked file systems too, and what failed
can be said in words. It may take for ever, hence `launcher`.
"""

import errno
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NULL = "/dev/null"
# POSIX access control lists as the kernel reads them: version 2, then tag, rights, id.
_ACL_VERSION = struct.pack("<I", 2)
_ACL_ENTRY = struct.Struct("<HHI")
_ACL_OWNER, _ACL_USER, _ACL_GROUP, _ACL_MASK, _ACL_OTHERS = 1, 2, 4, 16, 32
_ACL_NO_ID = 0xFFFFFFFF


class AsUser:
    """A context in which system calls have a user's rights and umask."""

    def __init__(self, uid: int, gid: int, groups: "Sequence[int]", umask: int) -> None:
        self._uid, self._gid, self._groups = uid, gid, list(groups)
        self._umask, self._own_umask = umask, 0o22
        self._own_groups: list[int] = []
        self._is_root = os.geteuid() == 0

    def __enter__(self) -> None:
        self._own_umask = os.umask(self._umask)
        if self._is_root:
            self._own_groups = os.getgroups()
            os.setgroups(self._groups)
            os.setegid(self._gid)
            os.seteuid(self._uid)

    def __exit__(self, *problem: object) -> None:
        os.umask(self._own_umask)
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
        self._passed: list[str] = []

    def get(self, path: str) -> int:
        """Return the descriptor of a file, opened now or before. Raises OSError."""
        if path not in self._open:
            self._open[path] = open_output(path, append=self._append or path == _NULL)
        return self._open[path]

    def number(self, path: str) -> "tuple[int, bool]":
        """Return a file's number among those that somebody else writes, and whether it is new."""
        is_new = path not in self._passed
        if is_new:
            self._passed.append(path)
        return self._passed.index(path), is_new

    def close(self) -> None:
        """Close ours; the tasks have their own."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


def write_script(directory: str, script: bytes, uid: int, gid: int) -> str:
    """Put a batch script where only its user can read it and nobody can write; return its path.

    Directory and script are ours. A user who owned either could fill the node's spool with it.

    Raises:
        OSError: the spool is full or the directory was not left clean.
    """
    try:
        os.mkdir(directory, 0o711)
    except FileExistsError:
        remove_script(directory)
        os.mkdir(directory, 0o711)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(folder, 0o711)  # whatever our umask is
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open("slurm_script", flags, 0o500, dir_fd=folder)
        try:
            rest = memoryview(script)
            while rest:
                rest = rest[os.write(file, rest) :]
            if os.geteuid() == 0:
                _let_read(file, uid, gid)
        finally:
            os.close(file)
    finally:
        os.close(folder)
    return f"{directory}/slurm_script"


def _let_read(file: int, uid: int, gid: int) -> None:
    """Let a user read and execute a file of root's.

    By an access control list, since a user may write all files that he owns, after a chmod. Where
    the file system has none the script is its user's, as Slurm has it.
    """
    entries = (
        (_ACL_OWNER, 5, _ACL_NO_ID),
        (_ACL_USER, 5, uid),
        (_ACL_GROUP, 0, _ACL_NO_ID),
        (_ACL_MASK, 5, _ACL_NO_ID),
        (_ACL_OTHERS, 0, _ACL_NO_ID),
    )
    text = _ACL_VERSION + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", text)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        os.fchown(file, uid, gid)


def remove_script(directory: str) -> None:
    """Remove a script's directory and all in it; never follows a link."""
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _empty(folder)
        os.rmdir(directory)
    except OSError:
        return
    finally:
        os.close(folder)


def _empty(folder: int) -> None:
    """Remove all that is in a directory: what lies deeper is moved up first, however deep it is.

    Directories of former versions were their users'. Raises OSError.
    """
    moved = 0
    while names := os.listdir(folder):
        for name in names:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                continue
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(name, flags, dir_fd=folder)
            try:
                for below in os.listdir(inner):
                    moved += 1
                    os.rename(below, f".{moved}.moved", src_dir_fd=inner, dst_dir_fd=folder)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
