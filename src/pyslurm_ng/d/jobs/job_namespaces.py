"""Namespaces of jobs on this node, from a job's first step or file to its end here.

`d.stepd.job_namespace` makes them; slurmd only knows which there are. After a restart it finds them
by their directories: a job that is still allocated has no process here perhaps, and the controller
says what becomes of it. What an earlier boot has left is removed.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyslurm_ng.conf.namespaces import Namespaces
from pyslurm_ng.d.core.node_core import JobHere
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.spec.job_namespace_spec import namespace_spec
from pyslurm_ng.d.stepd.job_namespace import MS_BIND, MS_PRIVATE, PIN, open_pin, own_directory
from pyslurm_ng.kernels.process import mount
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec

_ATTEMPT = re.compile(r"([1-9]\d{0,9})(?:\.([1-9]\d{0,9}))?")
_ANSWER_BYTES = 4096
_WRITE_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class JobNamespaces:
    """The namespaces of jobs here.

    Args:
        fork: starts a process with its end of a channel (`d.stepd.file_receiver`).
    """

    def __init__(self, node: LocalNode, fork: Callable[[socket.socket], None]) -> None:
        self._node = node
        self._fork = fork
        self._held: dict[tuple[int, int], NamespaceSpec] = {}
        self._removals: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Take up the namespaces that are there; jobs whose steps run are known by now.

        Raises:
            OSError: the directories for them cannot be used.
        """
        namespaces = self._node.configured.namespaces
        if namespaces is None:
            return
        prepare(namespaces)
        names = [name for base in namespaces.base_paths for name in os.listdir(base)]
        for name in sorted(set(names)):
            match = _ATTEMPT.fullmatch(name)
            if match:
                self._take_up(namespaces, int(match[1]), int(match[2] or 0))

    def _take_up(self, namespaces: Namespaces, job_id: int, attempt: int) -> None:
        core, key = self._node.core, (job_id, attempt)
        spec = namespace_spec(self._node.configured, namespaces, job_id, attempt, 0, "")
        try:
            directory = own_directory(spec["directories"][0])
            pin = open_pin(directory)
            os.close(directory)
        except OSError as error:
            self._node.log.error(f"{spec['directories'][0]}: {error.strerror}")
            pin = -1
        if pin >= 0:
            os.close(pin)
        is_known = core.attempt(*key) is not None
        if pin < 0 and not is_known:
            self._node.log.info(f"removing what an earlier boot has left of job {job_id}")
            self._remove(spec)
            return
        self._held[key] = spec
        if not is_known and job_id not in core.jobs:
            # The controller hears of it, and ends it here if the job is over.
            core.jobs[job_id] = JobHere(job_id, attempt, None, prolog="done")
        elif not is_known:
            core.remember(*key)  # a later attempt runs

    def hold(self, credential: nm.JobCredential) -> NamespaceSpec | None:
        """Return the namespace of a job that is to run here, and keep it until the job is over."""
        namespaces = self._node.configured.namespaces
        key = (credential.job_id, credential.attempt)
        spec = self._held.get(key)
        if namespaces is None or (spec is not None and spec["uid"]):
            return spec
        # One that was found again is not known with its user yet.
        self._held[key] = spec = namespace_spec(
            self._node.configured, namespaces, *key, credential.uid, credential.user_name
        )
        return spec

    def held(self, credential: nm.JobCredential) -> NamespaceSpec | None:
        """Return the namespace of a job if one is kept here."""
        return self._held.get((credential.job_id, credential.attempt))

    def pin_of(self, credential: nm.JobCredential) -> str:
        """Return the file by which others enter a job's namespace; "" if none is kept here.

        They may be in another mount namespace themselves, where it is not mounted, so it is named
        as this process sees it.
        """
        spec = self.held(credential)
        root = f"/proc/{os.getpid()}/root"
        return f"{root}{spec['directories'][0]}/{PIN}" if spec is not None else ""

    def release_ended(self) -> None:
        """Let go the namespaces of attempts that are over here."""
        core = self._node.core
        for key, spec in list(self._held.items()):
            if core.attempt(*key) is None and key in core.ended:
                del self._held[key]
                self._remove(spec)

    def _remove(self, spec: NamespaceSpec) -> None:
        task = asyncio.get_running_loop().create_task(self._removed(spec))
        self._removals.add(task)  # the loop keeps only a weak reference
        task.add_done_callback(self._removals.discard)

    async def _removed(self, spec: NamespaceSpec) -> None:
        """Have a process remove a namespace; what it leaves is removed at the next start."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            self._fork(theirs)
            await loop.sock_recv(ours, _ANSWER_BYTES)  # its process id
            await loop.sock_sendall(ours, pack({"removes": spec}))
            answer = await loop.sock_recv(ours, _ANSWER_BYTES)
            problem = unpack(answer) if answer else "its removal was killed"
        except OSError as error:
            problem = str(error.strerror)
        finally:
            ours.close()
        if problem:
            where = spec["directories"][0]
            self._node.faults.note("namespace", f"{where} is not removed: {problem}")


def prepare(namespaces: Namespaces) -> None:
    """Make the directories in which namespaces are kept ready for use.

    Raises:
        OSError: that is impossible.
    """
    for base in namespaces.base_paths:
        _prepare(base, makes=namespaces.makes_base_path)


def _prepare(base: str, *, makes: bool) -> None:
    """Make a BasePath a mount of its own, private: namespaces are kept on it.

    Others keep their rights, as in Slurm, except to write: they could be there first.

    Raises:
        OSError: that is impossible.
    """
    if makes:
        os.makedirs(base, mode=0o755, exist_ok=True)
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError(1, "is not this daemon's own directory", base)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_WRITE_OF_OTHERS)
    finally:
        os.close(descriptor)
    where = os.fsencode(os.path.realpath(base))
    if not _is_mount(where):
        mount(where, where, b"", MS_BIND)
    mount(b"none", where, b"", MS_PRIVATE)


def _is_mount(path: bytes) -> bool:
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split()[4] for line in file]
    quoted = path.replace(b"\\", rb"\134").replace(b" ", rb"\040").replace(b"\t", rb"\011")
    return quoted in points
