"""A job's private directories on this node: a mount namespace that all its processes share.

The first process that needs it makes it: a supervisor, or the process that writes a user's file. A
bind mount of the namespace on `.ns` in the job's directory keeps it until the job's end, also while
nothing of the job runs and while slurmd is away. A lock lets one process make it at a time.

    BasePath/12         0700 root; of a later attempt of the job 12.1
      .lock  .ns
      .1001/_tmp        what the job sees as /tmp; users reach it in their namespace only

Scripts of the site run as root with a small environment of their own. They may be waited for here,
for a limited time: no program and no path of a user is touched.
"""

import errno
import fcntl
import os
import sys
import time
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.kernels.process import enter_namespace, mount, spawn, umount, unshare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec, PrivatePlace

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE = 1024, 2048, 4096, 16384, 1 << 18
MS_SLAVE, MS_RELATIME = 1 << 19, 1 << 21
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8
INIT_LIMIT_S = 60.0
PIN = ".ns"
_LOCK = ".lock"
_NS_GET_NSTYPE, _NS_GET_MNTNS_ID = 0xB703, 0x8008B705
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PAUSE_S = 0.02
_SHOWN_BYTES = 200


class NamespaceError(Exception):
    """A job's namespace cannot be made or entered; one line."""


def enter(spec: "NamespaceSpec", *, makes: bool = True) -> bool:
    """Move this process, which must have one thread, into a job's namespace for good.

    Args:
        makes: whether it is made if it is not there; else nothing happens then.

    Returns:
        Whether this process is in the namespace now.

    Raises:
        NamespaceError: it could not be made or entered.
    """
    try:
        if not makes and not os.path.lexists(spec["directories"][0]):
            return False
        directory = own_directory(spec["directories"][0], makes=makes)
        try:
            return _enter_locked(spec, directory, makes)
        finally:
            os.close(directory)
    except OSError as error:
        where = os.fsdecode(error.filename or spec["directories"][0])
        raise NamespaceError(f"private directories: {where}: {error.strerror}") from None


def _enter_locked(spec: "NamespaceSpec", directory: int, makes: bool) -> bool:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(_LOCK, flags, 0o600, dir_fd=directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pin = open_pin(directory)
        if pin < 0 and makes:
            pin = _make(spec, directory)
        if pin >= 0:
            enter_namespace(pin, CLONE_NEWNS)
            os.close(pin)
        return pin >= 0
    finally:
        os.close(lock)  # also after an error: other steps of the job wait for it


def own_directory(path: str, *, makes: bool = False) -> int:
    """Open a directory that is root's alone, and make it if wanted. Raises OSError."""
    if makes:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    descriptor = os.open(path, _DIRECTORY)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o77:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "is not this daemon's alone", path)
    return descriptor


