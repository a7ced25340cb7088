"""Node feature expressions: `a&b`, `a|b`, parentheses, `a*2`, `[a|b]`, `[rack1*2&rack2*4]`.

A plain expression says which nodes suit, each by itself. Counts ask for so many nodes of a kind
among those of the job. Alternatives in brackets hold for all nodes of the job: the first possible
one is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from pyslurm_ng.base.kept_texts import text_cache
from pyslurm_ng.model.job import JobRequest

_TOKENS = re.compile(r"[&|(),\[\]]|[^&|(),\[\]\s]+")
_SYMBOLS = "&|(),[]"
_MOST_NAMES = 256  # of one expression: each node of the cluster is compared with them
_MOST_DEPTH = 32  # parentheses inside one another
_MOST_WAYS = 64  # alternatives of one expression
_MOST_COUNT = 1 << 22

Tree = tuple[object, ...]


class FeatureError(ValueError):
    """An expression that cannot be read; the text names the error."""


class Way(NamedTuple):
    """One way to satisfy an expression.

    every: what each node of the job has to satisfy; None: anything.
    counts: (expression, how many nodes), for different nodes each.
    """

    every: Tree | None
    counts: tuple[tuple[Tree, int], ...] = ()


@text_cache(1024)
def parse(expression: str) -> Tree:
    """Return the expression as nested tuples.

    `("&", part, part ...)`, `("|", part, part ...)`, `("f", name)`, `("*", tree, count)` and
    `("[", tree)`.

    Raises:
        FeatureError: brackets do not match, a name is missing, a count is none, or there are too
            many names or parentheses.
    """
    tokens = _tokens(expression)
    if len(tokens) > 2 * _MOST_NAMES and len(names(expression)) > _MOST_NAMES:
        raise FeatureError(f"more than {_MOST_NAMES} features")
    tokens.reverse()
    tree = _joined("|", tokens, 0)
    if tokens:
        raise FeatureError(f"unexpected {tokens[-1]!r}")
    return tree


@text_cache(1024)
def ways(expression: str) -> tuple[Way, ...]:
    """Return the ways to satisfy an expression, the ones to try first in front.

    Raises:
        FeatureError: as `parse`, or there are too many of them.
    """
    all_ways = _ways(parse(expression), is_bracketed=False)
    if len(all_ways) > _MOST_WAYS:
        raise FeatureError(f"more than {_MOST_WAYS} alternatives")
    return tuple(dict.fromkeys(all_ways))


def spelled(expression: str) -> str:
    """Return an expression as jobs keep and show it: a comma means the same as `&`."""
    return expression.replace(",", "&")


def names(expression: str) -> list[str]:
    """Return the feature names an expression mentions, without counts."""
    words = (token.partition("*")[0] for token in _tokens(expression) if token not in _SYMBOLS)
    return [word for word in words if word]


def least_nodes(expression: str) -> int:
    """Return how many nodes the counts of an expression add up to, in its least way."""
    return min(sum(count for _, count in way.counts) for way in ways(expression))


def matches(expression: str, features: tuple[str, ...]) -> bool:
    """Return whether a node with `features` may be part of what satisfies `expression`."""
    return _matches(features, expression)


def suits(request: JobRequest, features: tuple[str, ...]) -> bool:
    """Return whether a node with `features` may be part of what a job asks for.

    What a job prefers takes the place of what it demands where that is possible.
    """
    if not request.constraint or matches(request.constraint, features):
        return True
    return bool(request.prefer) and matches(request.prefer, features)


@text_cache(65536)
def _matches(features: tuple[str, ...], expression: str) -> bool:
    return any(way.every is None or holds(way.every, features) for way in ways(expression))


def holds(tree: Tree, features: tuple[str, ...]) -> bool:
    """Return whether one node satisfies an expression without counts and brackets."""
    return _holds(tree, frozenset(features))


def _holds(tree: Tree, features: frozenset[str]) -> bool:
    if tree[0] == "f":
        return tree[1] in features
    parts = (_holds(part, features) for part in _parts(tree))
    return all(parts) if tree[0] == "&" else any(parts)


def _parts(tree: Tree) -> Iterator[Tree]:
    for part in tree[1:]:
        assert isinstance(part, tuple)
        yield part


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
    each = [_ways(part, is_bracketed=is_bracketed) for part in _parts(tree)]
    if kind == "|":
        return [way for ways_of_part in each for way in ways_of_part]
    if prod(map(len, each)) > _MOST_WAYS:
        raise FeatureError(f"more than {_MOST_WAYS} alternatives")
    return [_all_of(chosen) for chosen in product(*each)]


def _all_of(ways: Sequence[Way]) -> Way:
    """Return the way that satisfies several parts, each in its way."""
    every = [way.every for way in ways if way.every is not None]
    counts = tuple(count for way in ways for count in way.counts)
    return Way(("&", *every) if len(every) > 1 else every[0] if every else None, counts)


def _is_plain(tree: Tree) -> bool:
    if tree[0] == "f":
        return True
    parts = [part for part in tree[1:] if isinstance(part, tuple)]
    return tree[0] in ("&", "|") and all(_is_plain(part) for part in parts)


def _tokens(expression: str) -> list[str]:
    return ["&" if word == "," else word for word in _TOKENS.findall(expression)]


# Reading: of `tokens` the next is the last --------------------------------------------------------


def _joined(sign: str, tokens: list[str], depth: int) -> Tree:
    """Read the parts that a sign joins: `|` those that `&` does, `&` terms."""
    parts = []
    while True:
        parts.append(_joined("&", tokens, depth) if sign == "|" else _term(tokens, depth))
        if not tokens or tokens[-1] != sign:
            return (sign, *parts) if len(parts) > 1 else parts[0]
        tokens.pop()


def _term(tokens: list[str], depth: int) -> Tree:
    if not tokens:
        raise FeatureError("a feature name is missing")
    word = tokens.pop()
    if word in ("(", "["):
        if depth == _MOST_DEPTH:
            raise FeatureError(f"more than {_MOST_DEPTH} parentheses inside one another")
        closing = ")" if word == "(" else "]"
        tree = _joined("|", tokens, depth + 1)
        if not tokens or tokens.pop() != closing:
            raise FeatureError("parentheses do not match")
        if closing == "]":
            return ("[", tree)
        if tokens and tokens[-1].startswith("*"):
            return ("*", tree, _count(tokens.pop()[1:]))
        return tree
    name, star, count = word.partition("*")
    if word in _SYMBOLS or not name:
        raise FeatureError(f"a feature name is missing before {word!r}")
    tree = ("f", name)
    return ("*", tree, _count(count)) if star else tree


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= _MOST_COUNT):
        raise FeatureError(f"{text!r} is no number of nodes")
    return int(text)
