"""Which jobs have a step manager of their own: --stepmgr, `enable_stepmgr`. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import REQ_NO_KILL, REQ_STEPMGR
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.model.job import JobRequest

_OF_COMPONENTS = "--stepmgr: slurmctld makes the steps of heterogeneous jobs"
_OF_LOST_NODES = "--stepmgr: slurmctld makes the steps of jobs with --no-kill"


def with_step_manager(
    request: JobRequest | Reject, conf: SlurmConf, components: int
) -> JobRequest | Reject:
    """Return a request with the mark of a job whose first node gives its steps their shares.

    Only the controller sees several components at once, and goes on when the first node is lost.
    A refusal stays one.
    """
    if isinstance(request, Reject):
        return request
    why = _OF_COMPONENTS if components > 1 else ""
    if request.flags & REQ_NO_KILL:
        why = _OF_LOST_NODES
    if why:
        is_asked = bool(request.flags & REQ_STEPMGR)
        return Reject(Errno.ESLURM_NOT_SUPPORTED, why) if is_asked else request
    if has_option(conf.slurmctld_parameters, "enable_stepmgr"):
        return replace(request, flags=request.flags | REQ_STEPMGR)
    return request