def open_pin(directory: int) -> int:
    """Open what keeps the namespace in a job's directory; -1 if there is none."""
    try:
        pin = os.open(PIN, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return -1
    try:
        if fcntl.ioctl(pin, _NS_GET_NSTYPE) == CLONE_NEWNS:
            return pin
    except OSError:
        pass  # a plain file: the node was booted, or making it failed
    os.close(pin)
    return -1


def _make(spec: "NamespaceSpec", directory: int) -> int:
    """Make the namespace and return it; this process is left outside."""
    run_script(spec, "InitScript", spec["init_script"], INIT_LIMIT_S)
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _unshare_pinnable(outside)
        mount(b"none", b"/", b"", MS_REC | (MS_SLAVE if spec["shared"] else MS_PRIVATE))
        # Opened inside: nothing can be mounted from another namespace.
        sources = [_source(spec, private) for private in spec["places"]]
        for private, source in zip(spec["places"], sources, strict=True):
            _mount_place(private, source)
            if source >= 0:
                os.close(source)
        inside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        enter_namespace(outside, CLONE_NEWNS)
        os.close(outside)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(PIN, flags, 0o600, dir_fd=directory)
    mount(_by_number(inside), _by_number(target), b"", MS_BIND)
    os.close(target)
    try:
        # As in Slurm it is outside, and enters by SLURM_NS what the mount has made a file.
        run_script(spec, "CloneNSScript", spec["script"], spec["script_wait_s"])
    except NamespaceError:
        release_pin(directory)  # the next step tries again
        os.close(inside)
        raise
    return inside


def release_pin(directory: int) -> None:
    """Let go what keeps the namespace in a job's directory. Raises OSError."""
    umount(b"/proc/self/fd/%d/%s" % (directory, PIN.encode()), MNT_DETACH | UMOUNT_NOFOLLOW)


def _unshare_pinnable(outside: int) -> None:
    """Enter a new mount namespace that can be mounted on a file of the one outside.

    Linux allows that if the new one has the higher number. Since Linux 6.18 each CPU gives numbers
    from a range of its own, so this may have to run on the CPU on which the one outside was made.
    """
    least = _namespace_number(outside)
    usual = os.sched_getaffinity(0)
    unshare(CLONE_NEWNS)
    try:
        for cpu in range(os.cpu_count() or 1):
            if _own_number() >= least:
                return
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError:
                continue  # switched off, or not ours
            unshare(CLONE_NEWNS)
    finally:
        os.sched_setaffinity(0, usual)


def _own_number() -> int:
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _namespace_number(own)
    finally:
        os.close(own)


def _namespace_number(namespace: int) -> int:
    """Return the number that the kernel compares; 0 where it does not tell it (before 6.11)."""
    number = bytearray(8)
    try:
        fcntl.ioctl(namespace, _NS_GET_MNTNS_ID, number)
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)


def _source(spec: "NamespaceSpec", private: "PrivatePlace") -> int:
    """Return what a job sees at a place; -1 for memory."""
    if private["tmpfs"]:
        return -1
    above = own_directory(private["directory"], makes=True)
    inner = f".{spec['uid']}"
    for name, mode in ((inner, 0o700), (private["path"].replace("/", "_"), 0o1777)):
        try:
            os.mkdir(name, mode, dir_fd=above)
        except FileExistsError:
            pass
        below = os.open(name, _DIRECTORY, dir_fd=above)
        os.close(above)
        above = below
    os.fchmod(above, 0o1777)  # whatever our umask is
    return above


def _mount_place(private: "PrivatePlace", source: int) -> None:
    target = os.open(private["path"], _PATH)
    flags = private["flags"]
    if source < 0:
        kind = MS_NOSUID | MS_NODEV | flags
        mount(b"tmpfs", _by_number(target), b"tmpfs", kind, b"mode=1777")
    else:
        mount(_by_number(source), _by_number(target), b"", MS_BIND)
        if flags:
            os.close(target)
            target = os.open(private["path"], _PATH)
            mount(b"none", _by_number(target), b"", MS_BIND | MS_REMOUNT | flags)
    os.close(target)


def _by_number(descriptor: int) -> bytes:
    return b"/proc/self/fd/%d" % descriptor


def run_script(spec: "NamespaceSpec", name: str, path: str, limit_s: float) -> None:
    """Run a script of the site in this process's namespace, as root.

    Raises:
        NamespaceError: it cannot begin, fails, or takes too long.
    """
    if not path:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    words = [os.fsencode(path)]
    try:
        pid = spawn(words, words, spec["env"], stdin=null, stdout=null, stderr=null, cwd=b"/")
    except OSError as error:
        raise NamespaceError(f"{name} {path} can not be executed: {error.strerror}") from None
    finally:
        os.close(null)
    give_up = time.monotonic() + limit_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > give_up:
            os.killpg(pid, SIGKILL)  # not reaped, so it is this process and its session
            os.waitpid(pid, 0)
            raise NamespaceError(f"{name} {path} took longer than {limit_s:g} s")
        time.sleep(_PAUSE_S)
    if status:
        raise NamespaceError(f"{name} {path} failed with status {status >> 8 or -(status & 0x7F)}")
