"""Parts of the files that jobs write, read by a process with the rights of the job's user.

The file may lie on a file system that does not answer, so each reader has only so long and is then
killed; only so many read at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.output_messages import MOST_BYTES, JobFilePart, ReadJobFile

if TYPE_CHECKING:
    from pyslurm_ng.d.spec.node_setup import Account
    from pyslurm_ng.d.spool.step_contract import NamespaceSpec, ReadSpec
    from pyslurm_ng.wire.node_messages import JobCredential

MOST_READERS = 32
ANSWER_S = 8.0
_MESSAGE_BYTES = MOST_BYTES + 4096
_INVALID, _IO_ERROR, _TIMED_OUT = 22, 5, 110


class OutputReader:
    """Answers ReadJobFile.

    Args:
        fork: starts a reader with its end of a channel (`d.stepd.file_receiver`).
        namespace_of: a job's namespace, if one is kept here.
    """

    def __init__(
        self,
        node: LocalNode,
        credentials: CredentialChecks,
        accounts: Accounts,
        fork: Callable[[socket.socket], None],
        namespace_of: Callable[[JobCredential], NamespaceSpec | None],
    ) -> None:
        self._node = node
        self._credentials = credentials
        self._accounts = accounts
        self._fork = fork
        self._namespace_of = namespace_of
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, request: ReadJobFile, answer: Answer) -> None:
        """Read a part of a file, or say why not."""
        try:
            credential = self._credentials.open(request.credential)
            self._credentials.check_time(credential)
        except AuthError as error:
            answer(ErrorReply(Errno.ESLURMD_CREDENTIAL_REVOKED, error.text))
            return
        if not request.path.startswith("/") or "\0" in request.path:
            answer(ErrorReply(_INVALID, "the path must be absolute"))
            return
        if len(self._tasks) >= MOST_READERS:
            text = f"{MOST_READERS} files are being read on this node"
            answer(ErrorReply(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text))
            return

        def failed(error: BaseException) -> None:
            self._node.faults.note("file", f"output of uid {credential.uid}", error)
            answer(ErrorReply(Errno.ESLURM_INTERNAL, INTERNAL))

        self._accounts.call(
            credential, lambda account: self._begin(request, credential, account, answer), failed
        )

    def _begin(
        self, request: ReadJobFile, credential: JobCredential, account: Account, answer: Answer
    ) -> None:
        work = self._read(request, credential, account, answer)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    async def _read(
        self, request: ReadJobFile, credential: JobCredential, account: Account, answer: Answer
    ) -> None:
        spec: ReadSpec = {
            "uid": credential.uid,
            "gid": credential.gid,
            "groups": list(account.groups),
            "path": request.path,
            "offset": request.offset,
            "length": request.length,
            "namespace": self._namespace_of(credential),
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        process = -1
        try:
            self._fork(theirs)
            # Told before it becomes the user, so it is the reader's own word.
            process = os.pidfd_open(unpack(await _next(ours)))
            await asyncio.get_running_loop().sock_sendall(ours, pack(spec))
            problem, size, offset, data = unpack(await _next(ours))
            if problem:
                answer(ErrorReply(problem, os.strerror(problem)))
            else:
                answer(JobFilePart(size, offset, data))
        except asyncio.TimeoutError:
            answer(ErrorReply(_TIMED_OUT, os.strerror(_TIMED_OUT)))
        except (OSError, ValueError, TypeError) as error:
            number = getattr(error, "errno", None) or _IO_ERROR
            answer(ErrorReply(number, os.strerror(number)))
        finally:
            ours.close()
            if process >= 0:
                _kill(process)


async def _next(channel: socket.socket) -> bytes:
    receiving = asyncio.get_running_loop().sock_recv(channel, _MESSAGE_BYTES)
    return await asyncio.wait_for(receiving, ANSWER_S)


def _kill(process: int) -> None:
    """End a reader; most have ended by themselves."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    os.close(process)
