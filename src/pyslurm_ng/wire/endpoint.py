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
from dataclasses import dataclass
from struct import Struct

import msgspec
import zmq
from zmq.utils import z85

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.auth import AuthError, Peer, body_digest, check_digest
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.link_watch import LOOK_S, LinkWatch
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.table import MessageError

MAX_ORDER_BYTES = (16 << 20) + (128 << 10)
"""The most bytes of a message to a node."""
MAX_REPORT_BYTES = (4 << 20) + (128 << 10)
"""The most bytes of a message to the controller; any host may connect to its port."""
QUEUE_MESSAGES = 1_000
DRAIN_PER_TURN = 1_024
REFUSALS_ANSWERED_PER_S = 100
RETRY_S = 0.1

_LINK_EVENT = Struct("=Hi")
"""What libzmq's monitor tells: an event and a descriptor, in the machine's order."""


class PeerGone(Exception):
    """There is no connection to this peer now."""


class PeerBusy(Exception):
    """The peer's queue is full; try later."""


class RequestFailed(Exception):
    """A request had no answer in time (`code` 5004) or was refused (Slurm's error number)."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def zmq_port(slurmctld_port: int, slurmctld_parameters: Iterable[str] = ()) -> int:
    """Return the controller's ZeroMQ port; raise ValueError for a bad `zmq_port=`."""
    for word in slurmctld_parameters:
        key, _, value = word.strip().partition("=")
        if key.lower() == "zmq_port":
            if not value.isdigit() or not 0 < int(value) < 65536:
                raise ValueError(f"SlurmctldParameters=zmq_port={value}: 1 to 65535 is allowed")
            return int(value)
    port = slurmctld_port + 10_000
    return port if port < 65536 else port - 20_000


Answer = Callable[[msgspec.Struct], None]
OnMessage = Callable[[msgspec.Struct, Peer, Answer], None]
Done = Callable[[msgspec.Struct | RequestFailed], None]


