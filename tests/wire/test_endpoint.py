from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import pytest
import zmq
from hypothesis import given, settings, strategies as st

from pyslurm_ng.model.bounds import Number64
from pyslurm_ng.wire import frame, link_watch, table
from pyslurm_ng.wire.auth import Peer, body_digest
from pyslurm_ng.wire.endpoint import Endpoint, zmq_port
from pyslurm_ng.wire.messages import ErrorReply, Ping, Pong, message, reply
from pyslurm_ng.wire.open_requests import PeerGone, RequestFailed
from pyslurm_ng.wire.zmq_sockets import MAX_REPORT_BYTES
from tests.wire.wire_room import authenticator, identity, now_us


class Report(msgspec.Struct, forbid_unknown_fields=True):
    number: Number64
    text: Annotated[str, msgspec.Meta(max_length=1 << 20)] = ""


class Order(msgspec.Struct, forbid_unknown_fields=True):
    number: Number64


class Obeyed(msgspec.Struct):
    number: int


message(kind="TestReport", roles="node")(Report)
message(kind="TestOrder", roles="slurmctld")(Order)
reply("TestObeyed")(Obeyed)


class Cluster:
    """A controller's endpoint and as many nodes' as a test wants, on one loop."""

    def __init__(self, *, with_link_key: bool = False) -> None:
        self.with_link_key = with_link_key
        self.heard: list[tuple[msgspec.Struct, Peer]] = []
        self.refused: list[tuple[str, str]] = []
        self.came = asyncio.Event()
        self.ctld = Endpoint(
            identity("slurmctld", "host1", with_link_key=with_link_key),
            audience="slurmctld",
            on_message=self.hear,
            on_refused=lambda cause, text, peer: self._note_refusal(cause, text),
        )
        self.port = self.ctld.bind("127.0.0.1", 0)
        self.nodes: dict[str, Endpoint] = {}

    def _note_refusal(self, cause: str, text: str) -> None:
        self.refused.append((cause, text))
        self.came.set()

    def hear(self, what: msgspec.Struct, peer: Peer, answer: Callable[[Any], None]) -> None:
        self.heard.append((what, peer))
        self.came.set()
        if isinstance(what, Ping):
            answer(Pong(peer.name, peer.role, "", 0))

    def node(self, name: str) -> Endpoint:
        def obey(what: msgspec.Struct, peer: Peer, answer: Callable[[Any], None]) -> None:
            if isinstance(what, Order):
                answer(Obeyed(what.number) if what.number >= 0 else ErrorReply(2002, "no"))

        who = identity("node", name, with_link_key=self.with_link_key)
        made = Endpoint(who, audience=f"slurmd:{name}", on_message=obey)
        made.connect("slurmctld", "slurmctld", "127.0.0.1", self.port)
        self.nodes[name] = made
        return made

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 60)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.ctld.close()


def in_cluster(
    test: Callable[[Cluster], Coroutine[Any, Any, None]], *, with_link_key: bool = False
) -> None:
    async def run() -> None:
        cluster = Cluster(with_link_key=with_link_key)
        try:
            await test(cluster)
        finally:
            cluster.close()

    asyncio.run(run())


def test_requests_and_answers_both_ways() -> None:
    """A node dials; then each side asks the other over that connection."""

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10) == Pong("n1", "node", "", 0)
        assert cluster.ctld.peers() == ["n1"]
        assert await cluster.ctld.ask("n1", Order(5), 10) == Obeyed(5)
        with pytest.raises(RequestFailed, match="no") as caught:
            await cluster.ctld.ask("n1", Order(-1), 10)
        assert caught.value.code == 2002

    in_cluster(test)


def test_an_unknown_peer_fails_at_once() -> None:
    """A node that has not dialled has not registered."""

    async def test(cluster: Cluster) -> None:
        with pytest.raises(PeerGone):
            cluster.ctld.send("n9", Order(1))
        with pytest.raises(RequestFailed) as caught:
            await cluster.ctld.ask("n9", Order(1), 10)
        assert caught.value.code == 1001

    in_cluster(test)


def test_a_dialled_peer_that_is_away_is_waited_for() -> None:
    """A node may start before its controller, and outlive its restarts."""

    async def until_answered(node: Endpoint) -> object:
        # The one request that was on its way when the controller went may be lost.
        while True:
            with contextlib.suppress(RequestFailed):
                return await node.ask("slurmctld", Ping(), 1)

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        cluster.ctld.close()
        asking = asyncio.create_task(until_answered(node))
        cluster.ctld = Endpoint(
            identity("slurmctld", "host1"), audience="slurmctld", on_message=cluster.hear
        )
        cluster.ctld.bind("127.0.0.1", cluster.port)
        assert await asking == Pong("n1", "node", "", 0)
        assert await cluster.ctld.ask("n1", Order(1), 10) == Obeyed(1)

    in_cluster(test)


