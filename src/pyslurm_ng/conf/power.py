"""Whether nodes are powered up and down."""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng.conf.slurm_conf import SlurmConf


def is_on(conf: SlurmConf) -> bool:
    """Return whether there are programs that power nodes up and down."""
    return bool(conf.suspend_program and conf.resume_program)


def all_awake(conf: SlurmConf) -> SlurmConf:
    """Return a configuration for nodes that never sleep, as those of the simulator."""
    return replace(conf, suspend_program="", resume_program="", reboot_program="")
