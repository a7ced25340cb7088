"""How many jobs each user has submitted within the last hour, for job_submit/throttle.

It is soft: after a restart only jobs that the Cluster still knows are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from pyslurm_ng.base.numbers import HOUR_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster


class RecentSubmissions:
    """Kept by the events that it is shown.

    Args:
        conf_now: the configuration in force; without the plugin nothing is kept.
    """

    def __init__(self, cluster: Cluster, conf_now: Callable[[], SlurmConf]) -> None:
        self._conf_now = conf_now
        self._times_us: dict[int, deque[int]] = {}  # ascending, by uid
        if self._is_wanted():
            for job in sorted(cluster.jobs.values(), key=lambda job: job.submit_us):
                self._note(job.uid, job.submit_us)

    def _is_wanted(self) -> bool:
        return "throttle" in self._conf_now().job_submit_plugins

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Count jobs; an array is one, and so is each component of a heterogeneous job."""
        if not self._is_wanted():
            return
        for event in events:
            if type(event) is ev.JobSubmitted:
                self._note(event.uid, event.time_us)

    def _note(self, uid: int, time_us: int) -> None:
        times = self._times_us.setdefault(uid, deque())
        times.append(time_us)
        self._forget(times, time_us)

    def _forget(self, times: deque[int], now_us: int) -> None:
        while times and times[0] <= now_us - HOUR_US:
            times.popleft()

    def count(self, uid: int, now_us: int) -> int:
        """Return how many jobs of a user were submitted within the hour before."""
        times = self._times_us.get(uid)
        if times is None:
            return 0
        self._forget(times, now_us)
        if not times:
            del self._times_us[uid]
        return len(times)
