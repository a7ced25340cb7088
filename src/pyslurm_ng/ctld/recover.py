"""Checkpoint plus journal -> Cluster, at the start and in the checkpointer."""

from __future__ import annotations

import msgspec

from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.journal.checkpoint import Checkpoint
from pyslurm_ng.journal.recovery import Recovery
from pyslurm_ng.journal.segment import Frame, JournalError
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.cluster import Cluster


def cluster_of(checkpoint: Checkpoint | None) -> Cluster:
    """Return the checkpoint's cluster, or an empty one.

    Raises:
        JournalError: it was written by a program whose records this one does not know.
    """
    if checkpoint is None:
        return Cluster()
    try:
        cluster = Cluster.from_bytes(checkpoint.payload)
    except msgspec.DecodeError as error:
        raise JournalError(
            f"{checkpoint.path}: its contents are of another version: {error}"
        ) from None
    cluster.sequence = checkpoint.position.sequence
    return cluster


def apply_frame(cluster: Cluster, frame: Frame, scripts: ScriptStore | None = None) -> int:
    """Apply one journal record and return its number of events.

    Raises:
        JournalError: it was written by a program whose events this one does not know, or it does
            not fit the state it should change.
    """
    try:
        events = decode_batch(frame.payload)
    except msgspec.DecodeError as error:
        raise JournalError(f"record {frame.sequence} is of another version: {error}") from None
    for event in events:
        if isinstance(event, ev.ScriptStored) and scripts is not None:
            scripts.restore(event)
        try:
            apply(cluster, event)
        except (AssertionError, KeyError, IndexError, ValueError) as error:
            raise JournalError(
                f"record {frame.sequence}: {type(event).__name__} does not fit the state before "
                f"it ({type(error).__name__}: {error}); please report this"
            ) from error
    cluster.sequence = frame.sequence
    return len(events)


def recover_cluster(recovery: Recovery, scripts: ScriptStore) -> tuple[Cluster, int]:
    """Return the recovered cluster and how many events were applied to the checkpoint.

    Raises:
        JournalError, OSError: the state cannot be used as it is.
    """
    cluster = cluster_of(recovery.checkpoint)
    count = 0
    for frames in recovery.frames():
        for frame in frames:
            count += apply_frame(cluster, frame, scripts)
    return cluster, count
