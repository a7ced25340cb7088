"""Fair-share factors: those of Slurm 22.05, and those of a slow twin."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import share_levels
from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Association
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors, share_figures
from pyslurm_ng.sched.fair_share.fair_tree import fair_tree
from pyslurm_ng.sched.fair_share.share_tree import ShareTree
from tests.sched.fair_share.recorded_shares import RecordedTree, recorded
from tests.sched.fair_share.slow_fair_tree import SlowFairTree
from tests.world.examples import drawn

NO_LEVEL = (0, (0, Fraction(0)))
FAIR_TREES = [*recorded("fair_tree.txt"), *recorded("fair_tree_ties.txt")]


def printed(value: float) -> str:
    """Return a fraction as sshare prints it, nothing for -1."""
    return f"{value:.6f}" if value >= 0 else ""


def usage_of(tree: ShareTree, used: dict[int, int]) -> list[float]:
    """Return usage by the tree's numbers."""
    return [float(used[assoc_id]) for assoc_id in tree.assoc_ids]


def assert_figures(case: RecordedTree, rules: ShareRules) -> None:
    """Compare what the factors come from with the recorded fields."""
    tree = ShareTree(case.assocs)
    figures = share_figures(tree, usage_of(tree, case.used), rules)
    for assoc_id, figure in zip(tree.assoc_ids, figures, strict=True):
        fields = case.fields[assoc_id]
        assert printed(figure.shares) == fields["NormShares"], fields
        assert printed(figure.effective_usage) == fields["EffectvUsage"], fields
        if fields["NormUsage"]:
            assert printed(figure.usage) == fields["NormUsage"], fields
        if "LevelFS" in fields:
            assert printed(figure.level) == fields["LevelFS"], fields


def below_tied_accounts(case: RecordedTree) -> set[int]:
    """Return the users of accounts that have an equal, which 22.05 ranks one after the other."""
    twin = SlowFairTree(case.assocs, case.used)
    levels = {
        assoc.assoc_id: (twin.level_of(assoc), twin.level(assoc))
        for assoc in case.assocs
        if assoc.parent_id and not assoc.user and assoc.shares != INFINITE
    }
    counts = Counter(levels.values())
    below: set[int] = set()
    for assoc in case.assocs:  # each after the one above it
        if assoc.parent_id in below or counts[levels.get(assoc.assoc_id, NO_LEVEL)] > 1:
            below.add(assoc.assoc_id)
    return below


@pytest.mark.parametrize("case", FAIR_TREES, ids=range(len(FAIR_TREES)))
def test_fair_tree_is_slurms(case: RecordedTree) -> None:
    """Rank for rank, with ties, without usage and with shares of the parent.

    Slurm 22.05 ranks equal accounts one after another, not as one as its manual says: the twin
    that does so agrees with all recordings, and ours in all users who are not in such accounts.
    """
    assert_figures(case, ShareRules())
    as_slurm = SlowFairTree(case.assocs, case.used, merges=False).factors
    tree = ShareTree(case.assocs)
    ours = fair_tree(tree, usage_of(tree, case.used))
    tied = below_tied_accounts(case)
    for assoc_id, fields in case.fields.items():
        if not fields["User"]:
            continue
        assert printed(float(as_slurm[assoc_id])) == fields["FairShare"], fields
        if assoc_id not in tied:
            assert printed(ours[assoc_id]) == fields["FairShare"], fields


def test_recordings_cover_what_is_hard() -> None:
    """Accounts with and without equals, shares of the parent, no shares, no usage."""
    assert {bool(below_tied_accounts(case)) for case in FAIR_TREES} == {False, True}
    fields = [row for case in FAIR_TREES for row in case.fields.values()]
    assert {"parent", "0"} <= {row["RawShares"] for row in fields}
    assert {"inf", "0.000000"} <= {row["LevelFS"] for row in fields}


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("classic", ShareRules("classic")),
        ("classic_1", ShareRules("classic")),
        ("classic_2", ShareRules("classic", dampening=2)),
        ("classic_5", ShareRules("classic", dampening=5)),
        ("depth_oblivious", ShareRules("depth_oblivious")),
        ("depth_oblivious_shares", ShareRules("depth_oblivious")),
    ],
)
def test_older_formulas_are_slurms(name: str, rules: ShareRules) -> None:
    """PriorityFlags=NO_FAIR_TREE and DEPTH_OBLIVIOUS, accounts included."""
    for case in recorded(f"{name}.txt"):
        assert_figures(case, rules)
        tree = ShareTree(case.assocs)
        factors = share_factors(tree, usage_of(tree, case.used), rules)
        for assoc_id, fields in case.fields.items():
            assert printed(factors[assoc_id]) == fields["FairShare"], fields