def test_a_silent_peer_is_a_time_out() -> None:
    """Slurm's number for it."""

    async def test(cluster: Cluster) -> None:
        cluster.ctld._on_message = lambda *_: None
        node = cluster.node("n1")
        with pytest.raises(RequestFailed) as caught:
            await node.ask("slurmctld", Ping(), 0.3)
        assert caught.value.code == 5004
        assert not node._requests

    in_cluster(test)


def test_nothing_is_lost_in_a_burst_of_many_nodes() -> None:
    """The descriptor is edge-triggered: a lost wake-up would stall here."""

    async def test(cluster: Cluster) -> None:
        nodes = [cluster.node(f"n{i}") for i in range(20)]
        await asyncio.gather(*(node.ask("slurmctld", Ping(), 20) for node in nodes))
        asked = [cluster.ctld.ask(f"n{i % 20}", Order(i), 20) for i in range(2000)]
        answered = [node.ask("slurmctld", Ping(), 20) for node in nodes for _ in range(50)]
        got = await asyncio.gather(*asked)
        assert got == [Obeyed(i) for i in range(2000)]
        assert len(await asyncio.gather(*answered)) == 1000

    in_cluster(test)


def test_a_node_that_comes_back_is_sent_to_where_it_is_now() -> None:
    """The name belongs to the connection that last proved it."""

    async def test(cluster: Cluster) -> None:
        old = cluster.node("n1")
        await old.ask("slurmctld", Ping(), 10)
        new = cluster.node("n1")
        await new.ask("slurmctld", Ping(), 10)
        old.close()
        assert await cluster.ctld.ask("n1", Order(3), 10) == Obeyed(3)
        assert cluster.ctld.peers() == ["n1"]

    in_cluster(test)


def test_big_messages_pass_and_oversize_ones_do_not() -> None:
    """MAXMSGSIZE cuts the sender off before it is read; the controller goes on."""

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        await node.ask("slurmctld", Ping(), 10)
        node.send("slurmctld", Report(1, "x" * (1 << 20)))
        await cluster.until(lambda: len(cluster.heard) == 2)
        with zmq.Context() as context, context.socket(zmq.DEALER) as raw:
            raw.set(zmq.LINGER, 0)
            raw.connect(f"tcp://127.0.0.1:{cluster.port}")
            raw.send(b"y" * (18 << 20))
            raw.send(b"x")
            await cluster.until(lambda: len(cluster.refused) > 0)
        assert [cause for cause, _ in cluster.refused] == ["bad_head"]
        assert await node.ask("slurmctld", Ping(), 10)

    in_cluster(test)


def raw_parts(
    what: msgspec.Struct,
    peer: Peer,
    secret: bytes | None = None,
    kind: str | None = None,
    audience: str = "slurmctld",
    flags: int = 0,
) -> list[bytes]:
    body = table.encode(what)
    kind = kind or table.kind_of(what)
    signer = authenticator(clock_us=now_us, **({"secret": secret} if secret else {}))
    credential = signer.issue(peer, audience, kind, body_digest(body))
    return [frame.pack_frame(kind, 1, body, flags, credential)]


NODE = Peer(0, 0, 0, "node", "n7", "host1", "own")
USER = Peer(1000, 100, 0, "user", "host1", "host1", "own")


def refusals_of(parts: list[bytes], times: int = 1) -> list[str]:
    """Send raw parts to a controller; return the causes for which they were refused."""
    causes: list[str] = []

    async def test(cluster: Cluster) -> None:
        with zmq.Context() as context, context.socket(zmq.DEALER) as raw:
            raw.set(zmq.LINGER, 0)
            raw.connect(f"tcp://127.0.0.1:{cluster.port}")
            for _ in range(times):
                raw.send_multipart(parts)
            raw.send_multipart([b"end"])
            await cluster.until(lambda: len(cluster.refused) + len(cluster.heard) > times)
        causes.extend(cause for cause, _ in cluster.refused[:-1])

    in_cluster(test)
    return causes


