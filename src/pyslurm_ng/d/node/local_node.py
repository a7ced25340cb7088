"""This node as all parts of slurmd know it."""

from __future__ import annotations

import time

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.core.node_core import NodeCore
from pyslurm_ng.d.node.setup import Setup
from pyslurm_ng.d.spec.node_setup import NodeSetup
from pyslurm_ng.d.spool.spool import Spool
from pyslurm_ng.d.spool.suspended_jobs import SuspendedJobs
from pyslurm_ng.daemon.log import DaemonLog

INTERNAL = "slurmd has failed; its log tells more"
"""What others are told of an unexpected error."""


class LocalNode:
    """The node that this slurmd is for: its configuration, its jobs and its files.

    Attributes:
        setup: the configuration in force; a reconfiguration replaces it.
        core: what runs here, the work to do and the reports to send.
        spool: what a restarted slurmd must know.
        faults: counts unexpected errors.
        suspended_jobs: what a restarted slurmd must know of them.
        lost_gpus: numbers of NVIDIA GPUs that the driver has lost, though their files are there.
        last_order_us: when a controller in command was last heard, in microseconds since the epoch;
            0 if none was.
    """

    def __init__(self, setup: Setup, spool: Spool, log: DaemonLog, faults: Faults) -> None:
        conf = setup.node.conf
        self.setup = setup
        self.spool = spool
        self.log = log
        self.faults = faults
        self.core = NodeCore(
            has_prolog=bool(conf.prolog), has_epilog=bool(conf.epilog), kill_wait_s=conf.kill_wait
        )
        self.last_order_us = 0
        self.lost_gpus: frozenset[int] = frozenset()
        self.core.epoch = spool.epoch()
        self.core.newest_job_id = spool.newest_job_id()
        self.suspended_jobs = SuspendedJobs(spool.directory)
        self.core.suspended = self.suspended_jobs.read()

    def use(self, setup: Setup) -> None:
        """Go by another configuration from now on."""
        conf = setup.node.conf
        self.setup = setup
        self.core.has_prolog, self.core.has_epilog = bool(conf.prolog), bool(conf.epilog)
        self.core.kill_wait_s = conf.kill_wait

    @property
    def configured(self) -> NodeSetup:
        """The node as the configuration describes it, with its devices and cores."""
        return self.setup.node

    @property
    def conf(self) -> SlurmConf:
        """What slurm.conf says."""
        return self.setup.node.conf

    @property
    def name(self) -> str:
        """The node's NodeName."""
        return self.setup.node.node_name

    def state(self) -> str:
        """Return how the node is used, as far as it knows itself: IDLE, MIXED or ALLOC."""
        used = sum(
            alloc.cpus
            for job in self.core.jobs.values()
            if job.credential is not None
            for name, alloc in zip(job.credential.nodes, job.credential.allocs, strict=False)
            if name == self.name
        )
        if not used:
            return "IDLE"
        total = next((line.cpus for line in self.conf.nodes if line.name == self.name), 1)
        return "ALLOC" if used >= total else "MIXED"


def boot_clock_us() -> int:
    """Return microseconds since boot, also those while the machine was suspended.

    This clock cannot be set.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
