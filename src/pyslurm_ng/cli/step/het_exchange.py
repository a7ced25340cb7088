"""The exchange of an MPI step with several components: the process above their sruns is the hub.

Each component's srun passes on what its nodes send and get, in frames of `wire.step_io` whose task
is the node in the whole step: MPI, EXIT (a rank of that node has ended) and TERMINATE (a task has
failed, which ends all components).
"""

import select
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socketpair

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.cli.step.mpi_hub import ExchangeEnds, MpiHub
from pyslurm_ng.cli.step.task_ends import TASK_FAILURE
from pyslurm_ng.wire import mpi_frames, step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

_AT_ONCE_BYTES = 256 << 10


def pair() -> "tuple[socket, socket]":
    """Return both ends of a connection between a component's srun and the hub."""
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)


class _Peer:
    """One end of such a connection in a loop.

    Args:
        on_frame: called with kind, node and body.
        on_end: called once at its end.
    """

    def __init__(
        self,
        loop: PollLoop,
        connection: "socket",
        on_frame: "Callable[[int, int, bytes], None]",
        on_end: "Callable[[], None]",
    ) -> None:
        connection.setblocking(False)
        self._loop = loop
        self._socket = connection
        self._on_frame = on_frame
        self._on_end = on_end
        self._frames = step_io.Frames()
        self._unsent = bytearray()
        self.is_open = True
        self._watch()

    def send(self, frame: bytes) -> None:
        """Send as fast as the other side reads."""
        if self.is_open:
            self._unsent += frame
            self._write()

    def _watch(self) -> None:
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._loop.watch(self._socket.fileno(), events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write()
        if self.is_open and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read()

    def _write(self) -> None:
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = self._socket.send(view[:_AT_ONCE_BYTES])
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._unsent.clear()  # reading shows the end
        self._watch()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_AT_ONCE_BYTES)
            frames = self._frames.feed(data)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, step_io.BadStepFrame):
            data, frames = b"", []
        for kind, node, body in frames:
            self._on_frame(kind, node, body)
        if not data and self.is_open:
            self.is_open = False
            self._loop.drop(self._socket.fileno())
            self._socket.close()
            self._on_end()


class ComponentExchange:
    """A component's side, used as a `NodeExchange`; nodes are counted within the component.

    Args:
        connection: to the hub.
        first_node: of the component, among all nodes.
    """

    def __init__(self, connection: "socket", first_node: int) -> None:
        self._connection = connection
        self._first_node = first_node
        self._peer: _Peer | None = None

    def begin(
        self,
        loop: PollLoop,
        send: "Callable[[int, bytes], bool]",
        end: "Callable[[str], None]",
    ) -> None:
        """Serve from now on, as `NodeExchange` does."""

        def take(kind: int, node: int, body: bytes) -> None:
            if kind == step_io.MPI:
                if not send(node - self._first_node, step_io.pack(step_io.MPI, step_io.ALL, body)):
                    self._refuse(node, body)
            elif kind == step_io.TERMINATE:
                end(body.decode("utf-8", "replace"))

        self._peer = _Peer(loop, self._connection, take, lambda: None)

    def _refuse(self, node: int, body: bytes) -> None:
        """Answer for a node that has ended."""
        answer = mpi_frames.refusal(mpi_frames.parse(body))
        if answer is not None and self._peer is not None:
            frame = mpi_frames.frame(answer)[step_io.HEAD_BYTES :]
            self._peer.send(step_io.pack(step_io.MPI, node, frame))

    def take(self, node: int, body: bytes) -> None:
        """Pass on a message of a node."""
        if self._peer is not None:
            self._peer.send(step_io.pack(step_io.MPI, self._first_node + node, body))

    def rank_ended(self, node: int, rank: int) -> None:
        """Pass on that a rank has ended."""
        if self._peer is not None:
            node += self._first_node
            self._peer.send(step_io.pack_number(step_io.EXIT, node, rank, 0))

    def end_others(self) -> None:
        """End the other components: a task of this one has failed."""
        if self._peer is not None:
            self._peer.send(step_io.pack(step_io.TERMINATE, self._first_node))


def serve_components(connections: "list[socket]", node_counts: "list[int]") -> None:
    """Be the hub until all components have ended."""
    loop = PollLoop()
    hub = MpiHub(sum(node_counts))
    peers: list[_Peer] = []
    owner = [index for index, count in enumerate(node_counts) for _ in range(count)]

    def end_all(text: str, but: int = -1) -> None:
        for index, peer in enumerate(peers):
            if index != but:
                peer.send(step_io.pack(step_io.TERMINATE, step_io.ALL, text.encode()[:4096]))

    def take(kind: int, node: int, body: bytes) -> None:
        try:
            if kind == step_io.MPI:
                for to_node, frame in hub.take(node, body):
                    message = step_io.pack(step_io.MPI, to_node, frame[step_io.HEAD_BYTES :])
                    peers[owner[to_node]].send(message)
            elif kind == step_io.EXIT:
                hub.rank_ended(node, step_io.numbers(body)[0])
            elif kind == step_io.TERMINATE:
                end_all(TASK_FAILURE, but=owner[node])
        except ExchangeEnds as problem:
            end_all(str(problem))

    def on_end(index: int) -> "Callable[[], None]":
        def ended() -> None:
            """Its ranks have ended, or nobody hears of them any more."""
            try:
                for node, owned_by in enumerate(owner):
                    if owned_by == index:
                        hub.rank_ended(node, mpi_frames.NONE)
            except ExchangeEnds:
                end_all("another component has ended, and others wait for it")

        return ended

    for index, connection in enumerate(connections):
        peers.append(_Peer(loop, connection, take, on_end(index)))
    while any(peer.is_open for peer in peers):
        loop.turn()
