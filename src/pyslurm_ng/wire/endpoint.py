"""Messages between daemons over ZeroMQ: one class owns the sockets and matches replies.

**Who dials whom.** Every slurmd dials every controller of SlurmctldHost (one DEALER each); the
controller binds one ROUTER and answers and commands its nodes over the connections they made.
So ten thousand nodes need one socket here and one connection each, a node may be behind a firewall,
and ZeroMQ reconnects to a controller that comes back. A node that has not dialled has not
registered: `send` raises `PeerGone`.

**Ports.** Commands use SlurmctldPort, SlurmdPort and DbdPort with plain streams. The ROUTER
listens on one more, which both sides compute by `zmq_port`: `SlurmctldParameters=zmq_port=N`,
else SlurmctldPort + 10000, minus 20000 where that would exceed 65535.

**Identity.** Each message carries a credential (`wire.auth`) and is checked like a command's:
size, credential, digest, role, schema, in this order. ZeroMQ's routing ids are random and mean
nothing: a name belongs to the connection that last proved it. Replies are matched by sequence and
must come from the peer that was asked.

**Strangers.** A message is one part: head, kind, credential and body, so that its size is bounded
before it is kept. With auth/slurm connections are CURVE's, by a key that is derived from slurm.key:
a peer without the key cannot send a message at all. `wire.link_watch` bounds what connections
without a proof may hold together.

**Edges.** ZeroMQ's descriptor is edge-triggered and a send may swallow the edge, so every wake-up
drains until empty (with a bound per turn of the loop, then again), and every send re-checks.
Queues are bounded (high-water marks); a message without room raises `PeerBusy` at the sender.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import zmq

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.admissions import refusal_code
from pyslurm_ng.wire.auth import AuthError, Peer, body_digest, check_digest
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.link_monitor import LinkMonitor
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.open_requests import Done, OpenRequests, PeerBusy, PeerGone, RequestFailed
from pyslurm_ng.wire.table import MessageError
from pyslurm_ng.wire.zmq_sockets import bind_router, dealer_socket, descriptor_of, router_socket

DRAIN_PER_TURN = 1_024
REFUSALS_ANSWERED_PER_S = 100


def zmq_port(slurmctld_port: int, slurmctld_parameters: Iterable[str] = ()) -> int:
    """Return the controller's ZeroMQ port; raise ValueError for a bad `zmq_port=`."""
    for word in slurmctld_parameters:
        key, _, value = word.strip().partition("=")
        if key.lower() == "zmq_port":
            if not value.isdecimal() or not 0 < int(value) < 65536:
                raise ValueError(f"SlurmctldParameters=zmq_port={value}: 1 to 65535 is allowed")
            return int(value)
    port = slurmctld_port + 10_000
    return port if port < 65536 else port - 20_000


Answer = Callable[[msgspec.Struct], None]
OnMessage = Callable[[msgspec.Struct, Peer, Answer], None]


class _Origin(NamedTuple):
    """The place that a message came from and its reply goes to.

    `sequence` is 0 if no reply is waited for, `route` empty for a dialled daemon.
    """

    socket: zmq.Socket[bytes]
    route: bytes
    sequence: int


