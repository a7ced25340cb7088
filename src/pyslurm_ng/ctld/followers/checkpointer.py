"""The checkpointer: a follower that writes checkpoints, so that the controller never pauses.

It is started when enough has been recorded. It reads the newest checkpoint and the journal after
it, up to a record that is known to be durable. Then it writes the next checkpoint, removes files
that are no longer needed, prints one line about it, and ends. Between two runs it costs nothing,
and each run proves once more that the state can be recovered.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.recover import apply_frame, cluster_of
from pyslurm_ng.journal.checkpoint import load_newest, remove_outdated, write_checkpoint
from pyslurm_ng.journal.follow import Follow
from pyslurm_ng.journal.recovery import Layout
from pyslurm_ng.journal.segment import JournalError
from pyslurm_ng.model.cluster import Cluster

_PR_SET_PDEATHSIG = 1
_IDLE_NICENESS = 19

_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.ctld.followers.checkpointer import main; sys.exit(main(sys.argv[1:]))"
)


def make_checkpoint(
    layout: Layout, journal_id: bytes, durable: int, keep_after: int
) -> tuple[int, int, Cluster]:
    """Write the checkpoint of record `durable` and clear away.

    Args:
        keep_after: the lowest record that every follower (slurmdbd) has taken over.

    Returns:
        The sequence of the checkpoint, the number of files removed, and the cluster written.

    Raises:
        JournalError, OSError: nothing was removed; the old checkpoint is as it was.
    """
    checkpoint, _ = load_newest(layout.checkpoints)
    cluster = cluster_of(checkpoint)
    position = checkpoint.position if checkpoint is not None else None
    follow = Follow(layout.journal, cluster.sequence)
    while frames := follow.read(durable):
        for frame in frames:
            apply_frame(cluster, frame)
        position = frames[-1].position
    follow.close()
    if position is None or (checkpoint is not None and position == checkpoint.position):
        return cluster.sequence, 0, cluster
    _sync_file_system(layout.state)
    write_checkpoint(layout.checkpoints, journal_id, position, cluster.to_bytes())
    removed = remove_outdated(layout.journal, layout.checkpoints, keep_after)
    return position.sequence, len(removed), cluster


def _sync_file_system(state: Path) -> None:
    """Let scripts that were written without a sync reach the disk before the journal forgets."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(fd)


def main(argv: list[str]) -> int:
    """Run as a separate process: state directory, journal id, durable record, kept record."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(_IDLE_NICENESS)
    layout = Layout(Path(argv[0]))
    try:
        done, removed, cluster = make_checkpoint(
            layout, bytes.fromhex(argv[1]), int(argv[2]), int(argv[3])
        )
    except (JournalError, OSError) as error:
        sys.stdout.write(f"checkpoint failed: {error}\n")
        return 1
    jobs, nodes = len(cluster.jobs), len(cluster.nodes)
    sys.stdout.write(
        f"checkpoint of record {done} written: {plural(jobs, 'job')}, {plural(nodes, 'node')}; "
        f"{plural(removed, 'old file')} removed\n"
    )
    return 0


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """When a checkpoint is due: after so many records, or bytes, or some records and a time."""

    records: int = 50_000
    size_bytes: int = 16 << 20
    some_records: int = 500
    pause_s: float = 300.0


class Checkpointer:
    """Starts the checkpointer when it is due, one at a time.

    Args:
        keep_after: says the lowest record that every follower has taken over.
        bytes_written: says how many bytes the journal has written.
        say: takes the checkpointer's line and whether it is an error.
    """

    def __init__(
        self,
        layout: Layout,
        journal_id: bytes,
        *,
        start_sequence: int,
        keep_after: Callable[[int], int],
        bytes_written: Callable[[], int],
        say: Callable[[str, bool], None],
        policy: CheckpointPolicy | None = None,
    ) -> None:
        self._layout = layout
        self._journal_id = journal_id
        self._keep_after = keep_after
        self._bytes_written = bytes_written
        self._say = say
        self._policy = policy or CheckpointPolicy()
        self._last_sequence = start_sequence
        self._last_bytes = 0
        self._last_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def tick(self, durable: int, now_s: float) -> None:
        """Look about once a second: collect a finished run, start one that is due."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._collect(self._process)
        if not self._last_s:
            self._last_s = now_s
        records = durable - self._last_sequence
        if (
            records >= self._policy.records
            or self._bytes_written() - self._last_bytes >= self._policy.size_bytes
            or (
                records >= self._policy.some_records
                and now_s - self._last_s >= self._policy.pause_s
            )
        ):
            self._last_sequence, self._last_s = durable, now_s
            self._last_bytes = self._bytes_written()
            self._begin(durable)

    def stop(self) -> None:
        """End a run in progress; what it has not finished is as if never begun."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _begin(self, durable: int) -> None:
        arguments = [str(self._layout.state), self._journal_id.hex(), str(durable)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, ":".join(sys.path), *arguments]
                + [str(self._keep_after(durable))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._say(f"cannot start the checkpointer: {error}", True)

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        output, _ = process.communicate()
        text = output.decode("utf-8", "replace").strip()
        lines = text.splitlines() or [f"checkpointer ended with {process.returncode}"]
        self._say(lines[-1], process.returncode != 0)
