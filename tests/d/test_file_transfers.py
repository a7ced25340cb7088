"""Files sent to a node: a user's writers may be stopped, and have a share of the places."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.host.cgroup import GroupV2
from pyslurm_ng.d.requests import file_transfers
from pyslurm_ng.d.requests.file_transfers import FileTransfers
from pyslurm_ng.d.stepd import file_receiver
from pyslurm_ng.wire.node_messages import SendFile

ALICE, BOB = 1000, 1001


class Asked:
    """A call that keeps its answer."""

    def __init__(self, uid: int) -> None:
        self.peer = SimpleNamespace(uid=uid)
        self.answer: object = None

    def reply(self, answer: object) -> None:
        self.answer = answer

    def error(self, code: int, text: str) -> None:
        self.answer = code


class Node:
    """Transfers whose writers are this test's own children; they stay what they are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.children: list[int] = []
        self.ended: set[int] = set()
        self.job_group = directory / "job_1"
        self.files = FileTransfers(
            self._fork,
            lambda known: known.uid in self.ended,
            lambda known: GroupV2({"unified": str(self.job_group)}),
            lambda known: None,
        )

    def _fork(self, theirs: socket.socket) -> None:
        child = os.fork()
        if child == 0:
            try:
                file_receiver._become = lambda *who: None
                end = theirs.dup()
                os.closerange(3, end.fileno())
                file_receiver.receive(end)  # type: ignore[arg-type]
            finally:
                os._exit(0)
        theirs.close()
        self.children.append(child)

    async def begin(self, uid: int, key: int) -> object:
        call = Asked(uid)
        request = SendFile(
            key=bytes([key]) * 16, path=str(self.directory / str(key)), mode=0o600, data=b"x"
        )
        who: Any = SimpleNamespace(uid=uid, gid=uid)
        account: Any = SimpleNamespace(groups=())
        await self.files.begin(call, request, who, account)  # type: ignore[arg-type]
        return call.answer

    async def more(self, uid: int, key: int) -> object:
        call = Asked(uid)
        await self.files.go_on(call, SendFile(key=bytes([key]) * 16, data=b"y", is_last=True))  # type: ignore[arg-type]
        return call.answer

    def close(self) -> None:
        self.files.close()
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def on_node(test: Any, directory: Path) -> None:
    async def run() -> None:
        node = Node(directory)
        try:
            work: Coroutine[Any, Any, None] = test(node)
            await work
        finally:
            node.close()

    asyncio.run(run())


def test_a_user_has_a_share_of_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next file of this user has to come again.

    Another user's is accepted, and the largest makes room.
    """
    monkeypatch.setattr(file_transfers, "_MOST_OPEN", 4)
    monkeypatch.setattr(file_transfers, "_MOST_OF_USER", 4)

    async def test(node: Node) -> None:
        for key in range(4):
            assert not isinstance(await node.begin(ALICE, key), int)
        assert await node.begin(ALICE, 9) == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
        assert not isinstance(await node.begin(BOB, 10), int)
        assert await node.more(ALICE, 0) == 9  # EBADF: the oldest had to go
        assert not isinstance(await node.more(ALICE, 1), int)
        assert not isinstance(await node.more(BOB, 10), int)
        assert (tmp_path / "10").read_bytes() == b"xy"

    on_node(test, tmp_path)


def test_a_writer_that_its_user_stopped_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its place for a minute. Then place and process are free."""
    monkeypatch.setattr(file_transfers, "_ANSWER_LIMIT_S", 0.3)
    monkeypatch.setattr(file_transfers, "_KILL_AFTER_S", 0.0)

    async def test(node: Node) -> None:
        assert not isinstance(await node.begin(ALICE, 1), int)
        child = node.children[0]
        os.kill(child, signal.SIGSTOP)
        assert await node.more(ALICE, 1) == 110
        await asyncio.to_thread(os.waitid, os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not isinstance(await node.begin(ALICE, 2), int)

    on_node(test, tmp_path)


def test_two_blocks_of_a_file_do_not_mix(tmp_path: Path) -> None:
    """The second of two at once is refused, whichever process sent them."""

    async def test(node: Node) -> None:
        assert not isinstance(await node.begin(ALICE, 1), int)
        answers = await asyncio.gather(node.more(ALICE, 1), node.more(ALICE, 1))
        assert [isinstance(answer, int) for answer in answers] == [False, True]
        assert (tmp_path / "1").read_bytes() == b"xy"

    on_node(test, tmp_path)


def test_a_credential_opens_nothing_after_its_job(tmp_path: Path) -> None:
    """Neither a new file nor the next block of an open one, which is removed."""

    async def test(node: Node) -> None:
        assert not isinstance(await node.begin(ALICE, 1), int)
        assert not isinstance(await node.begin(BOB, 2), int)
        node.ended.add(ALICE)
        revoked = Errno.ESLURMD_CREDENTIAL_REVOKED
        assert await node.more(ALICE, 1) == await node.begin(ALICE, 3) == revoked
        await asyncio.to_thread(os.waitid, os.P_PID, node.children[0], os.WEXITED | os.WNOWAIT)
        assert not isinstance(await node.more(BOB, 2), int)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["2"]

    on_node(test, tmp_path)


def test_no_writer_outlives_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may send the next block. A writer would keep the job's private memory alive."""
    monkeypatch.setattr(file_transfers, "_KILL_AFTER_S", 0.0)

    async def test(node: Node) -> None:
        assert not isinstance(await node.begin(ALICE, 1), int)
        assert not isinstance(await node.begin(BOB, 2), int)
        os.kill(node.children[0], signal.SIGSTOP)
        node.ended.add(ALICE)
        node.files.drop_ended()
        await asyncio.to_thread(os.waitid, os.P_PID, node.children[0], os.WEXITED | os.WNOWAIT)
        assert not isinstance(await node.more(BOB, 2), int)

    on_node(test, tmp_path)


def test_a_writer_belongs_to_its_jobs_control_group(tmp_path: Path) -> None:
    """What it writes to a file system of memory is the job's; the group goes with the last."""

    async def test(node: Node) -> None:
        members = node.job_group / "user" / "cgroup.procs"
        members.parent.mkdir(parents=True)
        members.touch()
        assert not isinstance(await node.begin(ALICE, 1), int)
        assert members.read_text() == "0"
        members.unlink()  # as the kernel's files go with the directory
        assert not isinstance(await node.more(ALICE, 1), int)
        while node.job_group.exists():
            await asyncio.sleep(0.01)
        # Where nothing of the job runs there is no group.
        assert not isinstance(await node.begin(ALICE, 2), int)

    on_node(test, tmp_path)