class Endpoint:
    """The ZeroMQ sockets of one daemon. Only the loop's thread may call its methods.

    Args:
        identity: how this daemon proves itself.
        audience: its own name in credentials: slurmctld or slurmd:NODE.
        on_message: called with (message, sender, answer) for each admitted request or one-way
            message; `answer(reply)` may be called at most once, at any time.
        on_refused: called with (cause, text, who signed it if that is known) for each refused
            message.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        audience: str,
        on_message: OnMessage,
        on_refused: Callable[[str, str, Peer | None], None] | None = None,
    ) -> None:
        self.identity = identity
        self.audience = audience
        self.refusals: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._on_message = on_message
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context(io_threads=1)
        self._context.set(zmq.MAX_SOCKETS, 1023)
        self._router: zmq.Socket[bytes] | None = None
        self._links: LinkMonitor | None = None
        self._own_key = zmq.curve_keypair() if identity.link_key else None
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._audience_of: dict[str, str] = {}
        self._routes: dict[str, bytes] = {}
        self._requests = OpenRequests(self._loop, self._post, self._dealers.__contains__)
        self._sequence = 0
        self._drain_due: set[zmq.Socket[bytes]] = set()
        self._answered_second = 0
        self._answered_count = 0
        self.is_closed = False

    # -- sockets ---------------------------------------------------------------------------

    def bind(self, address: str, port: int) -> int:
        """Listen for nodes; `address` is an IP or `*`; return the port (for port 0).

        Raises:
            OSError: the port is taken or the address is not ours.
        """
        router = router_socket(self._context, self.identity.link_key)
        links = LinkMonitor(router, self._loop, self.refusals)
        try:
            number = bind_router(router, address, port)
        except OSError:
            links.close()
            router.close(0)
            raise
        self._router, self._links = router, links
        self._watch(router)
        links.begin(number)
        return number

    def connect(self, peer: str, audience: str, host: str, port: int) -> None:
        """Dial a daemon and keep dialling; `peer` is the name to use with `send`."""
        if peer in self._dealers:
            self.disconnect(peer)
        dealer = dealer_socket(self._context, self.identity.link_key, self._own_key)
        dealer.connect(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
        self._dealers[peer] = dealer
        self._audience_of[peer] = audience
        self._watch(dealer)

    def disconnect(self, peer: str) -> None:
        """Forget a dialled peer."""
        dealer = self._dealers.pop(peer, None)
        if dealer is not None:
            self._loop.remove_reader(descriptor_of(dealer))
            self._drain_due.discard(dealer)
            dealer.close(0)

    def is_linked(self, peer: str) -> bool:
        """Return whether a dialled daemon has a finished connection with room in its queue."""
        dealer = self._dealers.get(peer)
        if dealer is None:
            return False
        events = int(dealer.get(zmq.EVENTS))
        if events & zmq.POLLIN:
            # Reading the events may have consumed the edge that announced a message.
            self._drain_later(dealer)
        return bool(events & zmq.POLLOUT)

    def close(self) -> None:
        """Close every socket; requests still open fail."""
        if self.is_closed:
            return
        self.is_closed = True
        for peer in list(self._dealers):
            self.disconnect(peer)
        if self._router is not None:
            self._loop.remove_reader(descriptor_of(self._router))
            if self._links is not None:
                self._links.close()
            self._router.close(0)
            self._router = None
        self._requests.close()
        self._context.term()

    def peers(self) -> list[str]:
        """Return the peers that can be sent to: nodes that have spoken, daemons that we dialled."""
        return [*self._routes, *self._dealers]

    def _watch(self, socket: zmq.Socket[bytes]) -> None:
        self._loop.add_reader(descriptor_of(socket), self._drain, socket)
        self._drain_later(socket)

    # -- sending ---------------------------------------------------------------------------

    def send(self, peer: str, message: msgspec.Struct) -> None:
        """Send a one-way message.

        Raises:
            PeerGone, PeerBusy: it was not sent.
        """
        self._sequence += 1
        self._post(peer, message, self._sequence)

    def request(self, peer: str, message: msgspec.Struct, deadline_s: float, done: Done) -> None:
        """Send a request; `done` is called once, with the reply or a `RequestFailed`.

        If a dialled peer is away, the request is tried until the deadline. If a node has not
        spoken, it fails immediately.
        """
        self._sequence += 1
        self._requests.begin(self._sequence, peer, message, deadline_s, done)

    async def ask(self, peer: str, message: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """`request` for coroutines; raises RequestFailed."""
        future: asyncio.Future[msgspec.Struct] = self._loop.create_future()

        def settle(outcome: msgspec.Struct | RequestFailed) -> None:
            if future.done():
                return
            if isinstance(outcome, RequestFailed):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.request(peer, message, deadline_s, settle)
        return await future

    def _post(self, peer: str, message: msgspec.Struct, sequence: int, flags: int = 0) -> None:
        """Sign and send to a named peer."""
        dealer = self._dealers.get(peer)
        if dealer is not None:
            packet = _packet(self.identity, message, self._audience_of[peer], sequence, flags)
            self._put(dealer, peer, [packet])
            return
        route = self._routes.get(peer)
        if route is None or self._router is None:
            raise PeerGone(f"{peer} is not connected")
        packet = _packet(self.identity, message, f"slurmd:{peer}", sequence, flags)
        self._put(self._router, peer, [route, packet])

    def _put(self, socket: zmq.Socket[bytes], peer: str, parts: list[bytes]) -> None:
        try:
            socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            if socket is self._router:
                raise PeerBusy(f"{peer} does not take its messages") from None
            # A dialled peer without a finished connection looks the same as a full queue.
            raise PeerGone(f"{peer} is not connected") from None
        except zmq.ZMQError as error:
            if socket is self._router and error.errno == zmq.EHOSTUNREACH:
                self._routes.pop(peer, None)
                raise PeerGone(f"{peer} is not connected") from None
            raise
        finally:
            if int(socket.get(zmq.EVENTS)) & zmq.POLLIN:
                self._drain_later(socket)

    # -- receiving -------------------------------------------------------------------------

    def _drain_later(self, socket: zmq.Socket[bytes]) -> None:
        if socket not in self._drain_due:
            self._drain_due.add(socket)
            self._loop.call_soon(self._drain, socket)

    def _drain(self, socket: zmq.Socket[bytes]) -> None:
        """Take messages until there are none, or one turn's share of them."""
        self._drain_due.discard(socket)
        if socket is self._router and self._links is not None:
            # libzmq tells of a connection before the first message that came over it.
            self._links.hear()
        for _ in range(DRAIN_PER_TURN):
            if self.is_closed or socket.closed:
                return
            try:
                # Only whole frames know their connection, and they take longer.
                parts = socket.recv_multipart(zmq.NOBLOCK, copy=not self._links)
            except zmq.Again:
                return
            self._take(socket, parts)
        self._drain_later(socket)

    def _take(self, socket: zmq.Socket[bytes], parts: Sequence[bytes | zmq.Frame]) -> None:
        """Check one message and hand it over; count and answer what is refused."""
        route = b""
        if socket is self._router and parts:
            route, parts = _bytes(parts[0]), parts[1:]
        sequence = flags = 0
        peer: Peer | None = None
        try:
            kind, flags, sequence, credential, body = _split(parts)
            message_row = table.row(kind)
            if len(body) > message_row.max_bytes:
                raise BadFrame("too_long", f"{kind}: {len(body)} bytes", sequence)
            if bool(flags & frame.FLAG_REPLY) != message_row.is_reply:
                raise BadFrame("bad_head", f"{kind}: request and reply confused", sequence)
            admission = self.identity.authenticator.admit(credential, kind, self.audience)
            check_digest(admission, kind, body)
            peer = admission.peer
            if peer.role == "user":
                # Only daemons talk here: a user's credential must not lift the stranger's bounds.
                raise MessageError("role", "Access/permission denied")
            whole = parts[0]
            if self._links and isinstance(whole, zmq.Frame):
                self._links.watch.proved(int(whole.get(zmq.SRCFD)))
            name = self._name_of(socket, route, peer)
            self.received[kind] += 1
            if message_row.is_reply:
                if not self._requests.settle(sequence, name, table.decode_reply(kind, body)):
                    self.refusals["unexpected_reply"] += 1
                return
            if peer.role not in message_row.roles:
                raise MessageError("role", "Access/permission denied")
            message = table.decode_request(kind, body)
        except (BadFrame, AuthError, MessageError) as error:
            # A refused answer is not answered: that would go on for as long as the clocks differ.
            is_asked = 0 if flags & frame.FLAG_REPLY else sequence
            self._refuse(_Origin(socket, route, is_asked), peer, error)
            return
        self._deliver(_Origin(socket, route, sequence), peer, kind, message)

    def _deliver(self, origin: _Origin, peer: Peer, kind: str, message: msgspec.Struct) -> None:
        def answer(reply: msgspec.Struct) -> None:
            self._respond(origin, peer, reply)

        try:
            self._on_message(message, peer, answer)
        except Exception as bug:  # noqa: BLE001 - reported below, and the daemon decides
            answer(ErrorReply(Errno.ESLURM_INTERNAL, error_text(Errno.ESLURM_INTERNAL)))
            self._loop.call_exception_handler(
                {"message": f"bug while handling {kind}", "exception": bug}
            )

    def _name_of(self, socket: zmq.Socket[bytes], route: bytes, peer: Peer) -> str:
        """Return the sender's name, and remember the connection of a node."""
        if socket is not self._router:
            for name, dealer in self._dealers.items():
                if dealer is socket:
                    return name
            return peer.name
        if peer.role != "node":
            return f"{peer.role}@{peer.name}"
        self._routes[peer.name] = route
        return peer.name

    def _respond(self, origin: _Origin, peer: Peer, reply: msgspec.Struct) -> None:
        """Send a reply to where the request came from; a peer that is gone will ask again."""
        socket = origin.socket
        if self.is_closed or socket.closed:
            return
        flags = frame.FLAG_REPLY
        if isinstance(reply, ErrorReply):
            flags |= frame.FLAG_ERROR
        audience = f"slurmd:{peer.name}" if peer.role == "node" else peer.role
        packet = _packet(self.identity, reply, audience, origin.sequence, flags)
        try:
            parts = [origin.route, packet] if socket is self._router else [packet]
            self._put(socket, peer.name, parts)
        except (PeerGone, PeerBusy):
            self.refusals["reply_unsent"] += 1

    def _refuse(
        self, origin: _Origin, peer: Peer | None, error: BadFrame | AuthError | MessageError
    ) -> None:
        """Count and log a refusal; tell a sender with a proven name, unless there are too many."""
        self.refusals[error.cause] += 1
        if isinstance(error, AuthError):
            peer = error.peer
        if self._on_refused is not None:
            self._on_refused(error.cause, error.text, peer)
        second = int(self._loop.time())
        if second != self._answered_second:
            self._answered_second, self._answered_count = second, 0
        self._answered_count += 1
        if peer is None or not origin.sequence or self._answered_count > REFUSALS_ANSWERED_PER_S:
            return
        self._respond(origin, peer, ErrorReply(refusal_code(error), error.text))


