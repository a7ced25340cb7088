from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.auth import AuthError, answer_audience, body_digest, check_answer
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Done, ErrorReply, Ping, Pong, Reconfigure
from pyslurm_ng.wire.stream import Call, StreamServer
from pyslurm_ng.wire.stream_client import LinkError, connect_link
from tests.wire.wire_room import authenticator, identity, now_us


def handle(call: Call) -> None:
    if isinstance(call.request, Reconfigure):
        call.part(Done(["a"]))
        call.part(Done(["b"]))
        call.reply(Done(["c"]))
    elif call.peer.role == "slurmctld":
        call.reply(Pong(call.peer.name, call.peer.role, "", 0))
    else:
        call.error(2002, "daemons only")


async def serve(directory: Path) -> tuple[StreamServer, int, str]:
    server = StreamServer(
        handle,
        audience="slurmdbd",
        host="host1",
        service_uid=600,
        authenticator=authenticator(clock_us=now_us),
    )
    path = str(directory / "dbd.sock")
    await server.listen_unix(path)
    return server, await server.listen_tcp("127.0.0.1", 0), path


def test_a_daemon_is_known_by_its_role(tmp_path: Path) -> None:
    """By TCP and by the Unix socket alike: the token counts, not the uid."""

    async def test() -> None:
        server, port, path = await serve(tmp_path)
        me = identity("slurmctld", "ctl")
        for link in (
            await connect_link(me, "slurmdbd", host="127.0.0.1", port=port),
            await connect_link(me, "slurmdbd", path=path),
        ):
            answers = await asyncio.gather(*(link.request(Ping(), 10) for _ in range(300)))
            assert answers == [Pong("ctl", "slurmctld", "", 0)] * 300
            link.close()
            await link.lost
        await server.close()

    asyncio.run(test())


def test_parts_refusals_and_losses(tmp_path: Path) -> None:
    """Each end of a request has its own type."""

    async def test() -> None:
        server, port, _ = await serve(tmp_path)
        link = await connect_link(identity("node", "n1"), "slurmdbd", host="127.0.0.1", port=port)
        with pytest.raises(LinkError, match="daemons only") as caught:
            await link.request(Ping(), 10)
        assert caught.value.code == 2002
        with pytest.raises(LinkError, match="Access/permission denied"):
            await link.request(Reconfigure(b"i" * 16), 10)
        parts: list[msgspec.Struct] = []
        root = await connect_link(identity("user", "ctl"), "slurmdbd", host="127.0.0.1", port=port)
        last = await root.request(Reconfigure(b"i" * 16), 10, parts.append)
        assert [*parts, last] == [Done(["a"]), Done(["b"]), Done(["c"])]
        server.handler = lambda call: next(
            connection for connection in server.connections if connection.awaits(call)
        ).cut()
        with pytest.raises(LinkError, match="Message receive failure"):
            await link.request(Ping(), 10)
        with pytest.raises(LinkError, match="shutdown"):
            await link.request(Ping(), 10)
        server.handler = lambda call: None
        with pytest.raises(LinkError) as caught:
            await root.request(Ping(), 0.05)
        assert caught.value.code == 5004
        root.close()
        await root.lost
        await server.close()
        with pytest.raises(LinkError, match=f"127.0.0.1:{port}"):
            await connect_link(identity("node", "n1"), "x", host="127.0.0.1", port=port)

    asyncio.run(test())


def test_a_cancellation_that_comes_with_the_answer_is_obeyed(tmp_path: Path) -> None:
    """Swallowed, it left the controller's link to slurmdbd waiting for its own end for ever."""

    async def test() -> None:
        server, _, path = await serve(tmp_path)
        link = await connect_link(identity("slurmctld", "ctl"), "slurmdbd", path=path)
        server.handler = lambda call: None
        asking = asyncio.ensure_future(link.request(Ping(), 10))
        while not link._waiting:
            await asyncio.sleep(0)
        (waiting,) = link._waiting.values()
        waiting.future.set_result(Pong("ctl", "slurmctld", "", 0))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        link.close()
        await link.lost
        await server.close()

    asyncio.run(test())


