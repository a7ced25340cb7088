"""The file of a step's profile on one node, in the layout of Slurm's acct_gather_profile/hdf5."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from pyslurm_ng.d.profile.samples import ENERGY, FILESYSTEM, NETWORK, TASK
from pyslurm_ng.d.profile.series import Row, columns

_GROUPS = {ENERGY: "Energy", FILESYSTEM: "Filesystem", NETWORK: "Network"}


def image(about: Mapping[str, Any], rows: Iterable[Row]) -> bytes:
    """Return the bytes of the file.

    Args:
        about: node, node_index, ntasks, cpus_per_task, start_s, labels, gpus.

    Raises:
        ImportError: h5py is not installed.
    """
    import h5py
    import numpy

    by_place: dict[tuple[int, int], list[tuple[int | float, ...]]] = {}
    for row in rows:
        elapsed_s = max(0, row.epoch_s - about["start_s"])
        table = by_place.setdefault((row.series, row.task), [])
        table.append((elapsed_s, row.epoch_s, *row.values))
    file = io.BytesIO()
    with h5py.File(file, "w") as profile:
        node = profile.create_group(about["node"])
        _describe(node, about, numpy)
        for (series, task), values in sorted(by_place.items()):
            kinds = columns(series, about["labels"], has_gpus=about["gpus"])
            array = numpy.array(values, dtype=_row_type(kinds))
            name = f"Tasks/{task}" if series == TASK else _GROUPS[series]
            node.create_dataset(name, data=array, maxshape=(None,), chunks=True)
    return file.getvalue()


def _row_type(kinds: Iterable[tuple[str, bool]]) -> list[tuple[str, str]]:
    """Return the type of a row: 64 bits for each column, little endian."""
    times = [("ElapsedTime", "<u8"), ("EpochTime", "<u8")]
    return times + [(name, "<f8" if is_real else "<u8") for name, is_real in kinds]


def _describe(node: Any, about: Mapping[str, Any], numpy: Any) -> None:
    def put(name: str, value: Any, kind: str) -> None:
        node.attrs.create(name, numpy.array([value], dtype=kind))

    put("CPUs per Task", about["cpus_per_task"], "<i4")
    put("Node Index", about["node_index"], "<i4")
    put("Number of Tasks", about["ntasks"], "<i4")
    for name, text in (
        ("Node Name", about["node"]),
        ("Start Time", time.ctime(about["start_s"])),
    ):
        put(name, text.encode(), f"S{len(text.encode())}")


def write_as_owner(directory: str, owner: Mapping[str, Any], name: str, data: bytes) -> None:
    """Write a file into the user's own directory below ProfileHDF5Dir, as the user.

    Root makes the directory and nothing else, so no link of the user's can lead root anywhere.

    Args:
        owner: user, uid, gid, groups.

    Raises:
        OSError: there is no such directory or room.
    """
    inner = f"{directory}/{owner['user']}"
    is_root = os.geteuid() == 0
    try:
        os.mkdir(inner, 0o700)
    except FileExistsError:
        pass
    else:
        if is_root:
            os.chown(inner, owner["uid"], owner["gid"], follow_symlinks=False)
    if is_root:
        os.setgroups(owner["groups"])
        os.setresgid(owner["gid"], owner["gid"], owner["gid"])
        os.setresuid(owner["uid"], owner["uid"], owner["uid"])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    draft = f"{inner}/.{name}.{os.getpid()}"
    descriptor = os.open(draft, flags, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.unlink(draft)
        raise
    finally:
        os.close(descriptor)
    os.rename(draft, f"{inner}/{name}")
