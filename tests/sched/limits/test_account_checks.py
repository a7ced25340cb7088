"""What a job needs to be anybody's stands before the limits themselves."""

from __future__ import annotations

from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.limits.account_checks import AccountChecks
from tests.sched.limits.limited_jobs import ANN, ask, limits_of


def test_unused_limits_still_ask_for_standing() -> None:
    """What is used up is forgotten, a QOS that is gone is not."""
    quotas = limits_of(Limits(grp_jobs=1), Limits(), Qos(1, "normal", limits=Limits()))
    checks = AccountChecks(None, frozenset({"normal"}), quotas)
    checks.took(ANN, ask())
    assert checks.may_start(ANN, ask()) is not None
    assert checks.unused().may_start(ANN, ask()) is None
    nobody = AccountChecks(None, frozenset(), quotas).unused().may_start(ANN, ask())
    assert ANN.qos and nobody is not None and nobody.reason == Reason.InvalidQOS