@dataclass(slots=True)
class _Pending:
    """A request that waits for its reply."""

    peer: str
    message: msgspec.Struct
    done: Done
    give_up_s: float
    timer: asyncio.TimerHandle | None = None


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
        self._monitor: zmq.Socket[bytes] | None = None
        self._watch_links: LinkWatch | None = None
        self._own_key = zmq.curve_keypair() if identity.link_key else None
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._audience_of: dict[str, str] = {}
        self._routes: dict[str, bytes] = {}
        self._name_at: dict[bytes, str] = {}
        self._pending: dict[int, _Pending] = {}
        self._sequence = 0
        self._drain_due: set[zmq.Socket[bytes]] = set()
        self._answered_second = 0
        self._answered_count = 0
        self._is_look_due = False
        self.is_closed = False

    # -- sockets ---------------------------------------------------------------------------

    def bind(self, address: str, port: int) -> int:
        """Listen for nodes; `address` is an IP or `*`; return the port (for port 0).

        Raises:
            OSError: the port is taken or the address is not ours.
        """
        router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._set_options(router, MAX_REPORT_BYTES)
        if self.identity.link_key:
            router.set(zmq.CURVE_SERVER, 1)
            router.set(zmq.CURVE_SECRETKEY, z85.encode(self.identity.link_key))
        router.set(zmq.ROUTER_MANDATORY, 1)
        router.set(zmq.BACKLOG, 4096)
        monitor = router.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
        )
        try:
            router.bind(f"tcp://{address}:{port or '*'}")
        except zmq.ZMQError as error:
            router.disable_monitor()
            monitor.close(0)
            router.close(0)
            text = f"ZeroMQ port {port}: {error.strerror}"
            raise OSError(error.errno, text) from None
        bound = router.get(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        number = int(bound.rstrip(b"\0").rpartition(b":")[2])
        self._router, self._monitor = router, monitor
        self._watch_links = LinkWatch(number)
        self._watch(router)
        self._loop.add_reader(_descriptor(monitor), self._hear_of_links)
        self._loop.call_soon(self._hear_of_links)
        return number

    def connect(self, peer: str, audience: str, host: str, port: int) -> None:
        """Dial a daemon and keep dialling; `peer` is the name to use with `send`."""
        if peer in self._dealers:
            self.disconnect(peer)
        dealer: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._set_options(dealer, MAX_ORDER_BYTES)
        if self.identity.link_key and self._own_key is not None:
            public, secret = self._own_key
            dealer.set(zmq.CURVE_PUBLICKEY, public)
            dealer.set(zmq.CURVE_SECRETKEY, secret)
            servers = zmq.curve_public(z85.encode(self.identity.link_key))
            dealer.set(zmq.CURVE_SERVERKEY, servers)
        # Nothing is queued for a peer that is away: late messages are sent again, not delivered
        # late.
        dealer.set(zmq.IMMEDIATE, 1)
        dealer.connect(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
        self._dealers[peer] = dealer
        self._audience_of[peer] = audience
        self._watch(dealer)

    def disconnect(self, peer: str) -> None:
        """Forget a dialled peer."""
        dealer = self._dealers.pop(peer, None)
        if dealer is not None:
            self._loop.remove_reader(_descriptor(dealer))
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
            self._loop.remove_reader(_descriptor(self._router))
            if self._monitor is not None:
                self._loop.remove_reader(_descriptor(self._monitor))
                self._router.disable_monitor()
                self._monitor.close(0)
                self._monitor = None
            self._router.close(0)
            self._router = None
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            if waiting.timer is not None:
                waiting.timer.cancel()
            code = Errno.SLURM_COMMUNICATIONS_SHUTDOWN_ERROR
            waiting.done(RequestFailed(code, error_text(code)))
        self._context.term()

    def peers(self) -> list[str]:
        """Return the peers that can be sent to: nodes that have spoken, daemons that we dialled."""
        return [*self._routes, *self._dealers]

    def _set_options(self, socket: zmq.Socket[bytes], most_bytes: int) -> None:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.IPV6, 1)
        socket.set(zmq.MAXMSGSIZE, most_bytes)
        socket.set(zmq.SNDHWM, QUEUE_MESSAGES)
        socket.set(zmq.RCVHWM, QUEUE_MESSAGES)
        socket.set(zmq.HANDSHAKE_IVL, 10_000)
        socket.set(zmq.HEARTBEAT_IVL, 10_000)
        socket.set(zmq.HEARTBEAT_TIMEOUT, 30_000)
        socket.set(zmq.RECONNECT_IVL, 100)
        socket.set(zmq.RECONNECT_IVL_MAX, 2_000)
        socket.set(zmq.TCP_KEEPALIVE, 1)

    def _watch(self, socket: zmq.Socket[bytes]) -> None:
        self._loop.add_reader(_descriptor(socket), self._drain, socket)
        self._drain_later(socket)

    # -- sending ---------------------------------------------------------------------------

    def send(self, peer: str, message: msgspec.Struct) -> None:
        """Send a one-way message.

        Raises:
            PeerGone, PeerBusy: it was not sent.
        """
        self._sequence += 1
        self._post(peer, message, self._sequence, 0)

    def request(self, peer: str, message: msgspec.Struct, deadline_s: float, done: Done) -> None:
        """Send a request; `done` is called once, with the reply or a `RequestFailed`.

        If a dialled peer is away, the request is tried until the deadline. If a node has not
        spoken, it fails immediately.
        """
        self._sequence += 1
        sequence = self._sequence
        waiting = _Pending(peer, message, done, self._loop.time() + deadline_s)
        self._pending[sequence] = waiting
        self._try_request(sequence)

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

    def _try_request(self, sequence: int) -> None:
        waiting = self._pending.get(sequence)
        if waiting is None:
            return
        now = self._loop.time()
        try:
            self._post(waiting.peer, waiting.message, sequence, 0)
        except (PeerGone, PeerBusy) as error:
            is_dialled = waiting.peer in self._dealers
            if not is_dialled and isinstance(error, PeerGone):
                text = f"Communication connection failure: {error}"
                self._fail(sequence, Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR, text)
            elif now + RETRY_S >= waiting.give_up_s:
                waiting.timer = self._loop.call_at(waiting.give_up_s, self._expire, sequence)
            else:
                waiting.timer = self._loop.call_later(RETRY_S, self._try_request, sequence)
            return
        waiting.timer = self._loop.call_at(waiting.give_up_s, self._expire, sequence)

    def _expire(self, sequence: int) -> None:
        code = Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
        self._fail(sequence, code, error_text(code))

    def _fail(self, sequence: int, code: int, text: str) -> None:
        waiting = self._pending.pop(sequence, None)
        if waiting is not None:
            waiting.done(RequestFailed(code, text))

    def _post(self, peer: str, message: msgspec.Struct, sequence: int, flags: int) -> None:
        """Sign and send to a named peer."""
        dealer = self._dealers.get(peer)
        if dealer is not None:
            packet = self._packet(message, self._audience_of[peer], sequence, flags)
            self._put(dealer, peer, [packet])
            return
        route = self._routes.get(peer)
        if route is None or self._router is None:
            raise PeerGone(f"{peer} is not connected")
        packet = self._packet(message, f"slurmd:{peer}", sequence, flags)
        self._put(self._router, peer, [route, packet])

    def _packet(self, message: msgspec.Struct, audience: str, sequence: int, flags: int) -> bytes:
        kind = table.kind_of(message)
        body = table.encode(message)
        identity = self.identity
        credential = identity.authenticator.issue(identity.peer, audience, kind, body_digest(body))
        return frame.pack_frame(kind, sequence, body, flags, credential)

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
                self._name_at.pop(self._routes.pop(peer, b""), None)
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
        if socket is self._router:
            # libzmq tells of a connection before the first message that came over it.
            self._hear_of_links()
        for _ in range(DRAIN_PER_TURN):
            if self.is_closed or socket.closed:
                return
            try:
                # Only whole frames know their connection, and they take longer.
                parts = socket.recv_multipart(zmq.NOBLOCK, copy=not self._watch_links)
            except zmq.Again:
                return
            self._take(socket, parts)
        self._drain_later(socket)

    def _hear_of_links(self) -> None:
        """Note connections that came and went, and look at what strangers have sent."""
        monitor, links = self._monitor, self._watch_links
        if monitor is None or links is None or self.is_closed:
            return
        for _ in range(DRAIN_PER_TURN):
            try:
                event, descriptor = _LINK_EVENT.unpack_from(monitor.recv_multipart(zmq.NOBLOCK)[0])
            except zmq.Again:
                break
            if event == zmq.EVENT_ACCEPTED:
                links.accepted(descriptor)
            else:
                links.closed(descriptor)
        else:
            self._loop.call_soon(self._hear_of_links)
        self.refusals["strangers_cut"] = links.cut
        if links and not self._is_look_due:
            self._is_look_due = True
            self._loop.call_later(LOOK_S, self._look_at_links)

    def _look_at_links(self) -> None:
        self._is_look_due = False
        links = self._watch_links
        if self.is_closed or links is None:
            return
        links.look()
        # The monitor's descriptor is edge-triggered, too.
        self._hear_of_links()

    def _take(self, socket: zmq.Socket[bytes], parts: Sequence[bytes | zmq.Frame]) -> None:
        """Check one message and hand it over; count and answer what is refused."""
        route = b""
        if socket is self._router and parts:
            route, parts = _bytes(parts[0]), parts[1:]
        sequence = flags = 0
        peer: Peer | None = None
        try:
            kind, flags, sequence, credential, body = _split(parts)
            found = table.row(kind)
            if len(body) > found.max_bytes:
                raise BadFrame("too_long", f"{kind}: {len(body)} bytes", sequence)
            if bool(flags & frame.FLAG_REPLY) != found.is_reply:
                raise BadFrame("bad_head", f"{kind}: request and reply confused", sequence)
            admission = self.identity.authenticator.admit(credential, kind, self.audience)
            check_digest(admission, kind, body)
            peer = admission.peer
            whole = parts[0]
            if self._watch_links and isinstance(whole, zmq.Frame):
                self._watch_links.proved(int(whole.get(zmq.SRCFD)))
            name = self._name_of(socket, route, peer)
            self.received[kind] += 1
            if found.is_reply:
                self._settle(sequence, name, table.decode_reply(kind, body))
                return
            if peer.role not in found.roles:
                raise MessageError("role", "Access/permission denied")
            message = table.decode_request(kind, body)
        except (BadFrame, AuthError, MessageError) as error:
            # A refused answer is not answered: that would go on for as long as the clocks differ.
            is_asked = 0 if flags & frame.FLAG_REPLY else sequence
            self._refuse(socket, route, is_asked, peer, error)
            return
        self._deliver(socket, route, sequence, peer, kind, message)

    def _deliver(
        self,
        socket: zmq.Socket[bytes],
        route: bytes,
        sequence: int,
        peer: Peer,
        kind: str,
        message: msgspec.Struct,
    ) -> None:
        def answer(reply: msgspec.Struct) -> None:
            self._respond(socket, route, sequence, peer, reply)

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
        if self._routes.get(peer.name) != route:
            self._name_at.pop(self._routes.get(peer.name, b""), None)
            self._routes[peer.name] = route
            self._name_at[route] = peer.name
        return peer.name

    def _settle(self, sequence: int, name: str, reply: msgspec.Struct) -> None:
        waiting = self._pending.get(sequence)
        if waiting is None or waiting.peer != name:
            self.refusals["unexpected_reply"] += 1
            return
        del self._pending[sequence]
        if waiting.timer is not None:
            waiting.timer.cancel()
        if isinstance(reply, ErrorReply):
            waiting.done(RequestFailed(reply.code, reply.text))
        else:
            waiting.done(reply)

    def _respond(
        self,
        socket: zmq.Socket[bytes],
        route: bytes,
        sequence: int,
        peer: Peer,
        reply: msgspec.Struct,
    ) -> None:
        """Send a reply to where the request came from; a peer that is gone will ask again."""
        if self.is_closed or socket.closed:
            return
        flags = frame.FLAG_REPLY
        if isinstance(reply, ErrorReply):
            flags |= frame.FLAG_ERROR
        audience = f"slurmd:{peer.name}" if peer.role == "node" else peer.role
        packet = self._packet(reply, audience, sequence, flags)
        try:
            self._put(socket, peer.name, [route, packet] if socket is self._router else [packet])
        except (PeerGone, PeerBusy):
            self.refusals["reply_unsent"] += 1

    def _refuse(
        self,
        socket: zmq.Socket[bytes],
        route: bytes,
        sequence: int,
        peer: Peer | None,
        error: BadFrame | AuthError | MessageError,
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
        if peer is None or not sequence or self._answered_count > REFUSALS_ANSWERED_PER_S:
            return
        code = Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
        if isinstance(error, AuthError):
            code = Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR
        elif error.cause == "role":
            code = Errno.ESLURM_ACCESS_DENIED
        self._respond(socket, route, sequence, peer, ErrorReply(code, error.text))


def _descriptor(socket: zmq.Socket[bytes]) -> int:
    return int(socket.get(zmq.FD))


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
