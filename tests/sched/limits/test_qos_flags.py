"""Flags of a QOS that say who may use it, and TRES on which limits have no effect."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.conf.effects.limits import FLAGS, LIMITS, TRES, unheld_tres
from pyslurm_ng.dbd.admin.qos import FLAGS as TAKEN
from pyslurm_ng.dbd.limits import ASSOCIATION_LIMITS, QOS_LIMITS
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.states import JobState, Reason
from tests.sched.limits.limited_site import LimitedSite
from tests.world.reservations import ReservationSite

ENFORCED = "AccountingStorageEnforce=limits,qos"


def test_requires_reservation() -> None:
    """RequiresReservation: a job must name one, whichever."""
    site = ReservationSite()
    site.apply([ev.QosChanged(site.now_us, (Qos(1, "normal", flags=("RequiresReservation",)),))])
    site.make("r", nodes="n1")
    assert site.refused(qos="normal") == Errno.ESLURM_INVALID_QOS
    assert site.job(qos="normal", reservation="r").qos == "normal"


def test_enforce_usage_threshold() -> None:
    """EnforceUsageThreshold: below UsageThreshold jobs wait until fair-share is above it again."""
    site = LimitedSite(ENFORCED)
    flags = ("EnforceUsageThreshold",)
    qos = Qos(1, "normal", flags=flags, usage_threshold_millionths=500_000)
    site.apply([ev.QosChanged(site.now_us, (qos,))])
    job = site.ask()
    site.fairshare = {4: 0.4}
    site.run_pass()
    site.expect(job, JobState.PENDING, Reason.QOSUsageThreshold)
    site.fairshare = {4: 0.5}
    site.run_pass()
    assert job.state == JobState.RUNNING


def test_each_flag_and_limit_that_sacctmgr_takes_has_a_row() -> None:
    assert {*FLAGS.same, *FLAGS.accepted} == set(TAKEN)
    names = {spec.name for spec in (*ASSOCIATION_LIMITS, *QOS_LIMITS)}
    assert names - {*LIMITS.same, *LIMITS.accepted} == {"MaxTRESRunMins"}  # not in Slurm's manual


def test_limits_on_what_jobs_never_hold_are_named() -> None:
    """sacctmgr says so; clearing such a limit needs no words."""
    assert unheld_tres("cpu=5,mem=3,gres/gpu=1,license/matlab=2,billing=9,node=1") == []
    assert unheld_tres("energy=-1") == []
    for name in ("energy", "fs/disk", "vmem", "pages", "bb/cray"):
        (line,) = unheld_tres(f"cpu=5,{name}=3")
        assert line.startswith(f" A limit on {name} has no effect in pyslurm-ng: ")
        assert line.endswith(TRES.accepted[name.partition("/")[0]])
