"""SlurmUser: the account without root's rights that slurmctld and slurmdbd run as."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from pyslurm_ng.up.layout import BadRequest, Layout

USUAL_NAME = "slurm"


def choose_user(choice: str, layout: Layout) -> tuple[str, str]:
    """Return SlurmUser's name, and a remark for the user if it is not the expected one.

    Root starts the services as `slurm` if that user exists; other users start them as themselves.

    Args:
        choice: the value of --slurm-user; empty when it was not given.

    Errors: BadRequest when that user cannot run them.
    """
    caller = pwd.getpwuid(os.geteuid()).pw_name
    name = choice or (USUAL_NAME if os.geteuid() == 0 else caller)
    if not choice and name != caller and not _exists(name):
        return caller, ""
    account = account_of(name)
    programs = Path(sys.prefix)
    for path in (layout.directory, programs):
        closed = closed_directory(path, account)
        if closed is None:
            continue
        why = f"user {name} may not enter {closed}"
        if choice:
            raise BadRequest(f"--slurm-user {name}: {why}")
        return caller, f"slurmctld and slurmdbd run as {caller}, since {why}"
    return name, ""


def account_of(name: str) -> pwd.struct_passwd:
    """Return the account that slurmctld and slurmdbd run as; an empty name means the caller.

    Errors: BadRequest when there is no such user, or only root could become it.
    """
    if not name:
        return pwd.getpwuid(os.geteuid())
    if not _exists(name):
        raise BadRequest(f"--slurm-user {name}: there is no such user")
    account = pwd.getpwnam(name)
    if os.geteuid() not in (0, account.pw_uid):
        raise BadRequest(f"--slurm-user {name}: only root may choose another user")
    return account


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def closed_directory(path: Path, account: pwd.struct_passwd) -> Path | None:
    """Return the first directory on the way to `path` that an account may not enter, or None."""
    if account.pw_uid == 0:
        return None
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    for directory in (*reversed(path.parents), path):
        try:
            status = directory.stat()
        except FileNotFoundError:
            return None  # what `up` makes is open to others
        if status.st_uid == account.pw_uid:
            needed = 0o100
        elif status.st_gid in groups:
            needed = 0o010
        else:
            needed = 0o001
        if not status.st_mode & needed:
            return directory
    return None


def give_to(path: Path, account: pwd.struct_passwd) -> None:
    """Give a directory of the caller, and what is in it, to an account.

    Only files that the caller owns are given. Links are not followed. A file with a second name is
    left, since that name may matter to root.
    """
    if account.pw_uid == os.geteuid():
        return
    for _, _, names, descriptor in os.fwalk(path, follow_symlinks=False):
        for name in names:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid == os.geteuid() and status.st_nlink == 1:
                os.chown(
                    name,
                    account.pw_uid,
                    account.pw_gid,
                    dir_fd=descriptor,
                    follow_symlinks=False,
                )
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchown(descriptor, account.pw_uid, account.pw_gid)


def make_log(path: Path, account: pwd.struct_passwd) -> None:
    """Make a log file that a service may append to, and leave what is in it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        if account.pw_uid != os.geteuid():
            os.fchown(descriptor, account.pw_uid, account.pw_gid)
    finally:
        os.close(descriptor)