def test_dampening_makes_factors_fall_more_slowly() -> None:
    """FairShareDampeningFactor divides the exponent."""
    (case,) = recorded("classic.txt")
    tree = ShareTree(case.assocs)
    usage = usage_of(tree, case.used)
    once = share_factors(tree, usage, ShareRules("classic"))
    twice = share_factors(tree, usage, ShareRules("classic", dampening=2))
    for assoc_id, factor in once.items():
        assert twice[assoc_id] ** 2 == pytest.approx(factor)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Association], dict[int, int]]:
    """Draw a tree and its users' usage, with much that is equal."""
    shares = st.sampled_from([0, 1, 1, 1, 2, 4, INFINITE])
    assocs = [Association(1, "root")]
    accounts, used = [1], {1: 0}
    for assoc_id in range(2, draw(st.integers(2, 30))):
        parent_id = draw(st.sampled_from(accounts))
        is_user = draw(st.booleans())
        user = f"u{assoc_id}" if is_user else ""
        assocs.append(
            Association(assoc_id, f"a{parent_id}", user, parent_id=parent_id, shares=draw(shares))
        )
        used[assoc_id] = draw(st.sampled_from([0, 0, 8, 8, 16, 32])) if is_user else 0
        if not is_user:
            accounts.append(assoc_id)
    for assoc in reversed(assocs[1:]):
        used[assoc.parent_id] += used[assoc.assoc_id]
    return assocs, used


@settings(max_examples=drawn(1000))
@given(trees())
def test_fair_tree_is_that_of_its_slow_twin(
    drawn: tuple[list[Association], dict[int, int]],
) -> None:
    """Fractions against floating point, recursion against a stack, any order of associations."""
    assocs, used = drawn
    slow = SlowFairTree(assocs, used).factors
    tree = ShareTree(reversed(assocs))
    fast = fair_tree(tree, usage_of(tree, used))
    assert fast == {assoc_id: float(factor) for assoc_id, factor in slow.items()}


@pytest.mark.parametrize(("used", "parents"), [([1.0], [-1, 0]), ([1.0, 1.0], [-1, 2])])
def test_levels_are_of_associations_that_are_there(used: list[float], parents: list[int]) -> None:
    """The kernel reads nothing that it was not given."""
    with pytest.raises(ValueError):
        share_levels([0.0, 1.0], used, parents, [False, False])


def test_a_loop_of_parents_does_no_harm() -> None:
    """Accounting refuses them; a broken record must not stop a pass."""
    assocs = [
        Association(1, "root"),
        Association(2, "a", parent_id=3),
        Association(3, "b", parent_id=2),
        Association(4, "a", "ann", parent_id=2),
        Association(5, "root", "root", parent_id=1),
        Association(6, "c", parent_id=6),
    ]
    tree = ShareTree(assocs)
    for algorithm in ("fair_tree", "classic", "depth_oblivious"):
        assert share_factors(tree, [0.0] * len(tree), ShareRules(algorithm))[5] == 1.0


def test_no_shares_at_all() -> None:
    """Where nobody of a level has shares, nobody is before the others."""
    assocs = [
        Association(1, "root"),
        Association(2, "root", "ann", parent_id=1, shares=0),
        Association(3, "root", "bob", parent_id=1, shares=0),
    ]
    tree = ShareTree(assocs)
    figures = share_figures(tree, [8.0, 8.0, 0.0], ShareRules())
    assert [figure.level for figure in figures] == [-1.0, 0.0, 0.0]
    assert fair_tree(tree, [8.0, 8.0, 0.0]) == {2: 1.0, 3: 1.0}
