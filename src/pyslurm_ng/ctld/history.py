"""How to go on when slurmdbd or nodes have seen ids and epochs that this state has lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.units import plural
from pyslurm_ng.ctld.rules import restored_state
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.wire.dbd_messages import ClusterRegistered, JobsCompared
from pyslurm_ng.wire.node_messages import RunningJob

TRUSTED_IDS = 10_000_000
TRUSTED_EPOCHS = 1_000_000
"""How far a single node may push ids and epochs: none may use them up."""
_SHOWN = 50


class Log(Protocol):
    """Where lines go."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def info(self, text: str) -> None:
        """Of interest to all."""


class History:
    """Compares what others have seen with the state, and records what follows from it."""

    def __init__(
        self, writer: Writer, now_us: Callable[[], int], host: str, log: Log, faults: Faults
    ) -> None:
        self._writer = writer
        self._now_us = now_us
        self._host = host
        self._log = log
        self._faults = faults

    # slurmdbd ---------------------------------------------------------------------------------

    def registered(self, answer: ClusterRegistered, is_first: bool) -> None:
        """Take slurmdbd's answer to a registration, the first of this process or another."""
        # Before its first answer it has stored nothing that this process wrote.
        another = answer.epoch if is_first else answer.epoch - 1
        self._skip(answer.newest_job_id, another, "slurmdbd")

    def living_jobs(self) -> list[int]:
        """Return the jobs that have not ended here."""
        return restored_state.living_jobs(self._writer.cluster)

    async def settle(self, answer: ClusterRegistered, common: int, known: JobsCompared) -> None:
        """Record what slurmdbd knows of the time after record `common`, and log what that was.

        Returns when that is durable.
        """
        writer = self._writer
        before = len(self.living_jobs())
        for events in restored_state.settle(writer.cluster, known.jobs, self._now_us()):
            writer.record(events)
        ended = before - len(self.living_jobs())
        lost = known.unknown
        text = (
            f"slurmdbd has stored record {answer.sequence} of this cluster's journal, and this "
            f"state ends at record {common}: it was restored from a backup, or its newest records "
            f"were lost. Job ids go on at {writer.cluster.next_job_id}"
        )
        if ended:
            text += f"; {plural(ended, 'job')} {'has' if ended == 1 else 'have'} ended meanwhile: "
            text += "that is taken over"
        if lost:
            text += (
                f"; {plural(len(lost), 'job')} submitted meanwhile "
                f"{'is' if len(lost) == 1 else 'are'} lost and CANCELLED in accounting, "
                f"submit again: {_listed(lost)}"
            )
        self._log.error(text)
        is_durable = asyncio.Event()
        writer.when_durable(is_durable.set)
        await is_durable.wait()

    # Nodes ------------------------------------------------------------------------------------

    def of_node(
        self, name: str, epoch: int, newest_job_id: int, running: Sequence[RunningJob]
    ) -> None:
        """Take what a node has seen; before its registration is judged."""
        cluster = self._writer.cluster
        if restored_state.is_beyond(cluster, newest_job_id) and newest_job_id:
            span = cluster.max_job_id - cluster.first_job_id + 1
            if (newest_job_id - cluster.next_job_id) % span > TRUSTED_IDS:
                self._faults.note(
                    "node_ahead", f"node {name} claims to have seen job {newest_job_id}: ignored"
                )
                newest_job_id = 0
        if epoch > cluster.epoch + TRUSTED_EPOCHS:
            self._faults.note("node_ahead", f"node {name} claims epoch {epoch}: ignored")
            epoch = 0
        # A node may have obeyed our own epoch.
        self._skip(newest_job_id, epoch - 1, f"node {name}")
        self._writer.record(restored_state.skip_attempts(cluster, running, self._now_us()))

    def _skip(self, newest_job_id: int, another: int, source: str) -> None:
        """Go on behind an id and another controller's epoch, and say so if that is news."""
        cluster, now_us = self._writer.cluster, self._now_us()
        if ids := restored_state.skip_ids(cluster, newest_job_id, now_us):
            before = cluster.next_job_id
            self._writer.record(ids)
            self._log.error(
                f"{source} knows job {newest_job_id}, which this state does not have (restored "
                f"from a backup, or new): job ids go on at {cluster.next_job_id} instead "
                f"of {before}"
            )
        if epochs := restored_state.skip_epoch(cluster, another, self._host, now_us):
            before = cluster.epoch
            self._writer.record(epochs)
            self._log.error(
                f"{source} has seen a later epoch than {before} of another controller (this state "
                f"was restored from a backup, or is new): in command with epoch {cluster.epoch}"
            )


def _listed(job_ids: list[int]) -> str:
    """Return some ids as text, ranges folded."""
    parts: list[str] = []
    first = last = job_ids[0]
    for job_id in [*job_ids[1:], -1]:
        if job_id == last + 1:
            last = job_id
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = job_id
    return ",".join(parts[:_SHOWN]) + (",..." if len(parts) > _SHOWN else "")
