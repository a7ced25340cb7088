"""Crontabs: what scrontab -l shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.crontabs.store import is_enabled
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.crontab_messages import CrontabShown, ShowCrontab

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller


def show_crontab(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowCrontab,
    caller: Caller,
    now_us: int,
) -> CrontabShown | Reject:
    """Return a crontab; operators see those of all users."""
    if not is_enabled(conf):
        return Reject(Errno.ESLURM_DISABLED)
    uid = caller.uid if request.uid < 0 else request.uid
    if uid != caller.uid and not caller.is_operator:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    crontab = cluster.crontabs.get(uid)
    return CrontabShown(crontab.text if crontab is not None else "")
