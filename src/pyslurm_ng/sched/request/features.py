"""Node feature expressions: `a&b`, `a|b`, parentheses, `a*2`, `[a|b]`, `[rack1*2&rack2*4]`.

A plain expression says which nodes suit, each by itself. Counts ask for so many nodes of a kind
among those of the job. Alternatives in brackets hold for all nodes of the job alike: one of them
is settled on, the first possible one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pyslurm_ng.model.job import JobRequest

_SYMBOLS = "&|(),[]"
_MOST_WAYS = 64  # alternatives of one expression
_MOST_COUNT = 1 << 22

Tree = tuple[object, ...]


class FeatureError(ValueError):
    """An expression that cannot be read; the text names what is wrong."""


class Way(NamedTuple):
    """One way to satisfy an expression.

    every: what each node of the job has to satisfy; None: anything.
    counts: (expression, how many nodes), for different nodes each.
    """

    every: Tree | None
    counts: tuple[tuple[Tree, int], ...] = ()


@lru_cache(maxsize=4096)
def parse(expression: str) -> Tree:
    """Return the expression as nested tuples.

    `("&", left, right)`, `("|", left, right)`, `("f", name)`, `("*", tree, count)` and
    `("[", tree)`.

    Raises:
        FeatureError: brackets do not match, a name is missing, or a count is none.
    """
    tokens = _tokens(expression)
    tree, rest = _alternatives(tokens)
    if rest:
        raise FeatureError(f"unexpected {rest[0]!r}")
    return tree


@lru_cache(maxsize=4096)
def ways(expression: str) -> tuple[Way, ...]:
    """Return the ways to satisfy an expression, the ones to try first in front.

    Raises:
        FeatureError: as `parse`, or there are too many of them.
    """
    found = _ways(parse(expression), is_bracketed=False)
    if len(found) > _MOST_WAYS:
        raise FeatureError(f"more than {_MOST_WAYS} alternatives")
    return tuple(dict.fromkeys(found))


def names(expression: str) -> list[str]:
    """Return the feature names an expression mentions, without counts."""
    words = (token.partition("*")[0] for token in _tokens(expression) if token not in _SYMBOLS)
    return [word for word in words if word]


def least_nodes(expression: str) -> int:
    """Return how many nodes the counts of an expression add up to, in its least way."""
    return min(sum(count for _, count in way.counts) for way in ways(expression))


def matches(expression: str, features: tuple[str, ...]) -> bool:
    """Return whether a node with `features` may be part of what satisfies `expression`."""
    return _matches(expression, features)


def suits(request: JobRequest, features: tuple[str, ...]) -> bool:
    """Return whether a node with `features` may be part of what a job asks for.

    What a job prefers takes the place of what it demands where that is possible.
    """
    if not request.constraint or matches(request.constraint, features):
        return True
    return bool(request.prefer) and matches(request.prefer, features)


@lru_cache(maxsize=65536)
def _matches(expression: str, features: tuple[str, ...]) -> bool:
    return any(way.every is None or holds(way.every, features) for way in ways(expression))


@lru_cache(maxsize=65536)
def holds(tree: Tree, features: tuple[str, ...]) -> bool:
    """Return whether one node satisfies an expression without counts and brackets."""
    return _holds(tree, frozenset(features))


def _holds(tree: Tree, features: frozenset[str]) -> bool:
    if tree[0] == "f":
        return tree[1] in features
    left, right = tree[1], tree[2]
    assert isinstance(left, tuple) and isinstance(right, tuple)
    if tree[0] == "&":
        return _holds(left, features) and _holds(right, features)
    return _holds(left, features) or _holds(right, features)


def _ways(tree: Tree, *, is_bracketed: bool) -> list[Way]:
    kind = tree[0]
    if not is_bracketed and _is_plain(tree):
        return [Way(tree)]
    if kind == "f":
        return [Way(tree)]
    first = tree[1]
    assert isinstance(first, tuple)
    if kind == "[":
        if is_bracketed:
            raise FeatureError("brackets inside brackets")
        return _ways(first, is_bracketed=True)
    if kind == "*":
        count = tree[2]
        assert isinstance(count, int)
        if not _is_plain(first):
            raise FeatureError("a count of what is counted already")
        return [Way(None, ((first, count),))]
    second = tree[2]
    assert isinstance(second, tuple)
    left = _ways(first, is_bracketed=is_bracketed)
    right = _ways(second, is_bracketed=is_bracketed)
    if kind == "|":
        return left + right
    if len(left) * len(right) > _MOST_WAYS:
        raise FeatureError(f"more than {_MOST_WAYS} alternatives")
    return [
        Way(_both(one.every, other.every), one.counts + other.counts)
        for one in left
        for other in right
    ]


def _both(one: Tree | None, other: Tree | None) -> Tree | None:
    if one is None or other is None:
        return other if one is None else one
    return ("&", one, other)


def _is_plain(tree: Tree) -> bool:
    if tree[0] == "f":
        return True
    parts = [part for part in tree[1:] if isinstance(part, tuple)]
    return tree[0] in ("&", "|") and all(_is_plain(part) for part in parts)


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    word = ""
    for letter in expression:
        if letter in _SYMBOLS or letter.isspace():
            if word:
                tokens.append(word)
            word = ""
            if letter in _SYMBOLS:
                tokens.append("&" if letter == "," else letter)
        else:
            word += letter
    return [*tokens, word] if word else tokens


def _alternatives(tokens: list[str]) -> tuple[Tree, list[str]]:
    tree, rest = _conjunction(tokens)
    while rest and rest[0] == "|":
        right, rest = _conjunction(rest[1:])
        tree = ("|", tree, right)
    return tree, rest


def _conjunction(tokens: list[str]) -> tuple[Tree, list[str]]:
    tree, rest = _term(tokens)
    while rest and rest[0] == "&":
        right, rest = _term(rest[1:])
        tree = ("&", tree, right)
    return tree, rest


def _term(tokens: list[str]) -> tuple[Tree, list[str]]:
    if not tokens:
        raise FeatureError("a feature name is missing")
    if tokens[0] in "([":
        closing = ")" if tokens[0] == "(" else "]"
        tree, rest = _alternatives(tokens[1:])
        if not rest or rest[0] != closing:
            raise FeatureError("parentheses do not match")
        if closing == "]":
            return ("[", tree), rest[1:]
        rest = rest[1:]
        if rest and rest[0].startswith("*"):
            return ("*", tree, _count(rest[0][1:])), rest[1:]
        return tree, rest
    if tokens[0] in _SYMBOLS:
        raise FeatureError(f"a feature name is missing before {tokens[0]!r}")
    name, star, count = tokens[0].partition("*")
    if not name:
        raise FeatureError(f"a feature name is missing before {tokens[0]!r}")
    tree = ("f", name)
    return (("*", tree, _count(count)) if star else tree), tokens[1:]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= _MOST_COUNT):
        raise FeatureError(f"{text!r} is no number of nodes")
    return int(text)
