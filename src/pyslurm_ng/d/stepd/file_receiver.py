"""A process that writes one file for a user, sent by sbcast or srun --bcast.

It is a fork of slurmstepd's template. First it joins the job's control group: in a file system in
memory the file is part of the job's memory. Then it becomes the user for ever, before it touches
any path, so the user's rights decide what may be written. It sends slurmd its process id. slurmd
sends a specification and then pieces of the file, one message each. Every message has one answer,
an errno or 0. A file that does not come whole is removed.

If the specification names a length, the process reads a part of a file instead (`file_reader`); if
it names what to remove, that is removed (`namespace_end`).
"""

import os
import zlib
from _socket import socket

from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import FileSpec, NamespaceSpec, ReadSpec

PIECE_BYTES = 1 << 17
"""The most data in one message; a socket pair has room for less than two such messages."""
DATA, END = b"D", b"E"
"""The first byte of each message after the first message."""
_MESSAGE_BYTES = PIECE_BYTES + 65536
_AT_ONCE_BYTES = 1 << 22


def receive(channel: socket) -> None:
    """Receive one file; return when it is written or slurmd has ended."""
    channel.send(pack(os.getpid()))
    asked = unpack(channel.recv(_MESSAGE_BYTES))
    if "removes" in asked:
        from pyslurm_ng.d.stepd.namespace_end import remove

        remove(channel, asked["removes"])
    elif "length" in asked:
        _read(channel, asked)
    else:
        _write_whole(channel, asked)


def _read(channel: socket, spec: "ReadSpec") -> None:
    """Read a part of a file instead: what a job has written, for its owner."""
    from pyslurm_ng.d.stepd.file_reader import read

    try:
        _enter(spec["namespace"], makes=False)
        _become(spec["uid"], spec["gid"], spec["groups"])
    except OSError as error:
        channel.send(pack([error.errno or 1, 0, 0, b""]))
        return
    read(channel, spec)


def _write_whole(channel: socket, spec: "FileSpec") -> None:
    file = -1
    try:
        _join(spec)
        _enter(spec["namespace"], makes=True)
        _become(spec["uid"], spec["gid"], spec["groups"])
        file = _open(spec)
        channel.send(pack(0))
        unpacker = zlib.decompressobj() if spec["is_packed"] else None
        while True:
            body = channel.recv(_MESSAGE_BYTES)
            if not body:
                os.unlink(spec["path"])
                return
            if body[:1] == END:
                break
            if unpacker is None:
                _write(file, body[1:])
            else:
                _unpack(file, unpacker, body[1:])
            channel.send(pack(0))
        if unpacker is not None and not unpacker.eof:
            raise zlib.error("incomplete")
        _finish(file, spec)
        channel.send(pack(0))
    except (OSError, zlib.error) as error:
        if file >= 0:
            os.unlink(spec["path"])
        channel.send(pack(getattr(error, "errno", None) or 22))  # EINVAL


def _enter(namespace: "NamespaceSpec | None", *, makes: bool) -> None:
    """Go where the job's own files are. Raises OSError."""
    if namespace is None:
        return
    from pyslurm_ng.d.stepd.job_namespace import NamespaceError, enter

    try:
        enter(namespace, makes=makes)
    except NamespaceError:
        raise OSError(5, "no private directories") from None


def _join(spec: "FileSpec") -> None:
    for path in spec["group_files"]:
        try:
            group = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the job runs nothing here, so there is no group that limits it
        try:
            os.write(group, b"0")
        finally:
            os.close(group)


def _become(uid: int, gid: int, groups: "list[int]") -> None:
    if os.geteuid() == 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid,) * 3:
        raise PermissionError(1, "not that user")


def _open(spec: "FileSpec") -> int:
    path = spec["path"]
    if spec["make_directory"]:
        try:
            os.mkdir(os.path.dirname(path), 0o700)
        except FileExistsError:
            pass
    if spec["force"]:
        # The old file is not written into: a running program keeps it, and so does a link.
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _unpack(file: int, unpacker: "zlib._Decompress", data: bytes) -> None:
    """Write packed data part by part, because unpacked it may be a thousand times as large."""
    while data:
        _write(file, unpacker.decompress(data, _AT_ONCE_BYTES))
        data = unpacker.unconsumed_tail


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _finish(file: int, spec: "FileSpec") -> None:
    os.fchmod(file, spec["mode"] & 0o777)
    if spec["times_us"]:
        accessed, modified = spec["times_us"]
        os.utime(file, ns=(accessed * 1000, modified * 1000))
    os.close(file)
