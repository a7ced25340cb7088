"""GET /events: one subscription for all who may hear the same, filters, slow listeners."""

from __future__ import annotations

import asyncio
import json
import queue
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.web.app import Service, build_app
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.events import endpoint, feed as feed_module
from pyslurm_ng.web.events.endpoint import routes
from pyslurm_ng.web.events.event_filter import BadWord, EventFilter
from pyslurm_ng.web.events.feed import Feed, Line
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.events.webhooks import Webhooks, read_webhooks
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.wire.client import SlurmError
from tests.web.front import CONF, token_of

JOB = {
    "time_us": 10**15, "what": "started", "job_id": 7, "id": "7", "uid": 1001, "user": "alice",
    "account": "physics", "partition": "main", "name": "<b>", "state": 1,
}  # fmt: skip
NODE = {"time_us": 10**15, "what": "down", "nodes": "n[1-2]", "state": 1, "reason": "gone"}


class Controller:
    """slurmctld, as far as its subscriptions go."""

    def __init__(self) -> None:
        self.sequence = 100
        self.subscriptions: list[Subscribed] = []
        self.requests: list[dict[str, Any]] = []
        self.audiences: dict[str, str] = {}
        self.refused: set[str] = set()

    def tell(self, *, jobs: list[dict[str, Any]] | None = None, nodes: list[Any] = []) -> None:  # noqa: B006
        """Tell all subscriptions of one batch."""
        self.sequence += 1
        of_batch = [{**event, "sequence": self.sequence} for event in (jobs or [])]
        of_nodes = [{**event, "sequence": self.sequence} for event in nodes]
        for subscribed in self.subscriptions:
            subscribed.came.put({"sequence": self.sequence, "jobs": of_batch, "nodes": of_nodes})