def test_what_is_wrong_with_a_message_is_counted() -> None:
    """RELIABILITY 39, 40, 55 between daemons."""
    good = raw_parts(Report(1), NODE)
    assert refusals_of(good) == []
    assert refusals_of(good, 2) == ["replayed"]
    assert refusals_of([good[0] + b"more"]) == ["bad_head"]
    assert refusals_of([*good, b"more"]) == ["bad_head"]
    assert refusals_of([good[0][:-1] + b"\x02"]) == ["altered"]
    assert refusals_of(raw_parts(Report(1), NODE, secret=b"q" * 64)) == ["wrong_key"]
    assert refusals_of(raw_parts(Report(1), NODE, audience="slurmd:n1")) == ["wrong_audience"]
    assert refusals_of(raw_parts(Report(1), USER)) == ["role"]
    assert refusals_of(raw_parts(Order(1), NODE)) == ["role"]
    assert refusals_of(raw_parts(Report(1), NODE, flags=frame.FLAG_REPLY)) == ["bad_head"]


def test_an_unasked_reply_settles_nothing() -> None:
    """A node cannot answer for another, or before it was asked."""

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        await node.ask("slurmctld", Ping(), 10)
        other = cluster.node("n2")
        await other.ask("slurmctld", Ping(), 10)
        answers: list[Any] = []
        node._on_message = lambda what, peer, answer: answers.append(answer)
        asking = asyncio.create_task(cluster.ctld.ask("n1", Order(8), 10))
        await asyncio.sleep(0)
        (sequence,) = cluster.ctld._requests._requests
        other._post("slurmctld", Obeyed(666), sequence, frame.FLAG_REPLY)
        await other.ask("slurmctld", Ping(), 10)
        assert not asking.done()
        assert cluster.ctld.refusals["unexpected_reply"] == 1
        await node.ask("slurmctld", Ping(), 10)
        answers[0](Obeyed(8))
        assert await asking == Obeyed(8)

    in_cluster(test)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=80), min_size=1, max_size=5), min_size=1, max_size=30))
def test_random_parts_are_refused_and_the_next_is_served(messages: list[list[bytes]]) -> None:
    """RELIABILITY 42 on the daemons' port."""

    async def test(cluster: Cluster) -> None:
        with zmq.Context() as context, context.socket(zmq.DEALER) as raw:
            raw.set(zmq.LINGER, 0)
            raw.connect(f"tcp://127.0.0.1:{cluster.port}")
            for parts in messages:
                raw.send_multipart(parts)
            await cluster.until(lambda: len(cluster.refused) >= len(messages))
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        assert len(cluster.heard) == 1

    in_cluster(test)


def test_a_taken_port_is_an_error_that_names_it() -> None:
    """Not a traceback from zmq."""

    async def test(cluster: Cluster) -> None:
        other = Endpoint(
            identity("slurmctld", "host1"), audience="slurmctld", on_message=cluster.hear
        )
        with pytest.raises(OSError, match=f"ZeroMQ port {cluster.port}"):
            other.bind("127.0.0.1", cluster.port)
        other.close()

    in_cluster(test)


@pytest.mark.parametrize(
    ("port", "parameters", "expected"),
    [
        (6817, [], 16817),
        (55535, [], 65535),
        (55536, [], 45536),
        (6817, ["enable_configless", "zmq_port=7001"], 7001),
    ],
)
def test_the_port_rule(port: int, parameters: list[str], expected: int) -> None:
    """Both sides compute it from slurm.conf alone."""
    assert zmq_port(port, parameters) == expected


@pytest.mark.parametrize("value", ["", "0", "65536", "x", "-1"])
def test_a_bad_port_is_refused(value: str) -> None:
    """With what is allowed."""
    with pytest.raises(ValueError, match="1 to 65535"):
        zmq_port(6817, [f"zmq_port={value}"])


# --- strangers ----------------------------------------------------------------------------


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def greeting(mechanism: bytes) -> bytes:
    """Return what a peer says first, by ZMTP 3.0."""
    signature = b"\xff" + bytes(8) + b"\x7f"
    return signature + b"\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32)


def test_a_stranger_without_the_key_never_gets_as_far_as_a_message() -> None:
    """RELIABILITY 41: 120 parts of 8 MiB once filled the controller, by anybody, over TCP."""

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        assert cluster.ctld._links is not None
        with zmq.Context() as context, context.socket(zmq.DEALER) as raw:
            raw.set(zmq.LINGER, 0)
            raw.set(zmq.SNDHWM, 0)
            raw.connect(f"tcp://127.0.0.1:{cluster.port}")
            raw.send(b"anything")
            for _ in range(50):
                assert await node.ask("slurmctld", Ping(), 10)
            assert not cluster.refused
        assert [type(what) for what, _ in cluster.heard] == [Ping] * 51

    in_cluster(test, with_link_key=True)


