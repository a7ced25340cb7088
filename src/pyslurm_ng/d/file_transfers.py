"""Files that users send to this node with sbcast and srun --bcast, block by block."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pyslurm_ng._records import pack, unpack
from pyslurm_ng.d.stepd.file_receiver import DATA, END, PIECE_BYTES
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.stream import Call

if TYPE_CHECKING:
    from pyslurm_ng.d.job_spec import Account

_MOST_OPEN = 256
_ANSWER_LIMIT_S = 60.0
_IDLE_LIMIT_S = 300.0
_TOO_MANY = 23  # ENFILE
_NO_SUCH_TRANSFER = 9  # EBADF


@dataclass(eq=False, slots=True)
class _Transfer:
    uid: int
    channel: socket.socket
    idle: asyncio.TimerHandle | None = None


class FileTransfers:
    """All files that are under way to this node; each is written by a process of its own.

    Args:
        fork_receiver: starts such a process with its end of a channel.
    """

    def __init__(self, fork_receiver: Callable[[socket.socket], None]) -> None:
        self._fork_receiver = fork_receiver
        self._loop = asyncio.get_running_loop()
        self._open: dict[bytes, _Transfer] = {}

    async def begin(
        self, call: Call, request: nm.SendFile, credential: nm.JobCredential, account: Account
    ) -> None:
        """Take a file's first block, whose credential has been checked."""
        if len(self._open) >= _MOST_OPEN or request.key in self._open:
            call.error(_TOO_MANY, os.strerror(_TOO_MANY))
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._fork_receiver(theirs)
        self._open[request.key] = transfer = _Transfer(credential.uid, ours)
        spec = {
            "uid": credential.uid,
            "gid": credential.gid,
            "groups": list(account.groups),
            "path": request.path,
            "mode": request.mode,
            "times_us": list(request.times_us),
            "force": request.force,
            "make_directory": request.make_directory,
            "is_packed": request.is_packed,
        }
        await self._pass_on(call, request, transfer, [pack(spec)])

    async def go_on(self, call: Call, request: nm.SendFile) -> None:
        """Take a further block."""
        transfer = self._open.get(request.key)
        if transfer is None or call.peer.uid not in (0, transfer.uid):
            call.error(_NO_SUCH_TRANSFER, "no such file is under way")
            return
        await self._pass_on(call, request, transfer, [])

    async def _pass_on(
        self, call: Call, request: nm.SendFile, transfer: _Transfer, first: list[bytes]
    ) -> None:
        """Hand a block to the writer; answer when it is written."""
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
        if problem or request.is_last:
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
            await self._loop.sock_sendall(transfer.channel, body)
            answer = await asyncio.wait_for(
                self._loop.sock_recv(transfer.channel, 64), _ANSWER_LIMIT_S
            )
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
        if transfer is not None:
            transfer.channel.close()

    def close(self) -> None:
        """Let all go."""
        for key in list(self._open):
            self._drop(key)
