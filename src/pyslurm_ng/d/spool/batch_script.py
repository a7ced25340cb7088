"""The batch script's place in the spool: files of ours that a user reads."""

import errno
import os
import stat
import struct

SPOOL_FULL = "SlurmdSpoolDir is full"
"""The reason of a node that was drained because of its spool, and of a launch that was refused."""

FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# POSIX access control lists as the kernel reads them: version 2, then tag, rights, id.
_ACL_VERSION = struct.pack("<I", 2)
_ACL_ENTRY = struct.Struct("<HHI")
_ACL_OWNER, _ACL_USER, _ACL_GROUP, _ACL_MASK, _ACL_OTHERS = 1, 2, 4, 16, 32
_ACL_NO_ID = 0xFFFFFFFF


def write_script(directory: str, script: bytes, uid: int, gid: int) -> str:
    """Put a batch script where only its user can read it and no user can write; return its path.

    Directory and script are ours. A user that owned either could fill the node's spool with it.

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
        os.fchmod(folder, 0o711)  # independent of our umask
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

    By an access control list, since users may write all files that they own, after a chmod. Where
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
        os.unlink("slurm_script", dir_fd=folder)
        os.rmdir(directory)
    except OSError:
        _remove_filled(directory, folder)
    finally:
        os.close(folder)


def _remove_filled(directory: str, folder: int) -> None:
    """Remove an open directory that does not hold the script alone."""
    try:
        _empty(folder)
        os.rmdir(directory)
    except OSError:
        return


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
