"""Files that users send to this node with sbcast and srun --bcast, block by block.

A process that has become the user writes each file, and the user may stop that process. So a
transfer that does not answer in time is given up and its process killed. When the job is over, so
are its transfers. Each user has a share of all places. A user with a full share is told to come
back. When all places are taken, the user with most makes room.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.stepd.file_receiver import DATA, END, PIECE_BYTES
from pyslurm_ng.d.stepd.step_cgroup import leave_job
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.stream import Call

if TYPE_CHECKING:
    from pyslurm_ng.d.host.cgroup import Group
    from pyslurm_ng.d.spec.node_setup import Account
    from pyslurm_ng.d.spool.step_contract import FileSpec, NamespaceSpec

_MOST_OPEN = 256
_MOST_OF_USER = 32
_ANSWER_LIMIT_S = 60.0
_IDLE_LIMIT_S = 300.0
_KILL_AFTER_S = 5.0
"""Time for a writer that was let go to remove its unfinished file."""
_BUSY = 16  # EBUSY
_NO_SUCH_TRANSFER = 9  # EBADF
_REVOKED = Errno.ESLURMD_CREDENTIAL_REVOKED, "Job credential revoked"


@dataclass(eq=False, slots=True)
class _Transfer:
    credential: nm.JobCredential
    channel: socket.socket
    group: Group | None
    idle: asyncio.TimerHandle | None = None
    is_busy: bool = False
    process: int = -1  # a pidfd of the writer


class FileTransfers:
    """All files that are being sent to this node; a separate process writes each.

    Args:
        fork_receiver: starts such a process with its end of a channel.
        is_over: whether the job of a credential has ended on this node.
        group_of: makes the group of a credential's job; None where there are none.
        namespace_of: its namespace; None where there are none.
    """

    def __init__(
        self,
        fork_receiver: Callable[[socket.socket], None],
        is_over: Callable[[nm.JobCredential], bool],
        group_of: Callable[[nm.JobCredential], Group | None],
        namespace_of: Callable[[nm.JobCredential], NamespaceSpec | None],
    ) -> None:
        self._fork_receiver = fork_receiver
        self._is_over = is_over
        self._group_of = group_of
        self._namespace_of = namespace_of
        self._loop = asyncio.get_running_loop()
        self._open: dict[bytes, _Transfer] = {}

    async def begin(
        self, call: Call, request: nm.SendFile, credential: nm.JobCredential, account: Account
    ) -> None:
        """Take a file's first block; its credential has been checked."""
        if self._is_over(credential):
            call.error(*_REVOKED)
            return
        if request.key in self._open:
            call.error(_BUSY, "this file is under way already")
            return
        refusal = self._refusal(credential.uid)
        if refusal:
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, refusal)
            return
        try:
            group = self._group_of(credential)
        except OSError as error:
            where = error.filename or "its job"
            call.error(error.errno or 5, f"control group {where}: {error.strerror}")
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._fork_receiver(theirs)
        self._open[request.key] = transfer = _Transfer(credential, ours, group)
        spec: FileSpec = {
            "uid": credential.uid,
            "gid": credential.gid,
            "groups": list(account.groups),
            "path": request.path,
            "mode": request.mode,
            "times_us": list(request.times_us),
            "force": request.force,
            "make_directory": request.make_directory,
            "is_packed": request.is_packed,
            "group_files": group.join_files() if group else [],
            "namespace": self._namespace_of(credential),
        }
        transfer.is_busy = True
        # Told before it becomes the user, so it is the writer's own word.
        process_id = await self._answer(transfer)
        try:
            transfer.process = os.pidfd_open(process_id)
        except OSError:
            pass  # gone: the next exchange says so
        await self._pass_on(call, request, transfer, [pack(spec)])

    def _refusal(self, uid: int) -> str:
        """Return why a user may not send one more file now, "" if it is allowed; make room for
        it."""
        open_counts = Counter(transfer.credential.uid for transfer in self._open.values())
        if open_counts[uid] >= _MOST_OF_USER:
            return f"{_MOST_OF_USER} files of uid {uid} are under way to this node"
        if len(self._open) >= _MOST_OPEN:
            most, count = open_counts.most_common(1)[0]
            if count <= open_counts[uid] + 1:
                return f"{_MOST_OPEN} files are under way to this node"
            self._drop(
                next(key for key, transfer in self._open.items() if transfer.credential.uid == most)
            )
        return ""

    async def go_on(self, call: Call, request: nm.SendFile) -> None:
        """Take a further block."""
        transfer = self._open.get(request.key)
        if transfer is None or call.peer.uid not in (0, transfer.credential.uid):
            call.error(_NO_SUCH_TRANSFER, "no such file is under way")
            return
        if transfer.is_busy:
            call.error(_BUSY, "a block of this file is being written")
            return
        if self._is_over(transfer.credential):
            self._drop(request.key)
            call.error(*_REVOKED)
            return
        await self._pass_on(call, request, transfer, [])

    async def _pass_on(
        self, call: Call, request: nm.SendFile, transfer: _Transfer, first: list[bytes]
    ) -> None:
        """Hand a block to the writer; answer when it is written."""
        transfer.is_busy = True
        if transfer.idle is not None:
            transfer.idle.cancel()
        data = request.data
        starts = range(0, len(data), PIECE_BYTES)
        pieces = first + [DATA + data[start : start + PIECE_BYTES] for start in starts]
        if request.is_last:
            pieces.append(END)
        problem = 0
        for piece in pieces:
            problem = problem or await self._exchange(transfer, piece)
        transfer.is_busy = False
        if self._open.get(request.key) is not transfer:
            transfer.channel.close()  # it had to make room meanwhile
        elif problem or request.is_last:
            self._drop(request.key)
        else:
            transfer.idle = self._loop.call_later(_IDLE_LIMIT_S, self._drop, request.key)
        if problem:
            call.error(problem, os.strerror(problem))
        else:
            call.reply(Done())

    async def _exchange(self, transfer: _Transfer, body: bytes) -> int:
        """Return the errno of one message to the writer, 0 for none."""
        try:
            sending = self._loop.sock_sendall(transfer.channel, body)
            await asyncio.wait_for(sending, _ANSWER_LIMIT_S)
        except asyncio.TimeoutError:
            return 110  # ETIMEDOUT
        except OSError as error:
            return error.errno or 5
        return await self._answer(transfer)

    async def _answer(self, transfer: _Transfer) -> int:
        """Return the next number that the writer says, or an errno for none."""
        try:
            receiving = self._loop.sock_recv(transfer.channel, 64)
            answer = await asyncio.wait_for(receiving, _ANSWER_LIMIT_S)
            return int(unpack(answer)) if answer else 5  # EIO: it was killed
        except asyncio.TimeoutError:
            return 110  # ETIMEDOUT
        except OSError as error:
            return error.errno or 5
        except (ValueError, msgspec.MsgspecError):
            return 5

    def _drop(self, key: bytes) -> None:
        """Let a writer go; a file that is not whole goes with it."""
        transfer = self._open.pop(key, None)
        if transfer is None:
            return
        if transfer.idle is not None:
            transfer.idle.cancel()
        # A block under way ends with it: the other end of a closed descriptor would not be seen.
        with contextlib.suppress(OSError):
            transfer.channel.shutdown(socket.SHUT_RDWR)
        if not transfer.is_busy:
            transfer.channel.close()
        if transfer.process >= 0:
            process, transfer.process = transfer.process, -1
            kill = self._loop.call_later(_KILL_AFTER_S, _kill, process)
            self._loop.add_reader(process, self._ended, process, kill, transfer.group)

    def _ended(self, process: int, kill: asyncio.TimerHandle, group: Group | None) -> None:
        """Clear away what a writer leaves: it may have been the last in its job's group."""
        kill.cancel()
        self._loop.remove_reader(process)
        os.close(process)
        if group is not None:
            leave_job(group)

    def drop_ended(self) -> None:
        """Give up the transfers of jobs that are over: nothing of a job may outlive it."""
        for key, transfer in list(self._open.items()):
            if self._is_over(transfer.credential):
                self._drop(key)

    def close(self) -> None:
        """Give up all transfers."""
        for key in list(self._open):
            self._drop(key)


def _kill(process: int) -> None:
    """End a writer that its user may have stopped."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
