"""Webhooks: what is configured, signed, sent again, bounded."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.web.events import webhooks
from pyslurm_ng.web.events.event_filter import EventFilter
from pyslurm_ng.web.events.feed import Line
from pyslurm_ng.web.events.webhooks import Delivery, read_webhooks, send
from pyslurm_ng.web.options import BadOptions

SECRET = b"0123456789abcdef"


def written(folder: Path, text: str, mode: int = 0o600, secret: bytes = SECRET) -> str:
    """Write a file of hooks and their secret; return its path."""
    key = folder / "secret"
    key.write_bytes(secret + b"\n")
    key.chmod(mode)
    path = folder / "hooks.toml"
    path.write_text(text.replace("SECRET", str(key)))
    return str(path)


HOOK = '[[webhook]]\nname = "ci"\nurl = "http://127.0.0.1:1/x?y=1"\nsecret_file = "SECRET"\n'


def test_a_file_is_read(tmp_path: Path) -> None:
    """Address, secret and filter."""
    path = written(tmp_path, HOOK + 'event = ["ended"]\nuser = ["alice", "bob"]\n')
    (hook,) = read_webhooks(path)
    assert (hook.name, hook.path, hook.secret) == ("ci", "/x?y=1", SECRET)
    assert hook.event_filter == EventFilter.of({"event": ["ended"], "user": ["alice", "bob"]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 to 32 tables"), ("x = 1", "only tables"), ("[[webhook]", "hooks.toml"),
        ("webhook = 3", "only tables"), (HOOK + HOOK, "the same name"),
        (HOOK.replace("http:", "file:"), "http://HOST"), (HOOK.replace("http:", "ftp:"), "http://"),
        (HOOK.replace("127", "a:b@127"), "no user"), (HOOK.replace("y=1", "y=1#z"), "no user"),
        (HOOK.replace(":1/", ":99999/"), "http://HOST"), (HOOK.replace("/x", "/x y"), "http://"),
        (HOOK.replace("/x", "/x\\r\\nHost: z"), "http://HOST"), (HOOK + "retries = 3\n", "retries"),
        (HOOK + "event = 3\n", "event: a list"), (HOOK + 'state = ["X"]\n', "state=X"),
        (HOOK.replace('"SECRET"', '"/nowhere"'), "No such file"), (HOOK.replace("ci", ""), "name"),
        (HOOK.replace("url", "ulr"), "ulr: name, url, secret_file, "),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    """Nothing begins with half of its hooks."""
    with pytest.raises(BadOptions) as refused:
        read_webhooks(written(tmp_path, text))
    assert said in str(refused.value)


@pytest.mark.parametrize(("mode", "secret"), [(0o644, SECRET), (0o620, SECRET), (0o600, b"short")])
def test_a_secret_is_secret(tmp_path: Path, mode: int, secret: bytes) -> None:
    """A secret that others read proves nothing."""
    with pytest.raises(BadOptions, match="secret_file"):
        read_webhooks(written(tmp_path, HOOK, mode, secret))


class _Taker(BaseHTTPRequestHandler):
    """Remembers what it is sent; `answers` are the statuses to come."""

    got: list[tuple[str, dict[str, str], bytes]]
    answers: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, dict(self.headers.items()), body))
        self.send_response(self.answers.pop(0) if self.answers else 204)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="taker")
def begin(tmp_path: Path) -> Any:
    handler = type("Taker", (_Taker,), {"got": [], "answers": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    port = server.server_port
    path = written(tmp_path, HOOK.replace(":1/", f":{port}/"))
    yield handler, read_webhooks(path)[0]
    server.shutdown()
    server.server_close()
    thread.join()


def line(number: int = 1) -> Line:
    return Line(number, "job", {"sequence": number, "event": "ended"}, b"")


async def deliver(delivery: Delivery, lines: list[Line], until: Any) -> None:
    """Run a delivery until something is so."""
    for each in lines:
        delivery.add(each)
    task = asyncio.create_task(delivery.run())
    for _ in range(2000):
        if until():
            break
        await asyncio.sleep(0.005)
    task.cancel()
    assert until()


def test_events_are_signed_and_sent_again(taker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver checks the signature; the same delivery comes until it is taken, in order."""
    handler, hook = taker
    monkeypatch.setattr(webhooks, "_PAUSE_S", 0.01)
    handler.answers += [500, 302]
    said: list[str] = []
    delivery = Delivery(hook, "demo", said.append)
    asyncio.run(deliver(delivery, [line(1), line(2)], lambda: delivery.sent == 2))
    assert said == [
        "webhook ci: HTTP 500; its events wait and are sent again",
        "webhook ci: takes events again",
    ]
    assert len(handler.got) == 4
    path, headers, body = handler.got[0]
    assert path == "/x?y=1"
    assert json.loads(body) == {"cluster": "demo", "kind": "job", "sequence": 1, "event": "ended"}
    stamped = headers["X-Pyslurm-Timestamp"].encode() + b"." + body
    good = "sha256=" + hmac.new(SECRET, stamped, "sha256").hexdigest()
    assert hmac.compare_digest(headers["X-Pyslurm-Signature"], good)
    deliveries = [got[1]["X-Pyslurm-Delivery"] for got in handler.got]
    assert len(set(deliveries[:3])) == 1 and deliveries[3] != deliveries[0]


