"""RELIABILITY 46: a user with 65,536 subordinate uids has no more shares than another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslurm_ng.wire import table, user_ranges
from pyslurm_ng.wire.frame import pack_frame
from pyslurm_ng.wire.messages import Ping
from pyslurm_ng.wire.stream import StreamLimits
from pyslurm_ng.wire.user_ranges import UserRanges
from tests.wire.wire_room import ALICE, Room, read_frame

PING = table.encode(Ping())
TEXT = """alice:100000:65536
# a comment

bob:165536:65536
alice:300000:10
:400000:10
dave:x:5
dave:500000
1005:600000:5
"""


def ids(directory: Path, text: str) -> UserRanges:
    path = directory / "subuid"
    path.write_text(text)
    return UserRanges(str(path))


def test_the_ranges_of_an_owner_are_one_lane(tmp_path: Path) -> None:
    """Uids outside of all ranges, and odd lines, change nothing."""
    ranges = ids(tmp_path, TEXT)
    same = (0, 1000, 99_999, 165_536, 231_072, 300_010, 400_000, 500_000)
    assert [ranges.lane_of(uid) for uid in same] == list(same)
    assert {ranges.lane_of(uid) for uid in (100_000, 165_535, 300_009)} == {100_000}
    assert ranges.lane_of(231_071) == 165_536
    assert ranges.lane_of(600_004) == 600_000


def test_ranges_that_overlap_are_one_lane(tmp_path: Path) -> None:
    """A range within another must not free the uids behind it."""
    ranges = ids(tmp_path, "a:1000:100\nb:1010:5\nc:1099:10\n")
    assert {ranges.lane_of(uid) for uid in range(1_000, 1_109)} == {1_000}
    assert ranges.lane_of(1_109) == 1_109


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file gives nobody a range; one that comes later does."""
    monkeypatch.setattr(user_ranges, "_LOOK_S", -1.0)
    ranges = UserRanges(str(tmp_path / "subuid"))
    assert ranges.lane_of(100_007) == 100_007
    (tmp_path / "subuid").write_text(TEXT)
    assert ranges.lane_of(100_007) == 100_000
    os.unlink(tmp_path / "subuid")
    assert ranges.lane_of(100_007) == 100_007


def test_subordinate_uids_do_not_take_the_places_of_others(tmp_path: Path) -> None:
    """Eight uids of one user hold all places; another user's request is answered all the same."""
    limits = StreamLimits(connections=8)
    with Room(tmp_path, limits, user_ranges=ids(tmp_path, "eve:900000:65536\n")) as room:

        def ask(uid: int) -> dict[str, object]:
            connection = room.raw_tcp()
            connection.sendall(pack_frame("Ping", 1, PING, 0, room.token("Ping", PING, uid=uid)))
            answer = read_frame(connection)
            assert answer is not None
            return answer[3]

        for uid in range(900_000, 900_008):
            assert ask(uid)["version"] == str(uid)
        assert ask(ALICE)["version"] == str(ALICE)
        assert room.server.shares.counts()["connections_of_one"] == 7
