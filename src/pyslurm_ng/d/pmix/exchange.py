"""What the PMIx server asks of the other nodes over its supervisor, and what they ask of it.

All of this runs in the loop, except `later`, `let_go` and the library's answer to a fetch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections import deque
from typing import TYPE_CHECKING, Any

from pyslurm_ng.d.pmix import records as c
from pyslurm_ng.wire import mpi_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.d.pmix.job import JobInfo


class PmixExchange:
    """Requests that are under way, in both directions.

    Args:
        channel: a descriptor, for frames of `wire.mpi_frames`.

    Attributes:
        wake: readable when there are `calls` for the loop.
    """

    def __init__(self, library: ctypes.CDLL, job: JobInfo, channel: int) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.wake, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._library = library
        self._job = job
        self._channel = channel
        self._kept: dict[int, Any] = {}
        self._numbers = 0
        self._fences: dict[bytes, deque[tuple[Any, int]]] = {}
        self._parts: dict[bytes, bytearray] = {}
        self._asked: dict[int, Callable[[int, bytes], None]] = {}
        self._release = c.Release(self.let_go)
        self._answer = c.ModexAnswer(self._on_answer)

    def later(self, call: Callable[[], None]) -> None:
        """Have the loop do something; called by the library's thread."""
        self.calls.append(call)
        try:
            os.write(self._wake_write, b".")
        except BlockingIOError:
            return  # it has enough to wake up

    def send(self, fields: dict[str, Any]) -> None:
        """Send to the supervisor; it reads as long as there is a step."""
        frame = memoryview(mpi_frames.frame(fields))
        while frame:
            frame = frame[os.write(self._channel, frame) :]

    def keep(self, what: object) -> int:
        """Keep what the library reads until it lets go; return the number by which it does."""
        self._numbers += 1
        self._kept[self._numbers] = what
        return self._numbers

    def let_go(self, number: int) -> None:
        """Forget what the library does not need any more."""
        self._kept.pop(number, None)

    def give(self, done: Any, context: int, status: int, data: bytes) -> None:
        """Hand data to the library, which says when it does not need it any more."""
        content = ctypes.create_string_buffer(data, max(len(data), 1))
        done(
            c.SUCCESS if not status else c.ERR_NOT_FOUND, ctypes.addressof(content), len(data),
            context, self._release, self.keep(content),
        )  # fmt: skip

    def begin_fence(self, ranks: set[int] | None, data: bytes, done: Any, context: int) -> None:
        """Give this node's part of a collective of some ranks, or of all."""
        nodes: list[int] = []
        of = b""
        if ranks is not None:
            nodes = sorted({self._job.node_of(rank) for rank in ranks})
            of = hashlib.sha256(",".join(map(str, sorted(ranks))).encode()).digest()
        if len(self._job.ranks) == 1 or nodes == [self._job.here]:
            self.give(done, context, 0, data)
            return
        self._fences.setdefault(of, deque()).append((done, context))
        for piece, more in mpi_frames.pieces(data):
            self.send({"do": "fence", "of": of, "nodes": nodes, "data": piece, "more": more})

    def tag(self, then: Callable[[int, bytes], None]) -> int:
        """Return the tag of a request whose answer `then` takes."""
        self._numbers += 1
        self._asked[self._numbers] = then
        return self._numbers

    def ask(
        self, what: str, name: bytes, data: bytes, then: Callable[[int, bytes], None],
        owner: int = mpi_frames.NONE,
    ) -> None:  # fmt: skip
        """Publish, look up or unpublish a name."""
        tag = self.tag(then)
        self.send(
            {"do": "ask", "tag": tag, "what": what, "name": name, "owner": owner, "data": data}
        )  # fmt: skip

    def take(self, fields: dict[str, Any]) -> None:
        """Take a message of srun or of another node."""
        if fields["do"] == "fence":
            part = self._parts.setdefault(fields["of"], bytearray())
            part += fields["data"]
            if not fields["more"]:
                done, context = self._fences[fields["of"]].popleft()
                self.give(done, context, 0, bytes(self._parts.pop(fields["of"])))
        elif fields["do"] in ("told", "fetched"):
            then = self._asked.pop(fields["tag"], None)
            if then is not None:
                then(fields["status"], fields["data"])
        elif fields["do"] == "fetch":
            self._fetch(fields["tag"], fields["node"], fields["rank"])

    def _fetch(self, tag: int, node: int, rank: int) -> None:
        """Get from the library what a rank here has put, for another node."""
        proc = c.Proc(self._job.namespace, rank)
        number = self.keep((proc, tag, node))
        status = self._library.PMIx_server_dmodex_request(
            ctypes.byref(proc), self._answer, ctypes.c_void_p(number)
        )
        if status != c.SUCCESS:
            self.let_go(number)
            self._fetched(tag, node, 1, b"")

    def _on_answer(self, status: int, data: int, size: int, number: int) -> None:
        """Take what a rank has put; this runs in the library's thread."""
        _, tag, node = self._kept.pop(number)
        content = ctypes.string_at(data, size) if size and not status else b""
        self.later(lambda: self._fetched(tag, node, 1 if status else 0, content))

    def _fetched(self, tag: int, node: int, status: int, data: bytes) -> None:
        if len(data) > mpi_frames.MOST_VALUE_BYTES:
            status, data = 1, b""
        self.send({"do": "fetched", "tag": tag, "node": node, "status": status, "data": data})
