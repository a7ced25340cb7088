"""The end of a job's private directories: its namespace is let go and its files are removed.

A process of its own does this, for a job may leave millions of files. Links are not followed, and
trees of any depth cost two descriptors: each directory that is found is moved up to the job's own
directory, which only root enters, before it is looked into.
"""

import os
import stat
from _socket import socket

from pyslurm_ng.d.stepd.job_namespace import (
    CLONE_NEWNS,
    PIN,
    NamespaceError,
    open_pin,
    own_directory,
    run_script,
)
from pyslurm_ng.kernels.process import enter_namespace, umount
from pyslurm_ng.kernels.records import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec

_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED = ".moved"
_NICE = 19


def remove(channel: socket, spec: "NamespaceSpec") -> None:
    """Remove what there is of a namespace; tell slurmd "" or what is left and why."""
    os.nice(_NICE)
    problems = []
    for directory in spec["directories"]:
        try:
            problems += _remove_one(spec, directory)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{directory}: {os.fsdecode(error.filename or '')} {error.strerror}")
    channel.send(pack("; ".join(problems)[:1000]))


def _remove_one(spec: "NamespaceSpec", path: str) -> "list[str]":
    """Remove one directory; return what went wrong before that. Raises OSError."""
    directory = own_directory(path)
    problems = []
    pin = open_pin(directory)
    if pin >= 0:
        if spec["epilog"]:
            problems += _run_epilog(spec, pin)
        os.close(pin)
        umount(b"/proc/self/fd/%d/%s" % (directory, PIN.encode()), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    remove_tree(directory)
    os.close(directory)
    os.rmdir(path)
    return problems


def _run_epilog(spec: "NamespaceSpec", pin: int) -> "list[str]":
    """Run CloneNSEpilog inside; return what went wrong."""
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(pin, CLONE_NEWNS)
        run_script(spec, "CloneNSEpilog", spec["epilog"], spec["epilog_wait_s"])
    except NamespaceError as problem:
        return [str(problem)]
    finally:
        enter_namespace(outside, CLONE_NEWNS)
        os.close(outside)
    return []


def remove_tree(top: int) -> None:
    """Empty a directory that no one but us may enter, without following links. Raises OSError."""
    device = os.fstat(top).st_dev
    moved = 0
    while True:
        names = os.listdir(top)
        if not names:
            return
        for name in names:
            status = os.stat(name, dir_fd=top, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=top)
                continue
            if status.st_dev != device:
                raise OSError(18, "another file system is mounted there", name)
            inner = os.open(name, _DIRECTORY, dir_fd=top)
            for entry in _entries(inner):
                if entry[1]:
                    moved += 1
                    os.rename(entry[0], f"{_MOVED}{moved}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(entry[0], dir_fd=inner)
            os.close(inner)
            os.rmdir(name, dir_fd=top)


def _entries(directory: int) -> "list[tuple[str, bool]]":
    """Return names and whether each is a directory itself, not a link to one."""
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
