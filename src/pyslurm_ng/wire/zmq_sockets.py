"""ZeroMQ sockets with the options that daemons use."""

from __future__ import annotations

import errno

import zmq
from zmq.utils import z85

from pyslurm_ng.wire.port_holder import port_in_use

MAX_ORDER_BYTES = (16 << 20) + (128 << 10)
"""Of a message to a node, whose slurmd dialled the controller that sends it."""
MAX_REPORT_BYTES = (4 << 20) + (128 << 10)
"""Of a message to the controller; any host may connect to its port."""
QUEUE_MESSAGES = 1_000
_RECONNECT_MS = 100


def router_socket(context: zmq.Context[zmq.Socket[bytes]], link_key: bytes) -> zmq.Socket[bytes]:
    """Return a socket that daemons dial; with a key, connections are encrypted and proven."""
    router: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    _set_options(router, MAX_REPORT_BYTES)
    if link_key:
        router.set(zmq.CURVE_SERVER, 1)
        router.set(zmq.CURVE_SECRETKEY, z85.encode(link_key))
    router.set(zmq.ROUTER_MANDATORY, 1)
    router.set(zmq.BACKLOG, 4096)
    return router


def bind_router(router: zmq.Socket[bytes], address: str, port: int) -> int:
    """Listen; `address` is an IP or `*`; return the port (for port 0).

    Raises:
        OSError: the port is taken or the address is not ours.
    """
    try:
        router.bind(f"tcp://{address}:{port or '*'}")
    except zmq.ZMQError as error:
        text = port_in_use(port) if error.errno == errno.EADDRINUSE else error.strerror
        raise OSError(error.errno, f"ZeroMQ {text}") from None
    bound = router.get(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    return int(bound.rstrip(b"\0").rpartition(b":")[2])


def dealer_socket(
    context: zmq.Context[zmq.Socket[bytes]],
    link_key: bytes,
    own_key: tuple[bytes, bytes] | None,
) -> zmq.Socket[bytes]:
    """Return a socket that dials one daemon; `own_key` is public and secret key for a link key."""
    dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    _set_options(dealer, MAX_ORDER_BYTES)
    if link_key and own_key is not None:
        public, secret = own_key
        dealer.set(zmq.CURVE_PUBLICKEY, public)
        dealer.set(zmq.CURVE_SECRETKEY, secret)
        dealer.set(zmq.CURVE_SERVERKEY, zmq.curve_public(z85.encode(link_key)))
    # Nothing is queued for a peer that is away: what is late is sent anew, not delivered late.
    dealer.set(zmq.IMMEDIATE, 1)
    return dealer


def descriptor_of(socket: zmq.Socket[bytes]) -> int:
    """Return the file descriptor that becomes readable when something happened."""
    return int(socket.get(zmq.FD))


def _set_options(socket: zmq.Socket[bytes], most_bytes: int) -> None:
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.IPV6, 1)
    socket.set(zmq.MAXMSGSIZE, most_bytes)
    socket.set(zmq.SNDHWM, QUEUE_MESSAGES)
    socket.set(zmq.RCVHWM, QUEUE_MESSAGES)
    socket.set(zmq.HANDSHAKE_IVL, 10_000)
    socket.set(zmq.HEARTBEAT_IVL, 10_000)
    socket.set(zmq.HEARTBEAT_TIMEOUT, 30_000)
    socket.set(zmq.RECONNECT_IVL, _RECONNECT_MS)
    socket.set(zmq.RECONNECT_IVL_MAX, 20 * _RECONNECT_MS)
    socket.set(zmq.TCP_KEEPALIVE, 1)
