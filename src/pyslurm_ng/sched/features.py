"""Node feature expressions: `a&b`, `a|b`, parentheses.

Counts (`a*2`) and alternatives for all nodes alike (`[a|b]`) need more than one node's view and
are judged by the selector of multi-node requests, not here.
"""

from __future__ import annotations

from functools import lru_cache

_SYMBOLS = "&|(),[]"


class FeatureError(ValueError):
    """An expression that cannot be read; the text names what is wrong."""


@lru_cache(maxsize=4096)
def parse(expression: str) -> tuple[object, ...]:
    """Return the expression as nested tuples `("&", left, right)`, `("|", ...)`, `("f", name)`.

    Raises:
        FeatureError: brackets do not match, a name is missing, or a symbol is unknown.
    """
    tokens = _tokens(expression)
    tree, rest = _alternatives(tokens)
    if rest:
        raise FeatureError(f"unexpected {rest[0]!r}")
    return tree


def names(expression: str) -> list[str]:
    """Return the feature names an expression mentions."""
    return [token for token in _tokens(expression) if token not in _SYMBOLS]


def matches(expression: str, features: tuple[str, ...]) -> bool:
    """Return whether a node with `features` satisfies `expression`."""
    return _matches(expression, features)


@lru_cache(maxsize=65536)
def _matches(expression: str, features: tuple[str, ...]) -> bool:
    return _holds(parse(expression), frozenset(features))


def _holds(tree: tuple[object, ...], features: frozenset[str]) -> bool:
    if tree[0] == "f":
        return tree[1] in features
    left, right = tree[1], tree[2]
    assert isinstance(left, tuple) and isinstance(right, tuple)
    if tree[0] == "&":
        return _holds(left, features) and _holds(right, features)
    return _holds(left, features) or _holds(right, features)


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


def _alternatives(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    tree, rest = _conjunction(tokens)
    while rest and rest[0] == "|":
        right, rest = _conjunction(rest[1:])
        tree = ("|", tree, right)
    return tree, rest


def _conjunction(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    tree, rest = _term(tokens)
    while rest and rest[0] == "&":
        right, rest = _term(rest[1:])
        tree = ("&", tree, right)
    return tree, rest


def _term(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    if not tokens:
        raise FeatureError("a feature name is missing")
    if tokens[0] == "(":
        tree, rest = _alternatives(tokens[1:])
        if not rest or rest[0] != ")":
            raise FeatureError("parentheses do not match")
        return tree, rest[1:]
    if tokens[0] in _SYMBOLS:
        raise FeatureError(f"a feature name is missing before {tokens[0]!r}")
    return ("f", tokens[0]), tokens[1:]
