"""The grammar of --constraint."""

from __future__ import annotations

import pytest

from pyslurm_ng.sched.request.features import (
    FeatureError,
    Way,
    least_nodes,
    matches,
    names,
    parse,
    ways,
)

A, B, C = ("f", "a"), ("f", "b"), ("f", "c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [Way(A)]),
        ("a&b", [Way(("&", A, B))]),
        ("a,b", [Way(("&", A, B))]),
        ("a|b", [Way(("|", A, B))]),
        ("a&(b|c)", [Way(("&", A, ("|", B, C)))]),
        ("a*2", [Way(None, ((A, 2),))]),
        ("(a|b)*3", [Way(None, ((("|", A, B), 3),))]),
        ("c&a*2", [Way(C, ((A, 2),))]),
        ("[a|b]", [Way(A), Way(B)]),
        ("[a|b]&c", [Way(("&", A, C)), Way(("&", B, C))]),
        ("[(a&b)|c]", [Way(("&", A, B)), Way(C)]),
        ("[a*2&b*4]", [Way(None, ((A, 2), (B, 4)))]),
        ("[a*2|b*4]", [Way(None, ((A, 2),)), Way(None, ((B, 4),))]),
    ],
)
def test_expressions_have_ways(text: str, expected: list[Way]) -> None:
    """Alternatives in brackets are ways of their own, in the order written."""
    assert list(ways(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "&", "a&", "a b", "(a", "a)", "[a", "[a|b", "a]", "[[a|b]]", "a*0", "a*x", "a*", "*2",
        "(a*2)*2", "a**2", "a*9999999999", "[a|b)", "()", "[]",
    ],
)  # fmt: skip
def test_text_that_cannot_be_read_is_refused(text: str) -> None:
    """No other error escapes."""
    with pytest.raises(FeatureError):
        ways(text)


def test_names_have_no_counts() -> None:
    """Every feature mentioned, as nodes have it."""
    assert names("[rack1*2&(rack2|c)*4]") == ["rack1", "rack2", "c"]
    assert parse("a") == A


def test_least_nodes_is_the_smallest_sum_of_counts() -> None:
    """Of alternatives the one with fewer nodes."""
    assert least_nodes("[a*2&b*4]") == 6
    assert least_nodes("[a*2|b*4]") == 2
    assert least_nodes("a") == 0


def test_a_node_matches_if_any_way_could_use_it() -> None:
    """Counts do not say what the other nodes are."""
    assert matches("[a|b]", ("b",))
    assert not matches("[a|b]", ("c",))
    assert matches("a*2", ("c",))
    assert not matches("c&a*2", ("a",))
