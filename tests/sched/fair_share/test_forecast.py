"""What factors will be when the jobs that run now go on."""

from __future__ import annotations

import pytest

from pyslurm_ng.model.assoc import Association
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.forecast import LONGEST_S, MINUTE_S, ShareForecast
from pyslurm_ng.sched.fair_share.share_tree import ShareTree

HOUR_S = 3600
ANN, BOB = 11, 21
TREE = ShareTree(
    [
        Association(1, "root"),
        Association(10, "physics", parent_id=1),
        Association(20, "maths", parent_id=1),
        Association(ANN, "physics", "ann", parent_id=10),
        Association(BOB, "maths", "bob", parent_id=20),
    ]
)


def forecast(
    ann: float, bob: float, ann_rate: float = 0.0, bob_rate: float = 0.0, lost: float = 0.0
) -> ShareForecast:
    """Return ann of physics beside bob of maths, each alone in an account of equal shares."""

    def by_number(ann: float, bob: float) -> list[float]:
        amounts = {1: ann + bob, 10: ann, 20: bob, ANN: ann, BOB: bob}
        return [amounts[assoc_id] for assoc_id in TREE.assoc_ids]

    usage = by_number(ann, bob)
    now = share_factors(TREE, usage, ShareRules())
    return ShareForecast(TREE, usage, by_number(ann_rate, bob_rate), ShareRules(), lost, now)


def test_usage_grows_until_the_other_has_more() -> None:
    """Ann has used 7,200 more; bob's job of one unit needs two hours for that."""
    view = forecast(ann=10_000, bob=2_800, bob_rate=1.0)
    (seconds,) = view.seconds_until_higher(ANN, [BOB]).values()
    assert 2 * HOUR_S < seconds <= 2 * HOUR_S + MINUTE_S


def test_the_one_that_waits_uses_nothing_more() -> None:
    """Its own running job does not count, nor in its account."""
    resting = forecast(ann=10_000, bob=2_800, ann_rate=5.0, bob_rate=1.0)
    assert resting.seconds_until_higher(ANN, [BOB]) == forecast(
        ann=10_000, bob=2_800, bob_rate=1.0
    ).seconds_until_higher(ANN, [BOB])


def test_fading_makes_it_sooner() -> None:
    """With a half-life u of ann becomes u d and v of bob v d + r (1 - d) / lost.

    They meet where d = 1 / (1 + lost (u - v) / r).
    """
    lost = 1e-4
    view = forecast(ann=10_000, bob=2_800, bob_rate=1.0, lost=lost)
    (seconds,) = view.seconds_until_higher(ANN, [BOB]).values()
    kept = 1 / (1 + lost * 7_200)
    exact_s = next(n for n in range(0, 2 * HOUR_S, 10) if (1 - lost) ** n < kept)
    assert abs(seconds - exact_s) <= MINUTE_S + 10


def test_nobody_passes_where_nothing_runs() -> None:
    """Fading alone changes no rank."""
    view = forecast(ann=10_000, bob=2_800, lost=1e-5)
    assert view.seconds_until_higher(ANN, [BOB]) == {BOB: 0}
    assert view.factors_in(LONGEST_S, ANN) == view.factors


@pytest.mark.parametrize("looks", [0, 1])
def test_what_there_is_no_time_for_is_left_out(looks: int) -> None:
    """An answer that is due comes without it."""
    asked = iter([False] * looks + [True] * 100)
    view = forecast(ann=10_000, bob=2_800, bob_rate=1.0)
    assert view.seconds_until_higher(ANN, [BOB], lambda: next(asked)) == {}
