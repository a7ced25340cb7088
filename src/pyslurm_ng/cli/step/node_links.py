"""srun's connections to the nodes of a step: their state, what they send, what is sent to them.

Nothing waits for a single node: data that a node does not take is kept until it does.
"""

import os
import select

from pyslurm_ng.cli.step.link import Link, StepPort
from pyslurm_ng.kernels.records import unpack
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop

_KEY_BYTES = 32
_AT_ONCE_BYTES = 256 << 10


class NodeLinks:
    """The connections of a step's nodes, by the nodes' index.

    Args:
        ports: the first and the last that may be listened on; zeros for any.
        nodes: how many nodes there are.
        on_frame: is called with each frame of a node that is for the step's client.
        on_lost: is called with a connection that ended before the node said DONE.
        on_all_here: is called once, when each node has connected or was left out.

    Attributes:
        key: the secret that the supervisors of this step prove to know.
        port: the port that they connect to.
        is_complete: whether no node is waited for any longer.

    Raises:
        OSError: no port is free.
    """

    def __init__(
        self,
        loop: "PollLoop",
        ports: "tuple[int, int]",
        nodes: int,
        *,
        on_frame: "Callable[[Link, int, int, bytes], None]",
        on_lost: "Callable[[Link], None]",
        on_all_here: "Callable[[], None]",
    ) -> None:
        self.key = os.urandom(_KEY_BYTES)
        self.is_complete = False
        self._loop = loop
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_all_here = on_all_here
        self._links: list[Link | None] = [None] * nodes
        self._left_out: set[int] = set()
        self._orders: list[bytes] = []  # for nodes that have not connected yet
        self._is_paused = False
        self._step_port = StepPort(loop, ports, self._watch, self._hang_up)
        self.port = self._step_port.port

    # Nodes that are connected -------------------------------------------------------------------

    def leave_out(self, node: int) -> None:
        """Leave out a node."""
        self._left_out.add(node)

    def missing(self) -> "list[int]":
        """Return the nodes that have neither connected nor been left out."""
        return [
            node
            for node, link in enumerate(self._links)
            if link is None and node not in self._left_out
        ]

    def wait_no_longer(self) -> None:
        """No longer keep orders for nodes that have not connected."""
        self.is_complete = True

    def open_links(self, nodes: "list[int] | None" = None) -> "list[Link]":
        """Return the connections of these nodes, or of all, that are not over."""
        links = self._links if nodes is None else [self._links[node] for node in nodes]
        return [link for link in links if link is not None and not link.is_done]

    def link_of(self, node: int) -> "Link | None":
        """Return a node's connection; None before it has connected."""
        return self._links[node]

    @property
    def all_done(self) -> bool:
        """Whether each node that was not left out has sent DONE."""
        return all(
            node in self._left_out or (link is not None and link.is_done)
            for node, link in enumerate(self._links)
        )

    def close(self) -> None:
        """End all connections."""
        for link in self._links:
            if link is not None and link.socket is not None:
                link.socket.close()
        self._step_port.close()

    def _hello(self, link: Link, kind: int, body: bytes) -> None:
        """Admit a connection that knows its half of the key, and take the place that it names."""
        theirs, ours = step_io.halves(self.key)
        self._step_port.known(link)
        try:
            fields = unpack(body) if kind == step_io.HELLO else {}
            node = fields["node_index"] if step_io.same_key(fields["key"], theirs) else -1
        except (ValueError, KeyError, TypeError):
            node = -1
        is_known = isinstance(node, int) and 0 <= node < len(self._links)
        if not is_known or self._links[node] is not None:
            link.is_done = True
            self._hang_up(link)
            return
        link.node = node
        self._links[node] = link
        self.send(link, step_io.pack(step_io.WELCOME, step_io.ALL, ours))
        for frame in self._orders:
            self.send(link, frame)
        if not self.missing():
            self.is_complete = True
            self._orders.clear()
            self._step_port.close()
            self._on_all_here()

    # Receiving ----------------------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Stop reading from the nodes, so that their tasks slow down, or go on reading."""
        self._is_paused = paused
        for link in self._links:
            if link is not None and link.socket is not None:
                self._watch(link)

    def _watch(self, link: Link) -> None:
        assert link.socket is not None
        events = 0 if self._is_paused and link.node >= 0 else select.POLLIN
        if link.unsent:
            events |= select.POLLOUT
        self._loop.watch(link.socket.fileno(), events, lambda got: self._on_ready(link, got))

    def _on_ready(self, link: Link, events: int) -> None:
        if link.socket is not None and events & select.POLLOUT:
            self._flush(link)
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read(link)

    def _read(self, link: Link) -> None:
        if link.socket is None:
            return
        try:
            data = link.socket.recv(_AT_ONCE_BYTES)
            frames = link.frames.feed(data)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, step_io.BadStepFrame):
            data, frames = b"", []
        for kind, task, body in frames:
            self._take(link, kind, task, body)
            if link.is_done:
                return
        if not data:
            self._lose(link)

    def _take(self, link: Link, kind: int, task: int, body: bytes) -> None:
        if link.node < 0:
            self._hello(link, kind, body)
        elif kind == step_io.PING:
            self.send(link, step_io.pack(step_io.PONG))
        elif kind == step_io.DONE:
            link.is_done = True
            self._hang_up(link)
        else:
            self._on_frame(link, kind, task, body)

    def _lose(self, link: Link) -> None:
        self._step_port.known(link)
        self._hang_up(link)
        if link.node >= 0 and not link.is_done:
            link.is_done = True
            self._on_lost(link)

    def _hang_up(self, link: Link) -> None:
        if link.socket is not None:
            self._loop.drop(link.socket.fileno())
            link.socket.close()
            link.socket = None

    # Sending ------------------------------------------------------------------------------------

    def send(self, link: Link, frame: bytes) -> None:
        """Send a frame as fast as the node takes it."""
        if link.socket is not None:
            link.unsent += frame
            self._flush(link)

    def send_all(self, frame: bytes) -> None:
        """Send to every node; nodes that have not connected yet get it after their HELLO."""
        if not self.is_complete:
            self._orders.append(frame)
        for link in self.open_links():
            self.send(link, frame)

    def _flush(self, link: Link) -> None:
        assert link.socket is not None
        try:
            while link.unsent:
                with memoryview(link.unsent) as view:
                    sent = link.socket.send(view[:_AT_ONCE_BYTES])
                del link.unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            # Data that it sent before it ended must still be read; reading shows the end.
            link.unsent.clear()
        self._watch(link)


class StepOrders:
    """Orders to all nodes of one step.

    Attributes:
        is_ending: whether srun itself ends the step; then reports of its end are no news.
    """

    def __init__(self, links: NodeLinks) -> None:
        self._links = links
        self.is_ending = False

    def signal(self, number: int) -> None:
        """Send a signal to every task."""
        self._links.send_all(step_io.pack_number(step_io.SIGNAL, step_io.ALL, number))

    def end_by(self, number: int) -> None:
        """Send every task a signal that is to end it."""
        self.is_ending = True
        self.signal(number)

    def terminate(self, why: str) -> None:
        """End the step: TERM now, KILL after KillWait."""
        self.is_ending = True
        self._links.send_all(step_io.pack(step_io.TERMINATE, step_io.ALL, why.encode()))
