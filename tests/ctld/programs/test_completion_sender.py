"""Documents reach a web server in order; one that is down costs nothing but them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pyslurm_ng.ctld.programs import completion_sender
from pyslurm_ng.ctld.programs.completion_sender import CompletionSender
from tests.world.logs import LineLog
from tests.world.waiting import wait_until


class Server(HTTPServer):
    """Answers with `codes`, the last one again and again; keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes = [201]
        self.said = b""
        self.taken: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/slurm/_doc"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        """Take a document."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.headers["Content-Type"], body))
        codes = self.server.codes
        self.send_response(codes.pop(0) if len(codes) > 1 else codes[0])
        self.send_header("Content-Length", str(len(self.server.said)))
        self.end_headers()
        self.wfile.write(self.server.said)

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A web server in this process."""
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def log() -> LineLog:
    """What is said."""
    return LineLog()


@pytest.fixture
def lost() -> list[str]:
    """What is told of documents that were not sent."""
    return []


@pytest.fixture
def poster(log: LineLog, lost: list[str]) -> Iterator[CompletionSender]:
    """One that tries again at once."""
    made = CompletionSender(log, lost.append, pause_s=0.01)
    yield made
    made.stop()


def test_documents_are_sent_in_order(server: Server, poster: CompletionSender) -> None:
    for number in range(5):
        poster.post(server.url, b"%d" % number, "")
    wait_until(lambda: len(server.taken) == 5, "five documents")
    assert server.taken == [("application/json", b"%d" % number) for number in range(5)]


def test_what_is_not_taken_is_sent_again(
    server: Server, poster: CompletionSender, log: LineLog
) -> None:
    """The failure is logged once, and so is its end."""
    server.codes = [503, 503, 201]
    poster.post(server.url, b"a", "")
    poster.post(server.url, b"b", "")
    wait_until(lambda: len(server.taken) == 4, "two documents after two failures")
    assert [body for _, body in server.taken] == [b"a", b"a", b"a", b"b"]
    wait_until(lambda: len(log.lines) == 2, "two lines")
    assert "HTTP 503" in log.lines[0]
    assert "taken again" in log.lines[1]


def test_a_document_that_is_refused_for_good_is_dropped(
    server: Server, poster: CompletionSender, lost: list[str]
) -> None:
    """Otherwise all later ones would wait behind it. The administrator reads which, and why."""
    server.codes, server.said = [400, 201], b'{"error":\n"mapper_parsing_exception"}'
    poster.post(server.url, b"bad", "JobId=7")
    poster.post(server.url, b"good", "JobId=8")
    wait_until(lambda: len(server.taken) == 2, "both")
    why = 'HTTP 400 Bad Request {"error": "mapper_parsing_exception"}'
    assert lost == [f"JobId=7: not taken: {server.url}: {why}"]


def test_no_more_wait_than_there_is_room_for(
    poster: CompletionSender, lost: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest go first; those left at the end are told of, too."""
    monkeypatch.setattr(completion_sender, "WAITING", 3)
    for number in range(10):
        poster.post("http://127.0.0.1:1/", b"%d" % number, f"JobId={number}")
    assert lost == [
        f"JobId={number}: not sent, because too many documents wait" for number in range(7)
    ]
    poster.stop()
    assert lost[7:] == [f"JobId={number}: perhaps not sent before the end" for number in (7, 8, 9)]
