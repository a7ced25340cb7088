"""The files of a job's steps on its nodes, joined into one file of the job."""

import os
import stat
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_STEP_NAMES = ("batch", "interactive", "extern")
_SUFFIX = ".h5"
_CANNOT_READ = "cannot be read as HDF5"


class ProfileError(Exception):
    """A file that cannot be used: one line for the user, and sh5util's exit code."""

    def __init__(self, text: str, code: int = 255) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def node_files(directory: str, job_id: int, steps: "Sequence[str]") -> "list[tuple[str, str, str]]":
    """Return step, node and path of each file of a job, in the order of steps and nodes.

    Args:
        steps: those that are wanted; () means all.

    Raises:
        ProfileError: the directory cannot be read.
    """
    try:
        names = os.listdir(directory)
    except OSError as error:
        text = f"Cannot open {directory} job profile directory: {error.strerror}"
        raise ProfileError(text) from None
    files = []
    for name in names:
        job, _, rest = name.removesuffix(_SUFFIX).partition("_")
        step, _, node = rest.partition("_")
        is_step = step.isdecimal() or step in _STEP_NAMES
        if job != str(job_id) or not is_step or not node or not name.endswith(_SUFFIX):
            continue
        if not steps or step in steps:
            files.append((step, node, f"{directory}/{name}"))
    return sorted(files, key=lambda file: (_order(file[0]), file[1]))


def _order(step: str) -> "tuple[int, int]":
    """Return what sorts numbered steps before batch and interactive, as in Slurm."""
    return (0, int(step)) if step.isdecimal() else (1, _STEP_NAMES.index(step))


@contextmanager
def open_profile(path: str) -> "Iterator[Any]":
    """Open an HDF5 file for reading; links and what is no file are not opened.

    Raises:
        ProfileError: it is not there, or no HDF5 file.
    """
    import h5py

    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except OSError:
        raise ProfileError(f"Failed to open {path}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ProfileError(f"Failed to open {path}")
    with os.fdopen(descriptor, "rb") as file:
        try:
            profile = h5py.File(file, "r")
        except (OSError, RuntimeError, ValueError):
            raise ProfileError(f"Failed to open {path}: it {_CANNOT_READ}") from None
        with profile:
            yield profile


def merge(files: "Sequence[tuple[str, str, str]]", output: str) -> None:
    """Write a job's file; it replaces one that was there.

    Raises:
        ProfileError: a file cannot be read or written.
    """
    import h5py
    import numpy

    draft = f"{output}.{os.getpid()}"
    try:
        merged = h5py.File(draft, "x")
    except OSError:
        raise ProfileError(f"Failed create HDF5 file {output}") from None
    try:
        with merged:
            steps = list(dict.fromkeys(step for step, _, _ in files))
            merged.attrs["Number of Steps"] = numpy.array([len(steps)], dtype="<i4")
            for step, node, path in files:
                _copy(path, node, merged.require_group(f"Steps/{step}/Nodes"))
            for step in steps:
                group = merged[f"Steps/{step}"]
                count = numpy.array([len(group["Nodes"])], dtype="<i4")
                group.attrs["Number of Nodes"] = count
        os.replace(draft, output)
    except OSError as error:
        raise ProfileError(f"Failed create HDF5 file {output}: {error.strerror or error}") from None
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def _copy(path: str, node: str, nodes: "Any") -> None:
    with open_profile(path) as profile:
        try:
            profile.copy(profile[node], nodes, name=node)
        except (KeyError, RuntimeError, OSError, ValueError):
            raise ProfileError(f"Failed to copy node {node} from {path}") from None
