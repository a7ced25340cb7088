"""RELIABILITY 10: kill -9 while a checkpoint is written, a segment begins, or an old one goes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journal.journal_room import Room

ROOT = Path(__file__).parents[2]
CHILD = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/src"]
from pathlib import Path
from pyslurm_ng.journal.checkpoint import remove_outdated, write_checkpoint
from pyslurm_ng.journal.follow import Follow
from tests.journal.journal_room import Room
room = Room(Path(sys.argv[1]))
writer = room.start(segment_bytes=400)
while True:
    for _ in range(8):
        sequence = writer.append(b"record %d" % (writer.appended + 1))
    while writer.durable < sequence:
        room.is_told.wait(0.0002)
    print(sequence, flush=True)
    follow = Follow(room.layout.journal, sequence - 1)
    (frame,) = follow.read(sequence)
    follow.close()
    write_checkpoint(room.layout.checkpoints, writer._key, frame.position, b"%d" % sequence)
    remove_outdated(room.layout.journal, room.layout.checkpoints, sequence)
"""


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_any_mix_of_old_and_new_files_is_recovered_from(room: Room, rounds: int) -> None:
    """Each start finds every record that was durable, behind a checkpoint that fits."""
    chance = random.Random(rounds)
    promised = 0
    for _ in range(rounds):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(room.layout.state), str(ROOT)],
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        for _ in range(chance.randrange(2, 30)):
            promised = int(child.stdout.readline())
        # Whatever it is at: a few of its steps take about so long.
        room.is_told.wait(chance.random() * 0.005)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split()
        child.stdout.close()
        child.wait()
        promised = max([promised, *map(int, rest)])
        recovery, payloads = room.recover()
        begun = 0 if recovery.checkpoint is None else int(recovery.checkpoint.payload)
        assert begun > 0
        assert payloads == [b"record %d" % n for n in range(begun + 1, begun + 1 + len(payloads))]
        assert recovery.position.sequence == begun + len(payloads) >= promised
        # Old files do go: a kill leaves one more than the two that are kept.
        assert len(list(room.layout.checkpoints.glob("*.checkpoint"))) <= 3
        assert len(room.segments()) < 40
