from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.wire.messages import Done, Ping, Pong, Reconfigure
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
