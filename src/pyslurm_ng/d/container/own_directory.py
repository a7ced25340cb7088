"""Directories of a user in places where others may write, too: what one finds there may be theirs.

Whoever owns the directory of a container's files decides what the container runs, and so acts as
its user.
"""

import contextlib
import os
import shutil
import stat
import tempfile

from pyslurm_ng.d.container.bundle import ContainerError

_WRITERS = stat.S_IWGRP | stat.S_IWOTH


def make_own(path: str, above: str) -> None:
    """Make a directory that only this user enters, or use it if it is there already.

    Args:
        above: a directory on the way, of which the site knows who may write there.

    Raises:
        ContainerError: it is, or is in, a directory of somebody else's.
        OSError: it cannot be made.
    """
    umask = os.umask(0o077)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    finally:
        os.umask(umask)
    if not is_own(path):
        raise ContainerError(f"{path} is not the user's own directory")
    where, end = os.path.dirname(os.path.realpath(path)), os.path.realpath(above)
    while where not in (end, "/"):
        status = os.lstat(where)
        if status.st_uid not in (0, os.geteuid()) or _is_open(status):
            raise ContainerError(f"{path} is below {where}, where others may write")
        where = os.path.dirname(where)


def is_own(path: str) -> bool:
    """Return whether this is a directory, no link, that only this user enters."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    is_users = status.st_uid == os.geteuid() and not status.st_mode & 0o77
    return stat.S_ISDIR(status.st_mode) and is_users


def own_place(folder: str, name: str) -> str:
    """Return this user's directory in a folder that all may write to: made once, then found again.

    Somebody else may have taken the name; then it is the first one with the name, a dot and more.
    Raises OSError.
    """
    usual = f"{folder}/{name}"
    others = sorted(entry for entry in os.listdir(folder) if entry.startswith(f"{name}."))
    for path in (usual, *(f"{folder}/{entry}" for entry in others)):
        if is_own(path):
            return path
    try:
        os.mkdir(usual, 0o700)
        return usual
    except FileExistsError:
        return usual if is_own(usual) else tempfile.mkdtemp(prefix=f"{name}.", dir=folder)


def remove_own(path: str) -> None:
    """Remove a directory of this user's, also where it holds directories that nobody may enter.

    The kernel makes such a one for each overlay, and programs may. What cannot be removed stays.
    """
    for above, names, _ in os.walk(path):
        for name in names:
            inner = f"{above}/{name}"
            with contextlib.suppress(OSError):  # it is somebody else's
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def _is_open(status: os.stat_result) -> bool:
    """Whether others may put something else in the place of what is there."""
    return bool(status.st_mode & _WRITERS) and not status.st_mode & stat.S_ISVTX