def test_an_event_is_given_up_at_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An address that refuses one event for ever gets the next."""
    monkeypatch.setattr(webhooks, "_PAUSE_S", 0.0)
    (hook,) = read_webhooks(written(tmp_path, HOOK))
    said: list[str] = []
    delivery = Delivery(hook, "demo", said.append)
    asyncio.run(deliver(delivery, [line()], lambda: delivery.failed == 1))
    assert "refused; its events wait" in said[0], "known before the last try, minutes later"
    assert "given up after 10 tries" in said[1] and "refused" in said[1] and len(said) == 2


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """While an address is away, the newest events are kept."""
    (hook,) = read_webhooks(written(tmp_path, HOOK))
    said: list[str] = []
    delivery = Delivery(hook, "demo", said.append)
    for number in range(webhooks.MOST_WAITING + 5):
        delivery.add(line(number))
    assert len(delivery.waiting) == webhooks.MOST_WAITING and delivery.dropped == 5
    assert delivery.waiting[0].sequence == 5 and len(said) == 1


def test_an_address_that_never_answers_costs_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again later."""
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.05)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        (hook,) = read_webhooks(written(tmp_path, HOOK.replace(":1/", f":{port}/")))
        assert "timed out" in asyncio.run(send(hook, "job", b"{}", "d"))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([b"HTTP/1.1 200 OK\r\nX: ", *[b"a"] * 400], "timed out"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"] * 400, "8 times 100 Continue"),
        ([b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 9000], "limit"),
        ([b"SSH-2.0-x\r\n\r\n"], "no HTTP"), ([b"HTTP/1.1 2000\r\n\r\n"], "no HTTP"),
        ([b"HTTP/1.1 200 OK\r\n"], "ended before"), ([b"HTTP/1.1 302 x\r\n\r\n"], "HTTP 302"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 \r\n\r\n"], ""),
    ],
)  # fmt: skip
def test_no_receiver_keeps_a_hook_for_long(
    answer: list[bytes], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that sent a byte every nine seconds was waited for without end, and others with it."""
    monkeypatch.setattr(webhooks, "ANSWER_S", 0.5 if why == "timed out" else 60.0)

    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        for piece in answer:
            if not writer.is_closing():
                writer.write(piece)
                await asyncio.sleep(0.005)
        writer.close()
        over.set()

    async def scene() -> str:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        (hook,) = read_webhooks(written(tmp_path, HOOK.replace(":1/", f":{port}/")))
        said = await send(hook, "job", b"{}", "d")
        await over.wait()
        server.close()
        await asyncio.sleep(0)
        return said

    said = asyncio.run(scene())
    assert why in said and bool(said) == bool(why)
