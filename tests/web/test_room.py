"""Nobody takes others' room in slurmrestd: strangers nothing at all, users their share."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.data_parser.request_bodies import MOST_WORDS
from pyslurm_ng.web import bodies, rooms
from pyslurm_ng.web.known_users import ASKING
from pyslurm_ng.web.refusal import Refusal
from pyslurm_ng.web.requester import requester_of
from pyslurm_ng.web.rooms import Holding, Rooms
from pyslurm_ng.wire.client import SlurmError
from tests.web.front import FrontClient, front

ALL = frozenset(("rest_auth/local", "rest_auth/jwt"))


def claiming(name: Any) -> str:
    """Return a token with any name, which no daemon would believe."""
    claims = urlsafe_b64encode(json.dumps({"sun": name}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the daemons believe no token; return what they are asked."""
    kinds: list[str] = []

    def refuse(self: FrontClient, kind: str, *rest: Any) -> dict[str, Any]:
        kinds.append(kind)
        raise SlurmError(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, "token is not valid")

    monkeypatch.setattr(FrontClient, "call", refuse)
    return kinds


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "a\nb", "x" * 5000, "", 0, None, ["root"], "root"]
)
def test_what_a_token_claims_is_nobody_until_it_is_believed(asked: list[str], name: Any) -> None:
    """No name is looked up and none is shown: it may be any text, and a directory may be slow."""
    answer = front(None, "").get("/slurm/v0.0.46/jobs", X_SLURM_USER_TOKEN=claiming(name))
    assert answer.status == 401
    client = answer.json()["meta"]["client"]
    assert (client["user"], client["group"]) == ("", "")
    assert asked == ["Ping"]


