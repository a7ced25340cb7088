"""The PMIx server: libpmix serves the ranks of this node, and this passes on what concerns others.

This process has the user's rights: what a rank sends is never read by root.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
from collections import deque
from typing import TYPE_CHECKING

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.pmix import records as c
from pyslurm_ng.d.pmix.door import Door
from pyslurm_ng.d.pmix.exchange import PmixExchange
from pyslurm_ng.d.pmix.host import HostFunctions
from pyslurm_ng.d.pmix.job import JobInfo
from pyslurm_ng.wire import mpi_frames, step_io

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.d.spool.step_contract import MpiSpec

_START_S = 30.0


class PmixServer:
    """Serves until the supervisor closes the channel.

    Args:
        channel: a descriptor, for frames of `wire.mpi_frames` in both directions.
        directory: where the library's temporary files will be; it is made and removed here.
    """

    def __init__(
        self, library: ctypes.CDLL, spec: MpiSpec, node: str, node_index: int, channel: int,
        directory: str,
    ) -> None:  # fmt: skip
        self._library = library
        self._channel = channel
        os.mkdir(directory, 0o700)
        self._directory = directory
        self._job = JobInfo(library, spec, node, node_index, self._directory)
        self._exchange = PmixExchange(library, self._job, channel)
        self._host = HostFunctions(self._exchange, self._job)
        self._frames = step_io.Frames()
        self._is_served = True
        self._done = c.OpDone(self._op_done)
        self._op_status: deque[int] = deque()
        self._procs: list[c.Proc] = []

    def run(self) -> None:
        """Begin, tell the supervisor the variables of the tasks, and serve."""
        try:
            variables = self._begin()
            loop = PollLoop()
            door = Door(loop, self._directory)
            loop.watch(self._exchange.wake, select.POLLIN, lambda _: self._do_calls())
            loop.watch(self._channel, select.POLLIN, lambda _: self._hear())
            self._exchange.send({"do": "ready", "data": variables})
            while self._is_served:
                loop.turn()
            door.close()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _hear(self) -> None:
        data = os.read(self._channel, step_io.CHUNK_BYTES)
        for _, _, body in self._frames.feed(data):
            self._exchange.take(mpi_frames.parse(body))
        self._is_served = bool(data)

    def _do_calls(self) -> None:
        os.read(self._exchange.wake, 4096)
        while self._exchange.calls:
            self._exchange.calls.popleft()()

    def _begin(self) -> bytes:
        """Start the library; return the tasks' variables, each ended by NUL. Raises OSError."""
        texts = c.infos(
            c.info("pmix.srvr.tmpdir", c.STRING, self._directory.encode()),
            c.info("pmix.sys.tmpdir", c.STRING, self._directory.encode()),
            c.info("pmix.srv.nspace", c.STRING, self._job.server),
            c.info("pmix.srv.rank", c.RANK, self._job.here),
        )
        self._check("PMIx_server_init", ctypes.byref(self._host.module), texts, len(texts))
        known = self._job.infos()
        self._wait(
            "PMIx_server_register_nspace",
            self._job.namespace, len(self._job.local), known, len(known),
        )  # fmt: skip
        for rank in self._job.local:
            proc = c.Proc(self._job.namespace, rank)
            self._procs.append(proc)
            self._wait(
                "PMIx_server_register_client",
                ctypes.byref(proc), os.getuid(), os.getgid(), None,
            )  # fmt: skip
        return self._variables()

    def _variables(self) -> bytes:
        entries = ctypes.POINTER(ctypes.c_char_p)()
        proc = c.Proc(self._job.namespace, self._job.local[0])
        self._check("PMIx_server_setup_fork", ctypes.byref(proc), ctypes.byref(entries))
        variables = []
        index = 0
        while entries and entries[index] is not None:
            if not entries[index].startswith(b"PMIX_RANK="):  # each task has its own
                variables.append(entries[index] + b"\0")
            index += 1
        return b"".join(variables)

    def _check(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status not in (c.SUCCESS, c.OPERATION_SUCCEEDED):
            raise OSError(f"{name}: error {status}")

    def _wait(self, name: str, *arguments: object) -> None:
        """Call a function that says later that it is done. Raises OSError."""
        status = getattr(self._library, name)(*arguments, self._done, None)
        if status == c.OPERATION_SUCCEEDED:
            return
        if status == c.SUCCESS:
            poll = select.poll()
            poll.register(self._exchange.wake, select.POLLIN)
            while not self._op_status and poll.poll(int(_START_S * 1000)):
                self._do_calls()
            status = self._op_status.popleft() if self._op_status else c.ERROR
        if status not in (c.SUCCESS, c.OPERATION_SUCCEEDED):
            raise OSError(f"{name}: error {status}")

    def _op_done(self, status: int, _: object) -> None:
        self._exchange.later(lambda: self._op_status.append(status))


def serve(
    spec: MpiSpec, node: str, node_index: int, channel: int, directory: str,
    become: Callable[[], None],
) -> None:  # fmt: skip
    """Be the server; a problem is told to the supervisor.

    Args:
        become: takes the user's rights, after all is loaded.
    """
    from pyslurm_ng.base import libpmix

    os.environ.update({"PMIX_MCA_gds": "hash", "HOME": "/"})
    try:
        library = libpmix.load()
        become()
        PmixServer(library, spec, node, node_index, channel, directory).run()
    except (OSError, ValueError, IndexError) as problem:
        frame = mpi_frames.frame({"do": "failed", "text": str(problem)[:1000]})
        os.write(channel, frame)