class Impostor(asyncio.Protocol):
    """A program of a user at the port of a daemon that is away: it says the same to all."""

    def __init__(self, answer: msgspec.Struct, proof: bytes = b"") -> None:
        self.kinds: list[str] = []
        self._answer = answer
        self._proof = proof
        self._parser = frame.Parser(lambda *_: True, self._take)
        self._gone = asyncio.get_running_loop().create_future()

    async def listen(self) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        await self._gone
        self._server.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)

    def _take(self, kind: str, _: int, sequence: int, ticket: object, body: bytes) -> None:
        self.kinds.append(kind)
        kind, body = table.kind_of(self._answer), table.encode(self._answer)
        flags = frame.FLAG_REPLY | frame.FLAG_ERROR * isinstance(self._answer, ErrorReply)
        self._transport.write(frame.pack_frame(kind, sequence, body, flags, self._proof))


@pytest.mark.parametrize(
    "proof",
    [
        b"",
        b"x" * 200,
        identity("user", "ctl").authenticator.issue(
            identity("user", "ctl").peer, "slurmctld", "Pong", bytes(32)
        ),
    ],
    ids=["none", "nonsense", "of_a_user"],
)
def test_an_impostor_at_a_daemons_port_is_told_nothing(proof: bytes) -> None:
    """Whoever speaks as slurmdbd decides who is an administrator, and reads the whole journal.

    RELIABILITY 55.
    """

    async def test() -> None:
        impostor = Impostor(Pong("ctl", "accounting", "", 0), proof)
        port = await impostor.listen()
        me = identity("slurmctld", "ctl")
        with pytest.raises(LinkError, match="is not slurmdbd"):
            await connect_link(me, "slurmdbd", host="127.0.0.1", port=port)
        assert impostor.kinds == ["Ping"]
        await impostor.close()

    asyncio.run(test())


def test_a_strangers_refusal_speaks_against_no_record() -> None:
    """After three refusals of that number slurmctld gives a record of the journal up."""

    async def test() -> None:
        impostor = Impostor(ErrorReply(int(Errno.ESLURM_INTERNAL), "cannot be stored"))
        port, me = await impostor.listen(), identity("slurmctld", "ctl")
        with pytest.raises(LinkError, match="cannot be stored") as caught:
            await connect_link(me, "slurmdbd", host="127.0.0.1", port=port)
        assert caught.value.code == Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR
        await impostor.close()

    asyncio.run(test())


def test_a_proof_is_for_one_answer_to_one_request() -> None:
    """What a relay or another daemon has seen proves nothing else."""
    mine, theirs = identity("slurmdbd", "host1"), identity("node", "n1")

    def proof(of: Identity, request: bytes, kind: str, body: bytes) -> bytes:
        digest = body_digest(body)
        return of.authenticator.issue(of.peer, answer_audience(request), kind, digest)

    def check(
        receiver: str, answer_proof: bytes, request: bytes = b"asked", body: bytes = b"yes"
    ) -> None:
        check_answer(mine.authenticator, receiver, request, "Done", answer_proof, body)

    check("slurmdbd", proof(mine, b"asked", "Done", b"yes"))
    check("slurmd:n1", proof(theirs, b"asked", "Done", b"yes"))
    used = proof(mine, b"asked", "Done", b"yes")
    check("slurmdbd", used)
    for cause, receiver, wrong in (
        ("replayed", "slurmdbd", used),
        ("wrong_audience", "slurmdbd", proof(mine, b"other", "Done", b"yes")),
        ("wrong_kind", "slurmdbd", proof(mine, b"asked", "Pong", b"yes")),
        ("altered", "slurmdbd", proof(mine, b"asked", "Done", b"no")),
        ("role", "slurmdbd", proof(theirs, b"asked", "Done", b"yes")),
        ("role", "slurmd:n2", proof(theirs, b"asked", "Done", b"yes")),
        ("missing", "slurmdbd", b""),
    ):
        with pytest.raises(AuthError) as caught:
            check(receiver, wrong)
        assert caught.value.cause == cause
