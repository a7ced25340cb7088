"""Becoming a daemon: the background, another user, the pid file, the message to systemd.

The parent waits until the child can answer, so a script may go on with the next command. If the
child fails before that, the error is on the terminal and in the exit code.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import stat


class CannotBecome(Exception):
    """The daemon cannot run as the user that it should; the text is one line."""


class Background:
    """The daemon's change to the background; make it before any thread or socket."""

    def __init__(self, *, foreground: bool) -> None:
        """Fork, unless in the foreground; only the daemon returns from here.

        The parent exits with 0 once the child has called `ready`, or with 1 if the child ended.
        """
        self._write_fd = -1
        if foreground:
            return
        read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child:
            os.close(self._write_fd)
            os._exit(_wait_until_ready(read_fd, child))
        os.close(read_fd)
        _close_inherited(self._write_fd)
        os.setsid()
        # A session leader gets a terminal if it opens one; its child does not.
        child = os.fork()
        if child:
            os._exit(0)

    def ready(self) -> None:
        """Close the terminal, and let the process that started the daemon exit."""
        if self._write_fd < 0:
            return
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        os.write(self._write_fd, b"0")
        os.close(self._write_fd)
        self._write_fd = -1


def _close_inherited(kept: int) -> None:
    """Close inherited files: the reader of an inherited pipe would wait for the daemon's end."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the directory's own descriptor


def _wait_until_ready(read_fd: int, child: int) -> int:
    """Return the exit code of the parent: 0 if the daemon is ready, 1 if it ended."""
    byte = os.read(read_fd, 1)
    os.waitpid(child, 0)
    return 0 if byte == b"0" else 1


class PidFile:
    """A file with this process's id; `remove` removes it."""

    def __init__(self, path: str, uid: int = -1, gid: int = -1) -> None:
        """Write the file; it belongs to `uid` and `gid` unless they are -1.

        Raises:
            OSError: the file cannot be written.
        """
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o644)
        try:
            os.write(fd, b"%d\n" % os.getpid())
            if uid != -1:
                os.fchown(fd, uid, gid)
        finally:
            os.close(fd)

    def remove(self) -> None:
        """Remove the file if it still has our process id; if only root may do that, empty it."""
        try:
            with open(self.path, "rb") as file:
                if file.read().strip() != b"%d" % os.getpid():
                    return
        except OSError:
            return
        try:
            os.unlink(self.path)
        except OSError:
            try:
                os.truncate(self.path, 0)
            except OSError:
                return


def make_directory(path: str, uid: int, *, take: bool = False) -> None:
    """Make a directory for sockets or state that belongs to SlurmUser, while we may be root.

    Args:
        uid: SlurmUser; -1 keeps the owner.
        take: also give SlurmUser a directory that exists and belongs to root, because slurmd may
            have made it. Only for directories that nothing else uses.

    Raises:
        OSError: the directory cannot be made.
    """
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        status = os.lstat(path)
        if not take or status.st_uid != 0 or not stat.S_ISDIR(status.st_mode):
            return
    if os.geteuid() == 0:
        os.chown(path, uid, -1, follow_symlinks=False)


def is_of_this_unit(directory: str) -> bool:
    """Return whether systemd made a directory for this service alone (RuntimeDirectory=).

    It belongs to root then, since the unit starts as root and the service becomes SlurmUser itself.
    """
    made = os.environ.get("RUNTIME_DIRECTORY", "").split(":")
    return os.path.realpath(directory) in map(os.path.realpath, filter(None, made))


def become_user(name: str) -> None:
    """Give up root's rights for ever and run as user `name`; do nothing if we are that user.

    Raises:
        CannotBecome: there is no such user, or we are neither root nor that user.
    """
    try:
        user = pwd.getpwnam(name) if not name.isdecimal() else pwd.getpwuid(int(name))
    except KeyError:
        raise CannotBecome(f"Invalid user for SlurmUser {name}, ignored") from None
    if os.geteuid() == user.pw_uid:
        return
    if os.geteuid() != 0:
        raise CannotBecome(f"Can not set uid to SlurmUser({user.pw_uid}): Operation not permitted")
    groups = [group.gr_gid for group in grp.getgrall() if user.pw_name in group.gr_mem]
    os.setgroups([user.pw_gid, *groups])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    if os.getresuid() != (user.pw_uid,) * 3 or os.getresgid() != (user.pw_gid,) * 3:
        raise CannotBecome(f"Can not set uid to SlurmUser({user.pw_uid}): rights were kept")


def tell_systemd(state: str) -> None:
    """Send a state such as READY=1 to systemd, if it waits for one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address[0] == "@":
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifier:
        try:
            notifier.connect(address)
            notifier.sendall(state.encode())
        except OSError:
            return  # no systemd listens there; the daemon works without it