def _packet(
    identity: Identity, message: msgspec.Struct, audience: str, sequence: int, flags: int
) -> bytes:
    """Return a message with a credential for its receiver, as one part."""
    kind = table.kind_of(message)
    body = table.encode(message)
    credential = identity.authenticator.issue(identity.peer, audience, kind, body_digest(body))
    return frame.pack_frame(kind, sequence, body, flags, credential)


def _bytes(part: bytes | zmq.Frame) -> bytes:
    return part if isinstance(part, bytes) else part.bytes


def _split(parts: Sequence[bytes | zmq.Frame]) -> tuple[str, int, int, bytes, bytes]:
    """Return (kind, flags, sequence, credential, body); raise BadFrame unless lengths agree."""
    if len(parts) != 1 or len(parts[0]) < frame.HEAD_BYTES:
        raise BadFrame("bad_head", "malformed message")
    packet = _bytes(parts[0])
    flags, kind_bytes, credential_bytes, body_bytes, sequence = frame.parse_head(packet)
    start = frame.HEAD_BYTES + kind_bytes
    end = start + credential_bytes
    if len(packet) != end + body_bytes:
        raise BadFrame("bad_head", "malformed message: lengths disagree", sequence)
    kind = frame.parse_kind(packet[frame.HEAD_BYTES : start], sequence)
    return kind, flags, sequence, packet[start:end], packet[end:]
