"""Jobs about which passes have failed: held, or left out of scheduling for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.rules.ends import faulty
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.sched.backfill.blame import Blame
from pyslurm_ng.sched.frame.snapshot import Snapshot

# A job that a pass has failed about, though not by itself, is looked at again after this time.
_LEFT_OUT_US = 300_000_000
# After so many passes that failed one after another, all jobs of the users concerned are left out.
_FEW_FAILED = 4


class LeftOut:
    """Keeps jobs about which passes failed away from the next passes, so that these succeed."""

    def __init__(self, writer: Writer, faults: Faults, now_us: Callable[[], int]) -> None:
        self._writer = writer
        self._faults = faults
        self._now_us = now_us
        self._until_us: dict[int, int] = {}  # by job id
        self._failed_passes = 0  # one after another
        self._users: set[int] = set()

    def without(self, view: Snapshot) -> Snapshot:
        """Return a snapshot without the jobs about which passes have failed lately."""
        left_out, users = self._until_us, self._users
        if not left_out and not users:
            return view
        now_us = view.now_us
        for job_id in [job_id for job_id, until_us in left_out.items() if until_us <= now_us]:
            del left_out[job_id]
        gone = {job.het_job_id for job in view.waiting if job.job_id in left_out} - {0}
        waiting = [
            job
            for job in view.waiting
            if job.job_id not in left_out and job.uid not in users and job.het_job_id not in gone
        ]
        running = [job for job in view.running if abs(job.job_id) not in left_out]
        return replace(view, waiting=waiting, running=running)

    def hold(self, job_id: int, error: Exception) -> None:
        """Hold a job at fault, so that passes go on without it."""
        self._faults.note("job", f"job {job_id} cannot be scheduled", error)
        self._until_us[job_id] = self._now_us() + _LEFT_OUT_US
        events = faulty.hold(self._writer.cluster, job_id, error, self._now_us())
        if events:
            self._writer.record(events)
            del self._until_us[job_id]

    def blame(self, blamed: Blame) -> bool:
        """Set aside the jobs about which a pass has failed; return whether there was one."""
        for job_id, why in blamed.own.items():
            self.hold(job_id, why)
        until_us = self._now_us() + _LEFT_OUT_US
        for job_id, why in chain(blamed.others.items(), blamed.running.items()):
            self._faults.note("job", f"job {job_id} is left out of scheduling for a while", why)
            self._until_us[job_id] = until_us
        self._failed_passes += 1
        if self._failed_passes > _FEW_FAILED:
            jobs = self._writer.cluster.jobs
            for job_id in (*blamed.own, *blamed.others):
                if job_id in jobs:
                    self._users.add(jobs[job_id].uid)
        return bool(blamed.own or blamed.others or blamed.running)

    def pass_ended(self) -> None:
        """Note that a pass went well: no user is left out any longer."""
        self._failed_passes = 0
        self._users.clear()