class Subscribed:
    """A client of that controller."""

    def __init__(self, controller: Controller, name: str) -> None:
        self._controller = controller
        self._name = name
        self.came: queue.Queue[Any] = queue.Queue()

    def call(
        self, kind: str, fields: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Answer a Ping, by which a token is shown."""
        if self._name in self._controller.refused:
            raise SlurmError(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, "no")
        return {}

    def begin(self, kind: str, fields: dict[str, Any]) -> int:
        controller = self._controller
        assert kind == "FollowEvents"
        if self._name in controller.refused:
            raise SlurmError(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, "no")
        controller.requests.append(fields)
        after = fields["after"]
        is_known = 50 <= after <= controller.sequence
        begun = {
            "sequence": after if is_known else controller.sequence,
            "is_whole": after < 0 or is_known,
            "audience": controller.audiences.get(self._name, "all"),
            "cluster_name": "demo",
        }
        self.came.put(begun)
        controller.subscriptions.append(self)
        return 1

    def receive(self, timeout_s: float | None = None) -> tuple[int, dict[str, Any], bool]:
        told = self.came.get(timeout=60)
        if isinstance(told, SlurmError):
            raise told
        return 1, told, "why" in told

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        if self in self._controller.subscriptions:
            self._controller.subscriptions.remove(self)


class Stream:
    """One listener's answer, piece by piece."""

    def __init__(self) -> None:
        self.status = 0
        self.text = ""
        self.is_over = False
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    @property
    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return (id, event, data) of each event."""
        read = []
        for block in self.text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in fields:
                read.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
        return read

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.events]


class Room:
    """slurmrestd over that controller."""

    def __init__(self, most: int = 100) -> None:
        self.controller = Controller()

        def make(conf: Any, audience: str, requester: Requester) -> Any:
            return Subscribed(self.controller, requester.name)

        daemons = Daemons(CONF, make)
        service = Service(daemons)
        self.feeds = Feeds(daemons, service.faults)
        self.app: Starlette = build_app(service, list(routes(service, self.feeds, most)))
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(
        self, query: str = "", user: str = "alice", last_id: str = "", **claims: Any
    ) -> Stream:
        """Listen, up to the first piece or the refusal."""
        stream = Stream()
        headers = [(b"x-slurm-user-token", token_of(user, **claims).encode())]
        if last_id:
            headers.append((b"last-event-id", last_id.encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": "/events", "raw_path": b"/events", "root_path": "",
            "query_string": query.encode(), "headers": headers, "state": {},
            "client": ("127.0.0.1", 4000), "server": ("127.0.0.1", 6820),
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            await stream.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            stream.status = message.get("status", stream.status)
            stream.text += message.get("body", b"").decode()
            stream.is_over = stream.is_over or (
                message["type"] == "http.response.body" and not message.get("more_body")
            )
            await stream.reads.wait()

        self._tasks.append(asyncio.create_task(self.app(scope, receive, send)))  # type: ignore[arg-type]
        await until(lambda: bool(stream.text))
        return stream

    async def close(self) -> None:
        self.feeds.is_closed = True
        for subscribed in list(self.controller.subscriptions):
            subscribed.came.put(SlurmError(Errno.ESLURM_ACCESS_DENIED, "over"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that another thread or task does."""
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


def play(scene: Callable[[Room], Awaitable[None]], **room: Any) -> None:
    """Run a scene in a loop of its own."""

    async def run() -> None:
        made = Room(**room)
        try:
            await scene(made)
        finally:
            await made.close()

    asyncio.run(run())


def test_events_are_sent_as_they_come() -> None:
    """With the batch as id, by which a listener goes on; what users wrote is JSON."""

    async def scene(room: Room) -> None:
        stream = await room.listen()
        assert stream.status == 200 and stream.events[0][:2] == ("100", "begun")
        room.controller.tell(jobs=[JOB, {**JOB, "job_id": 8, "id": "8"}], nodes=[NODE])
        await until(lambda: len(stream.events) == 4)
        ids, names, records = zip(*stream.events[1:], strict=True)
        assert ids == ("", "", "101") and names == ("job", "job", "node")
        assert records[0]["name"] == "<b>" and records[0]["job_state"] == ["RUNNING"]
        assert records[2]["state"] == ["DOWN"] and records[2]["nodes"] == "n[1-2]"

    play(scene)


def test_many_listeners_take_one_subscription() -> None:
    """slurmctld tells one, and each was let in by slurmctld."""

    async def scene(room: Room) -> None:
        streams = [await room.listen(f"user={name}") for name in ("alice", "bob") * 100]
        assert len(room.controller.subscriptions) == 1
        assert len(room.controller.requests) == 200
        room.controller.tell(jobs=[JOB])
        await until(lambda: all(len(stream.events) == 2 for stream in streams[::2]))
        assert all(len(stream.events) == 1 for stream in streams[1::2])
        for stream in streams:
            stream.gone.set()
        await until(lambda: room.feeds.counts[1] == 0)

    play(scene, most=800)


def test_each_audience_has_its_own() -> None:
    """Where data are private, nobody hears by another's credential."""

    async def scene(room: Room) -> None:
        room.controller.audiences = {"alice": "uid 1001", "bob": "uid 1002"}
        alice, bob = await room.listen(), await room.listen(user="bob")
        first, _ = room.controller.subscriptions
        first.came.put({"sequence": 101, "jobs": [{**JOB, "sequence": 101}], "nodes": []})
        await until(lambda: alice.names == ["begun", "job"])
        assert bob.names == ["begun"]

    play(scene)


def test_a_listener_goes_on_where_it_was() -> None:
    """By Last-Event-ID, or `after`; one that is too late is told to read lists again."""

    async def scene(room: Room) -> None:
        await room.listen()
        for number in range(3):
            room.controller.tell(jobs=[{**JOB, "job_id": number}])
        await until(lambda: next(iter(room.feeds._feeds.values())).newest == 103)
        again = await room.listen(last_id="101")
        await until(lambda: len(again.events) == 3)
        assert again.names == ["begun", "job", "job"]
        assert [record["job_id"] for _, _, record in again.events[1:]] == [1, 2]
        assert (await room.listen("after=3")).names == ["reset"]
        assert (await room.listen("after=999999")).names == ["reset"]

    play(scene)


def test_a_listener_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a word for it; the others go on, and nothing is kept for it without end."""
    monkeypatch.setattr(feed_module, "MOST_PIECES", 4)

    async def scene(room: Room) -> None:
        slow, quick = await room.listen(), await room.listen()
        await asyncio.sleep(0)
        slow.reads.clear()
        for count in range(1, 12):
            room.controller.tell(jobs=[JOB])
            await until(lambda count=count: len(quick.events) == 1 + count)  # type: ignore[misc]
        slow.reads.set()
        await until(lambda: slow.is_over)
        assert slow.names[-1] == "dropped" and slow.events[-1][0] == ""
        assert not quick.is_over

    play(scene)


def test_rights_that_change_end_the_feed() -> None:
    """Each listener asks again, with its own token."""

    async def scene(room: Room) -> None:
        stream = await room.listen()
        room.controller.subscriptions[0].came.put({"why": "changed", "sequence": 100})
        await until(lambda: stream.is_over)
        assert stream.names == ["begun", "again"]
        room.controller.refused = {"alice"}
        assert (await room.listen()).status == 401

    play(scene)


def test_a_restart_of_slurmctld_is_survived() -> None:
    """Events go on from where they were; where that is not known, lists are to be read again."""

    async def scene(room: Room) -> None:
        stream = await room.listen()
        lost = SlurmError(Errno.SLURMCTLD_COMMUNICATIONS_RECEIVE_ERROR, "gone")
        room.controller.subscriptions[0].came.put(lost)
        await until(lambda: len(room.controller.requests) == 2)
        assert room.controller.requests[1]["after"] == 100
        room.controller.tell(jobs=[JOB])
        await until(lambda: stream.names == ["begun", "job"])
        next(iter(room.feeds._feeds.values())).begin_again(7)
        await until(lambda: stream.names[-1] == "reset")

    play(scene)


def test_webhooks_say_where_events_begin_and_where_some_were_missed(tmp_path: Path) -> None:
    """After a restart of slurmctld its receivers were not told that they lacked some."""
    (tmp_path / "secret").write_text("s" * 16)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "hooks").write_text(
        '[[webhook]]\nname = "ci"\nurl = "http://127.0.0.1:1/"\nuser = ["nobody-of-these"]\n'
        f'secret_file = "{tmp_path}/secret"\n'
    )

    async def scene(room: Room) -> None:
        said: list[str] = []
        hooks = Webhooks(read_webhooks(str(tmp_path / "hooks")), room.feeds, "demo", said.append)
        (delivery,) = hooks.deliveries
        kinds: list[tuple[str, int]] = []

        def add(told: Line) -> None:
            kinds.append((told.record["event"], told.record["sequence"]))

        delivery.add = add  # type: ignore[method-assign,assignment]
        sending = asyncio.create_task(hooks.run())
        await until(lambda: kinds == [("begun", 100)])
        (feed,) = room.feeds._feeds.values()
        feed.begin_again(170)
        await until(lambda: kinds[1:] == [("reset", 170)])
        feed.end("again")
        await until(lambda: kinds[2:] == [("reset", 100)])
        assert len(said) == 2 and "missed" in said[0]
        sending.cancel()

    play(scene)


@pytest.mark.parametrize(
    ("query", "last_id", "status"),
    [
        ("state=NOPE", "", 400), ("kind=user", "", 400), ("job=x", "", 400), ("nope=1", "", 400),
        ("node=n[1", "", 400), ("node=n[1-65536]", "", 400),
        ("after=x", "", 400), ("after=-1", "", 400), ("", "1" * 30, 400),
        ("user=" + "x" * 300, "", 400), ("user=" + ",".join(map(str, range(300))), "", 400),
        ("x" * 20000, "", 414), ("after=" + "\u0663", "", 400),
    ],
)  # fmt: skip
def test_bad_words_are_refused(query: str, last_id: str, status: int) -> None:
    """By name, with Slurm's error object, before slurmctld is asked."""

    async def scene(room: Room) -> None:
        stream = await room.listen(query, last_id=last_id)
        assert stream.status == status
        assert json.loads(stream.text)["errors"][0]["description"]
        assert not room.controller.requests

    play(scene)


def test_no_listener_outlives_its_token() -> None:
    """Neither one to whom nothing happens, nor one who always finds something to read."""

    async def scene(room: Room) -> None:
        busy = await room.listen("", "bob", exp=time.time() + 0.5)
        idle = await room.listen("", "alice", exp=time.time() + 0.6)
        busy.reads.clear()
        for _ in range(5):
            room.controller.tell(jobs=[JOB])
        await until(lambda: idle.is_over)
        busy.reads.set()
        await until(lambda: busy.is_over)
        assert idle.names[-1] == busy.names[-1] == "again"
        assert busy.names.count("job") <= 2

    play(scene)


def test_listeners_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token takes half of all places."""

    async def scene(room: Room) -> None:
        assert (await room.listen()).status == 200
        assert (await room.listen()).status == 429
        assert (await room.listen(user="bob")).status == 200

    play(scene, most=4)
    assert endpoint.LONGEST_S > 0


def test_words_of_listeners_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each listener keeps its filter, and a few bytes of a query name a thousand nodes."""
    monkeypatch.setattr(endpoint, "WORDS_OF_ONE", 20)
    monkeypatch.setattr(endpoint, "MOST_WORDS", 30)

    async def scene(room: Room) -> None:
        first = await room.listen("node=n[1-14]")
        assert first.status == 200
        assert (await room.listen("node=n[1-14]")).status == 429
        assert (await room.listen("node=n1")).status == 200
        assert (await room.listen("node=n[1-14]", user="bob")).status == 429

    play(scene)


@pytest.mark.parametrize(
    ("words", "kind", "record", "agrees"),
    [
        ({}, "node", {"event": "down"}, True),
        ({"user": ["alice"]}, "node", {"event": "down"}, False),
        ({"node": ["n[1-3]"]}, "node", {"event": "down", "nodes": "n[3-9]"}, True),
        ({"node": ["n[1-3]"]}, "node", {"event": "down", "nodes": "n[4-9]"}, False),
        ({"event": ["down,up"], "kind": ["node"]}, "node", {"event": "up"}, True),
    ],
)
def test_words(
    words: dict[str, list[str]], kind: str, record: dict[str, Any], agrees: bool
) -> None:
    """What a filter means for an event."""
    assert EventFilter.of(words).agrees(kind, record) is agrees


def test_jobs_are_wanted_by_each_of_their_names() -> None:
    """A task's job id, the array's, the task's own; a state in each of its spellings."""
    record = {
        "event": "started", "job_id": 31, "id": "30_1", "array_job_id": 30, "user_name": "alice",
        "account": "physics", "partition": "main", "job_state": ["RUNNING", "CONFIGURING"],
    }  # fmt: skip
    for words in (
        {"job": ["30"]}, {"job": ["31"]}, {"job": ["30_1"]}, {"job": ["5,30"]}, {"state": ["r"]},
        {"state": ["configuring"]}, {"state": ["CF"]}, {"account": ["PHYSICS"]},
    ):  # fmt: skip
        assert EventFilter.of(words).agrees("job", record), words
    for words in ({"job": ["3"]}, {"job": ["30_2"]}, {"state": ["PD"]}, {"user": ["bob"]}):
        assert not EventFilter.of(words).agrees("job", record), words
    with pytest.raises(BadWord):
        EventFilter.of({"job": ["30_x"]})


def test_a_flood_in_one_batch_is_not_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a hundred thousand jobs would take all memory of slow listeners."""
    monkeypatch.setattr(feed_module, "MOST_AT_ONCE", 3)

    async def scene() -> None:
        feed = Feed("all", 1, 1)
        feed.tell({"sequence": 2, "jobs": [{**JOB, "sequence": 2}] * 4, "nodes": []})
        assert (feed.resets, feed.floor, len(feed.lines)) == (1, 2, 0)

    asyncio.run(scene())
