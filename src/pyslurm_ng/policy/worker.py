"""The process that runs the site's scripts for slurmctld: one question after the other.

It is started by slurmctld, as SlurmUser, and is worth nothing: it has no secrets besides those that
SlurmUser can read, and slurmctld ends it whenever a call takes too long. It ends by itself when
slurmctld does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from typing import Any, Protocol

import msgspec

from pyslurm_ng.policy.change_fields import CHANGE_FIELDS
from pyslurm_ng.policy.description import ERROR, Description, Said
from pyslurm_ng.policy.job_fields import FIELDS
from pyslurm_ng.policy.job_lists import Listing, Surroundings
from pyslurm_ng.policy.lua_script import ScriptError
from pyslurm_ng.policy.messages import (
    HEADER,
    AskRows,
    Begin,
    Loaded,
    Partitions,
    Question,
    Row,
    Rows,
    ToProcess,
    Verdict,
    packed,
)

_PR_SET_PDEATHSIG = 1
_FAILED = -1
_CORE_LIMIT = 0
_MOST_FILES = 256


class _Plugin(Protocol):
    def decide(
        self, job: Description, record: Row | None, surroundings: Surroundings, said: Said
    ) -> int:
        """Decide about one request."""


class Worker:
    """Reads questions from the socket and answers them.

    Attributes:
        partitions, hidden, uid, jobs, reservations, qos: see `job_lists.Surroundings`.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._decoder = msgspec.msgpack.Decoder(ToProcess)
        self._plugins: dict[str, _Plugin] = {}
        self.partitions: dict[str, Row] = {}
        self.hidden: frozenset[str] = frozenset()
        self.uid = 0
        self._forget_rows()

    def _forget_rows(self) -> None:
        self.jobs = Listing("jobs", "job_id", self._ask)
        self.reservations = Listing("reservations", "name", self._ask)
        self.qos = Listing("qos", "name", self._ask)

    def run(self) -> None:
        """Answer until the other end is closed."""
        while True:
            message = self._read()
            if isinstance(message, Begin):
                self._send(Loaded(self._begin(message)))
            elif isinstance(message, Partitions):
                self.partitions = {str(row["name"]): row for row in message.rows}
            elif isinstance(message, Question):
                self._send(self._answer(message))

    def _begin(self, message: Begin) -> list[str]:
        soft_limit = message.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (soft_limit, soft_limit))
        errors = []
        for name in message.plugins:
            try:
                self._plugins[name] = _load(name, message)
            except ScriptError as error:
                errors.append(f"job_submit/{name}: {error}"[:4096])
        return errors

    def _answer(self, question: Question) -> Verdict:
        said = Said()
        request: dict[str, Any] = msgspec.msgpack.decode(question.request)
        job = Description(
            request,
            said,
            known=question.known,
            environment=question.environment,
            script=question.script,
            fields=FIELDS if question.record is None else CHANGE_FIELDS,
        )
        self.uid, self.hidden = question.uid, frozenset(question.hidden)
        self._forget_rows()
        code = 0
        for name in question.plugins:
            code = self._ask_plugin(name, job, question.record, said)
            if code:
                break
        return Verdict(
            number=question.number,
            code=code if -(2**31) <= code < 2**32 else _FAILED,
            request=msgspec.Raw(msgspec.msgpack.encode(request)),
            environment=job.environment_bytes() if job.is_environment_changed else None,
            script=job.script if job.is_script_changed else None,
            user_lines=said.user_lines,
            log_lines=said.log_lines,
        )

    def _ask_plugin(self, name: str, job: Description, record: Row | None, said: Said) -> int:
        try:
            return self._plugins[name].decide(job, record, self, said)
        except Exception as error:  # noqa: BLE001 - a fault of ours is not the next user's
            text = f"job_submit/{name}: {type(error).__name__}: {error}"
            said.log(ERROR, text)
            said.tell(text)
            return _FAILED

    # The socket -----------------------------------------------------------------------------------

    def _ask(self, kind: str, name: str, first: int) -> tuple[list[Row], int]:
        self._send(AskRows(kind, name[:255], first))
        answer = self._read()
        while not isinstance(answer, Rows):
            if isinstance(answer, Partitions):
                self.partitions = {str(row["name"]): row for row in answer.rows}
            answer = self._read()
        return answer.rows, answer.next_id

    def _send(self, message: msgspec.Struct) -> None:
        self._channel.sendall(packed(message))

    def _read(self) -> ToProcess:
        (length,) = HEADER.unpack(self._exactly(HEADER.size))
        message: ToProcess = self._decoder.decode(self._exactly(length))
        return message

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._channel.recv(min(size, 1 << 20))
            if not part:
                os._exit(0)  # slurmctld has ended or closed the channel
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _load(name: str, message: Begin) -> _Plugin:
    if name == "lua":
        from pyslurm_ng.policy.job_submit_lua import JobSubmitLua

        return JobSubmitLua(message.directory, message.cluster_name)
    from pyslurm_ng.policy.job_submit_python import JobSubmitPython

    return JobSubmitPython(message.directory)


def main() -> None:
    """Serve on the socket that is standard input."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = socket.socket(fileno=os.dup(0))
    os.set_inheritable(channel.fileno(), False)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # what waits for the end of our output must not wait for scripts
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (_CORE_LIMIT, _CORE_LIMIT))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_FILES, _MOST_FILES))
    sys.argv[:] = ["slurmctld: job_submit"]
    try:
        Worker(channel).run()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)


if __name__ == "__main__":
    main()