def test_nothing_is_done_for_a_token_that_is_not_believed(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what needs no daemon; and its body is not read."""
    monkeypatch.setattr(bodies, "MOST_BODY_BYTES", 10)  # of a body that is read: 413
    stranger = front(None, "eve")
    assert stranger.post("/util/v0.0.46/hostnames", {"hostlist": "n[1-5]"}).status == 401
    assert stranger.post("/slurm/v0.0.46/job/submit", {"script": "#!/bin/sh\n"}).status == 401


def test_nothing_is_done_while_nobody_can_believe_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrontClient, "is_away", True)
    answer = front().post("/util/v0.0.46/hostnames", {"hostlist": "n[1-5]"})
    assert answer.status == 502


def test_a_token_is_shown_once_in_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    usual = FrontClient.call

    def call(self: FrontClient, kind: str, *rest: Any) -> dict[str, Any]:
        kinds.append(kind)
        return usual(self, kind, *rest)

    monkeypatch.setattr(FrontClient, "call", call)
    user = front()

    async def story() -> None:
        for _ in range(3):
            await user._run("GET", "/slurm/v0.0.46/licenses", b"",
                            {"x-slurm-user-token": claiming("alice")})  # fmt: skip

    asyncio.run(story())
    assert (kinds.count("Ping"), kinds.count("ShowLicenses")) == (1, 3)


def test_a_daemon_that_hangs_keeps_nobody_from_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """More tokens wait for slurmdbd than may be shown at once; slurmctld is asked all the same."""
    goes_on = threading.Event()

    def call(self: FrontClient, kind: str, *rest: Any) -> dict[str, Any]:
        if kind == "Ping" and self.audience == "slurmdbd":
            assert goes_on.wait(20)
        return {"names": [], "name": "", "role": "", "version": "", "fields": [], "records": b""}

    monkeypatch.setattr(FrontClient, "call", call)
    user = front()

    async def story() -> None:
        waiting = [
            asyncio.create_task(user._run("GET", "/slurmdb/v0.0.46/users/", b"",
                                          {"x-slurm-user-token": claiming(f"user{number}")}))
            for number in range(3 * ASKING)
        ]  # fmt: skip
        await asyncio.sleep(0.1)
        headers = {"x-slurm-user-token": claiming("alice")}
        asked = user._run("GET", "/slurm/v0.0.46/ping/", b"", headers)
        answer = await asyncio.wait_for(asked, 10)
        assert answer.status == 200
        goes_on.set()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(story())


def test_all_tokens_of_a_user_are_one_share() -> None:
    """Otherwise who makes many tokens, or names many users, has many shares."""
    from dataclasses import replace

    first, second = (
        replace(requester_of({"x-slurm-user-token": token}, None, ALL), is_known=True)
        for token in (claiming("alice"), claiming("alice") + "y")
    )
    assert first.credential != second.credential
    assert first.share == second.share == b"alice"
    assert requester_of({"x-slurm-user-token": claiming("alice")}, None, ALL).share == rooms.NOBODY


def test_the_claim_of_the_site_names_the_share() -> None:
    token = urlsafe_b64encode(json.dumps({"sun": "eve", "mail": "alice"}).encode()).decode()
    asked = requester_of({"x-slurm-user-token": f"e30.{token.rstrip('=')}.x"}, None, ALL, "mail")
    assert asked.name == "alice"


def test_a_user_has_only_so_many_requests() -> None:
    """Others are served; what ends makes room again."""
    room = Rooms()
    holdings = [Holding(room) for _ in range(rooms.OPEN_OF_ONE)]
    for holding in holdings:
        holding.enter(b"bob")
    with pytest.raises(Refusal):
        Holding(room).enter(b"bob")
    Holding(room).enter(b"alice")
    holdings[0].leave()
    Holding(room).enter(b"bob")


def test_a_user_holds_only_so_many_bytes() -> None:
    """Bodies that come in and answers that nobody takes count alike, over all requests."""
    room = Rooms()
    first, second, other = Holding(room), Holding(room), Holding(room)
    first.enter(b"bob")
    second.enter(b"bob")
    other.enter(b"alice")
    first.hold(rooms.BYTES_OF_ONE)
    with pytest.raises(Refusal):
        second.hold(1)
    other.hold(rooms.BYTES_OF_ONE)
    first.leave()
    second.hold(1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jobs":[' + b"{}," * 200_001 + b"{}]}",
        b'{"x":[' + b"[]," * 200_001 + b"[]]}",
        b'{"x":[' + b"1," * 200_001 + b"1]}",
        b'{"job":{"environment":[' + b'"A=1",' * 200_001 + b'"A=1"]}}',
        b'"\\""' * 300_000,
    ],
)
def test_a_body_of_many_values_is_refused_before_they_are_made(body: bytes) -> None:
    """16 MiB of `{},` are a gigabyte, and half a minute of work."""
    headers = {"content-type": "application/json"}
    answer = front().request("POST", "/slurm/v0.0.46/job/submit", body, headers)
    assert answer.status == 413
    assert "100000 values" in answer.errors[0]["description"]


def test_a_list_as_text_is_bounded() -> None:
    body = {"script": "#!/bin/sh\n", "job": {"environment": "A=1," * (MOST_WORDS + 2)}}
    answer = front().post("/slurm/v0.0.46/job/submit", body)
    assert answer.status == 400


def test_a_long_script_is_no_list() -> None:
    """Commas and brackets within texts are no values."""
    script = "#!/bin/sh\n" + '[1,{2},\\"3\\"' * 100_000
    job = {"current_working_directory": "/tmp", "environment": ["A=1"], "partition": "main"}
    answer = front().post("/slurm/v0.0.46/job/submit", {"script": script, "job": job})
    assert answer.status == 200, answer.content[:300]


@pytest.mark.parametrize(
    "text", ["n[" + "1," * 600_000 + "1]", ",".join(["a[1-9]b[1-9]"] * 70_000), "n[1-99999999]"]
)
def test_host_lists_are_bounded(text: str) -> None:
    """Two million numbers in brackets kept a thread busy for ten seconds."""
    answer = front().post("/util/v0.0.46/hostnames", {"hostlist": text})
    assert answer.status == 400


def test_memory_is_given_back_after_much_was_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocator would keep what each thread needed at most; little is not worth it."""
    returned: list[int] = []
    monkeypatch.setattr(rooms, "return_memory", lambda: returned.append(1))
    monkeypatch.setattr(rooms, "RETURN_S", 0.01)

    async def scene() -> None:
        shared = Rooms()
        for count, times in ((1000, 0), (rooms.LEAST_RETURNED, 1), (1000, 1)):
            holding = Holding(shared)
            holding.hold(count)
            shared.return_memory()
            holding.leave()
            for _ in range(3):
                shared.return_memory()
            await asyncio.sleep(0.2)
            assert len(returned) == times

    asyncio.run(scene())


def test_what_threads_have_freed_goes_back_to_the_system() -> None:
    """In a process of its own, since the allocator's settings hold until the end."""
    program = """
import threading
from pyslurm_ng.daemon.process_settings import return_memory, share_memory
def held_kib():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty:"))
kept = []
def work():
    pieces = [bytearray(20_000) for _ in range(500)]
    kept.append(pieces[::50])
share_memory(4)
threads = [threading.Thread(target=work) for _ in range(16)]
before = held_kib()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return_memory()
print(held_kib() - before)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert int(result.stdout) < 25_000, result.stderr
