"""The end of a job's private directories: its namespace is let go and its files are removed.

A process of its own does this, for a job may leave millions of files. Links are not followed, and
trees of any depth cost two descriptors: each directory that is found is moved up to the job's own
directory, which only root enters, before it is looked into.
"""

import os
from _socket import socket
from itertools import count

from pyslurm_ng.d.stepd.job_namespace import (
    NamespaceError,
    open_pin,
    own_directory,
    release_pin,
    run_script,
)
from pyslurm_ng.kernels.records import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyslurm_ng.d.spool.step_contract import NamespaceSpec

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
            problems += _run_epilog(spec)
        os.close(pin)
        release_pin(directory)
    remove_tree(directory)
    os.close(directory)
    os.rmdir(path)
    return problems


def _run_epilog(spec: "NamespaceSpec") -> "list[str]":
    """Run CloneNSEpilog, which may enter the namespace by SLURM_NS; return what went wrong."""
    try:
        run_script(spec, "CloneNSEpilog", spec["epilog"], spec["epilog_wait_s"])
    except NamespaceError as problem:
        return [str(problem)]
    return []


def remove_tree(top: int) -> None:
    """Empty a directory that no one but us may enter, without following links. Raises OSError.

    A user may have handed a directory to a process that is not the job's, and which goes on to
    write there. So each is made ours before it is emptied.
    """
    device = os.fstat(top).st_dev
    # What an earlier removal has moved is here still, if it was killed.
    names = map(f".{os.urandom(8).hex()}.{{}}".format, count())
    has_entries = True
    while has_entries:
        has_entries = False
        with os.scandir(top) as entries:
            for entry in entries:
                has_entries = True
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=top)
                    continue
                inner = _made_ours(top, entry.name, device)
                _empty_into(inner, top, names)
                os.close(inner)
                os.rmdir(entry.name, dir_fd=top)


def _made_ours(top: int, name: str, device: int) -> int:
    """Open a directory that nobody else can write to any more. Raises OSError."""
    inner = os.open(name, _DIRECTORY, dir_fd=top)
    if os.fstat(inner).st_dev != device:
        os.close(inner)
        raise OSError(18, "another file system is mounted there", name)
    os.fchown(inner, os.geteuid(), os.getegid())
    os.fchmod(inner, 0o700)
    return inner


def _empty_into(inner: int, top: int, names: "Iterator[str]") -> None:
    """Remove a directory's files and move its directories up, where they get these names."""
    has_entries = True
    while has_entries:
        has_entries = False
        with os.scandir(inner) as entries:
            for entry in entries:
                has_entries = True
                if entry.is_dir(follow_symlinks=False):
                    os.rename(entry.name, next(names), src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=inner)
