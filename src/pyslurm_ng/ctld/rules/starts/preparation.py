"""What nodes do before a job counts as started, as PrologFlags wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model.duty import DutyKind

# Words with which each node of a job has an extern step from the job's start there.
_EXTERN = frozenset(("contain", "runinjob", "x11"))
# Words that make every node run its Prolog at the allocation.
_EVERY_NODE = frozenset((*_EXTERN, "alloc", "deferbatch", "forcerequeueonfail", "serial"))


@dataclass(frozen=True, slots=True)
class Preparation:
    """How nodes get ready; by default a node does so when its first step arrives."""

    every_node: bool = False  # at the allocation
    holds_commands: bool = True  # salloc and srun wait until all are ready
    script_last: bool = False  # a script does so, too; else it waits for its own node only
    has_extern: bool = False  # each node has an extern step
    boot_s: int = 60  # ResumeTimeout: how long nodes may take that sleep
    reboots: bool = False  # there is a RebootProgram for --reboot

    def is_configuring(self, *, is_batch: bool) -> bool:
        """Return whether a job is CONFIGURING until its nodes are ready."""
        return self.every_node and (is_batch or self.holds_commands)

    def for_job(self, request_flags: int) -> Preparation:
        """Return how nodes get ready for one job: all of them know one with a step manager."""
        if request_flags & REQ_STEPMGR and not self.every_node:
            return replace(self, every_node=True)
        return self

    def first_duty(self, *, is_batch: bool) -> int:
        """Return the DutyKind that a job begins with on its first node; 0 for none."""
        if is_batch and not self.script_last:
            return int(DutyKind.LAUNCH)
        return int(DutyKind.PREPARE) if self.every_node else 0


NONE = Preparation()


def preparation(conf: SlurmConf) -> Preparation:
    """Return what PrologFlags asks for."""
    words = {word.lower() for word in conf.prolog_flags}
    return Preparation(
        every_node=not _EVERY_NODE.isdisjoint(words),
        holds_commands="nohold" not in words,
        script_last="deferbatch" in words,
        has_extern=not _EXTERN.isdisjoint(words),
        boot_s=conf.resume_timeout,
        reboots=bool(conf.reboot_program),
    )