def test_handshakes_that_never_end_hold_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What strangers send before they have proved anything is bounded."""
    monkeypatch.setattr(link_watch, "MOST_STRANGE_BYTES", 8 << 20)
    # A command that declares 4 MiB and brings most of it.
    command = greeting(b"CURVE") + b"\x06" + struct.pack(">Q", 4 << 20) + b"x" * (3 << 20)

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        before = resident_bytes()
        strangers = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
            writer.write(command)
            strangers.append((reader, writer))
        while cluster.ctld.refusals["strangers_cut"] < 17:
            await asyncio.wait_for(node.ask("slurmctld", Ping(), 10), 60)
        assert resident_bytes() - before < 400 << 20  # the test's own copies and all
        for _, writer in strangers:
            writer.transport.abort()
        assert await node.ask("slurmctld", Ping(), 10)
        assert cluster.ctld._routes.keys() == {"n1"}

    in_cluster(test, with_link_key=True)


@pytest.mark.parametrize("is_user", [False, True], ids=["a stranger", "a user"])
def test_parts_without_end_are_cut_where_there_is_no_key(
    monkeypatch: pytest.MonkeyPatch, is_user: bool
) -> None:
    """auth/munge: the handshake lets everybody in, so what was sent before a proof counts.

    A user's credential proves no daemon: 480 MiB of a user's parts once stayed in the controller.
    """
    monkeypatch.setattr(link_watch, "MOST_STRANGE_BYTES", 8 << 20)

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
        ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
        writer.write(greeting(b"NULL") + b"\x04" + bytes((len(ready),)) + ready)
        # libzmq ends a connection that brings messages before it has sent its own READY.
        await asyncio.wait_for(reader.readuntil(b"READY"), 60)
        if is_user:
            (ping,) = raw_parts(Ping(), USER)
            writer.write(b"\x02" + struct.pack(">Q", len(ping)) + ping)
            await cluster.until(lambda: bool(cluster.refused or cluster.heard[1:]))
            assert cluster.refused == [("role", "Access/permission denied")]
        part = b"\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 20)

        async def send_parts() -> None:
            for _ in range(1000):
                writer.write(part)
                await writer.drain()

        sending = asyncio.create_task(send_parts())
        while not cluster.ctld.refusals["strangers_cut"]:
            await asyncio.wait_for(node.ask("slurmctld", Ping(), 60), 60)
        # The kernel may tell the peer of a connection that was cut only after minutes.
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        # Not close(), which waits until all that was written is sent.
        writer.transport.abort()
        assert cluster.ctld.refusals["strangers_cut"] == 1
        assert await node.ask("slurmctld", Ping(), 10)

    in_cluster(test)


def test_strangers_have_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes; nodes that have spoken stay."""
    monkeypatch.setattr(link_watch, "MOST_STRANGERS", 5)

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        links = [await asyncio.open_connection("127.0.0.1", cluster.port) for _ in range(30)]
        while cluster.ctld.refusals["strangers_cut"] < 25:
            await asyncio.wait_for(node.ask("slurmctld", Ping(), 10), 60)
        for _, writer in links:
            writer.transport.abort()
        assert cluster.ctld._routes.keys() == {"n1"}
        assert await node.ask("slurmctld", Ping(), 10)

    in_cluster(test, with_link_key=True)


def test_no_message_of_a_node_is_longer_than_the_port_takes() -> None:
    """MAXMSGSIZE of the controller's port would drop it, and the node would send it again."""
    own = [row for row in table.rows() if "node" in row.roles and not row.kind.startswith("Test")]
    own = [row for row in own if row.kind != "LaunchStep"]  # of a step manager to other nodes
    longest = max(row.max_bytes for row in own)
    assert longest + frame.MAX_UNAUTHENTICATED_BYTES <= MAX_REPORT_BYTES


def test_different_clocks_are_reported_once_for_each_message() -> None:
    """An answer that is refused for its time is not answered.

    Otherwise that would go on for ever.
    """

    async def test(cluster: Cluster) -> None:
        node = cluster.node("n1")
        assert await node.ask("slurmctld", Ping(), 10)
        later = authenticator(clock_us=lambda: now_us() + 7200_000_000)
        node.identity = replace(node.identity, authenticator=later)
        refused: list[str] = []
        node._on_refused = lambda cause, text, peer: refused.append(cause)
        for _ in range(3):
            with pytest.raises(RequestFailed):
                await node.ask("slurmctld", Ping(), 0.2)
        assert [cause for cause, _ in cluster.refused] == ["from_future"] * 3
        assert refused == ["expired"] * 3

    in_cluster(test)
