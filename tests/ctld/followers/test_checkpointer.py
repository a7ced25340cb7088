"""The checkpointer: what it writes is what replay gives, and it forgets only what nobody needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyslurm_ng.ctld.followers.checkpointer import Checkpointer, CheckpointPolicy, make_checkpoint
from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster


class State:
    """A state directory that has lived through some starts."""

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)
        self.layout.create()
        self.scripts = ScriptStore(directory / "scripts")

    def recover(self) -> tuple[Recovery, Cluster]:
        recovery = Recovery(self.layout)
        cluster, _ = recover_cluster(recovery, self.scripts)
        return recovery, cluster

    def live(self, names: list[str]) -> tuple[int, bytes]:
        """Record one event a batch; return the last sequence and the journal's id."""
        recovery, cluster = self.recover()
        writer = JournalWriter(
            self.layout.journal,
            recovery.journal_id,
            recovery.position._replace(epoch=recovery.next_epoch),
            first_sequence=recovery.next_sequence,
            on_durable=lambda sequence: None,
            on_fatal=lambda why: None,
            reserve=Reserve(self.layout.reserve, 4096),
            segment_bytes=400,
        )
        writer.append(
            encode_batch([ev.EpochStarted(time_us=1, epoch=recovery.next_epoch, host="h")])
        )
        licenses = list(cluster.licenses.items())
        for name in names:
            licenses.append((name, 1))
            event = ev.LicensesUpdated(time_us=2, licenses=tuple(licenses))
            sequence = writer.append(encode_batch([event]))
            while writer.durable < sequence:
                pass
        writer.close()
        return writer.durable, recovery.journal_id


def test_a_checkpoint_equals_the_replay(tmp_path: Path) -> None:
    """Recovery through a checkpoint gives the digest of recovery without one."""
    state = State(tmp_path)
    durable, key = state.live(list("abcdefgh"))
    plain = state.recover()[1].digest()
    done, _, written = make_checkpoint(state.layout, key, durable - 3, durable)
    assert done == durable - 3
    recovery, cluster = state.recover()
    assert recovery.checkpoint is not None
    assert cluster.digest() == plain
    assert cluster.sequence == durable
    assert list(written.licenses) == list("abcde")


def test_repeated_checkpoints_let_old_segments_go(tmp_path: Path) -> None:
    """Two checkpoints stay; the journal begins behind the older one; everything is still there."""
    state = State(tmp_path)
    for start in "adgj":
        durable, key = state.live([chr(ord(start) + step) for step in range(3)])
        make_checkpoint(state.layout, key, durable, durable)
    assert len(list(state.layout.checkpoints.glob("*.checkpoint"))) == 2
    first = min(path.name for path in state.layout.journal.iterdir())
    assert not first.endswith("-0000000000000001.journal")
    assert list(state.recover()[1].licenses) == list("abcdefghijkl")


def test_a_slow_accounting_daemon_keeps_the_journal(tmp_path: Path) -> None:
    """What slurmdbd has not stored is not removed, however many checkpoints there are."""
    state = State(tmp_path)
    for start in "adgj":
        durable, key = state.live([chr(ord(start) + step) for step in range(3)])
        make_checkpoint(state.layout, key, durable, keep_after=0)
    first = min(path.name for path in state.layout.journal.iterdir())
    assert first.endswith("-0000000000000001.journal")


def test_nothing_new_is_no_checkpoint(tmp_path: Path) -> None:
    """An idle cluster writes nothing."""
    state = State(tmp_path)
    durable, key = state.live(["a"])
    make_checkpoint(state.layout, key, durable, durable)
    before = {path: path.stat().st_mtime_ns for path in state.layout.checkpoints.iterdir()}
    make_checkpoint(state.layout, key, durable, durable)
    assert {path: path.stat().st_mtime_ns for path in state.layout.checkpoints.iterdir()} == before


def test_the_process_is_started_when_due_and_says_what_it_did(tmp_path: Path) -> None:
    """After so many records, once; a second one only after as many more."""
    state = State(tmp_path)
    durable, key = state.live(list("abcdef"))
    said: list[tuple[str, bool]] = []
    checkpointer = Checkpointer(
        state.layout,
        key,
        start_sequence=0,
        keep_after=lambda newest: newest,
        bytes_written=lambda: 0,
        say=lambda text, is_error: said.append((text, is_error)),
        policy=CheckpointPolicy(records=5),
    )
    checkpointer.tick(4, 1.0)
    assert checkpointer._process is None
    checkpointer.tick(durable, 2.0)
    process = checkpointer._process
    assert process is not None
    process.wait(60)
    checkpointer.tick(durable, 3.0)
    assert checkpointer._process is None
    assert said[0][1] is False
    assert f"checkpoint of record {durable} written: 0 jobs" in said[0][0]


def test_a_journal_of_the_future_is_one_line(tmp_path: Path) -> None:
    """The checkpointer of an older version says so and removes nothing."""
    state = State(tmp_path)
    durable, key = state.live(["a"])
    path = next(state.layout.journal.iterdir())
    raw = bytearray(path.read_bytes())
    raw[8] = 9
    path.write_bytes(raw)
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from pyslurm_ng.ctld.followers.checkpointer import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), key.hex(), str(durable), "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stdout.startswith("checkpoint failed: ")
    assert ran.stdout.count("\n") == 1
    assert ran.stderr == ""
