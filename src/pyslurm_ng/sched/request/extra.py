"""Conditions on what nodes have in `Extra`: `a>=1.5&(zone=east|gpu!=old)`.

`Extra` of a node is a JSON object; `--extra` of a job compares its keys. A comma means `&`, which
binds closer than `|`. Two numbers are compared as such, anything else as text.
Source: Slurm's guide to extra constraints.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pyslurm_ng.base.kept_texts import text_cache

_NEARLY = 1e-5  # numbers that differ by less are equal
_TOKENS = re.compile(r"[&|,()]|[<>!]=|[<>=]|[^&|,()<>=!]+|!")
_LONGEST = 8192
_MOST_TERMS = 256  # of one expression: each node of the cluster is compared with them
_MOST_DEPTH = 32  # parentheses inside one another
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")

Tree = tuple[object, ...]


class ExtraError(ValueError):
    """An expression that cannot be read; the text names the error."""


@text_cache(4096)
def parse(expression: str) -> Tree:
    """Return `("&", part, part ...)`, `("|", part, part ...)` or `(comparison, key, value)`.

    Raises:
        ExtraError: a part is missing, parentheses do not match, an operator is unknown, or there
            are too many terms or parentheses.
    """
    if len(expression) > _LONGEST:
        raise ExtraError(f"more than {_LONGEST} characters")
    tokens = [token for text in _TOKENS.findall(expression) if (token := text.strip())]
    if sum(token in _COMPARISONS for token in tokens) > _MOST_TERMS:
        raise ExtraError(f"more than {_MOST_TERMS} terms")
    tokens.reverse()
    tree = _joined("|", tokens, 0)
    if tokens:
        raise ExtraError(f"unexpected {tokens[-1]!r}")
    return tree


def nodes_without(expression: str, extras: Sequence[str], node_ids: Iterable[int]) -> list[int]:
    """Return those of some nodes whose Extra does not satisfy an expression that can be read.

    Args:
        extras: Extra of each node, by node id.
    """
    return [node_id for node_id in node_ids if not satisfies(extras[node_id], expression)]


@text_cache(65536)
def satisfies(extra: str, expression: str) -> bool:
    """Return whether a node with this Extra satisfies an expression that can be read."""
    return _holds(parse(expression), _values(extra))


@lru_cache(maxsize=65536)
def _values(extra: str) -> dict[str, str | int | float | bool]:
    """Return the plain values of an Extra; none where it is no JSON object."""
    try:
        values = json.loads(extra) if extra else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {
        key: value for key, value in values.items() if isinstance(value, (str, int, float, bool))
    }


def _holds(tree: Tree, values: dict[str, str | int | float | bool]) -> bool:
    if tree[0] in ("&", "|"):
        parts = (_holds(part, values) for part in tree[1:] if isinstance(part, tuple))
        return all(parts) if tree[0] == "&" else any(parts)
    operator, left, right = tree
    assert isinstance(left, str) and isinstance(right, str)
    return left in values and _compares(operator, values[left], right)


def _compares(operator: object, has: str | int | float | bool, value: str) -> bool:
    number, other = _number(has), _number(value)
    if number is not None and other is not None:
        order = 0 if abs(number - other) < _NEARLY else (number > other) - (number < other)
    else:
        text = str(has).lower() if isinstance(has, bool) else str(has)
        value = value.lower() if isinstance(has, bool) else value
        order = (text > value) - (text < value)
    return {
        "=": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0,
        ">": order > 0, ">=": order >= 0,
    }[str(operator)]  # fmt: skip


def _number(value: str | int | float | bool) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# Reading: of `tokens` the next is the last --------------------------------------------------------


def _joined(sign: str, tokens: list[str], depth: int) -> Tree:
    """Read the parts that a sign joins: `|` those that `&` and `,` do, `&` terms."""
    signs = ("|",) if sign == "|" else ("&", ",")
    parts = []
    while True:
        parts.append(_joined("&", tokens, depth) if sign == "|" else _term(tokens, depth))
        if not tokens or tokens[-1] not in signs:
            return (sign, *parts) if len(parts) > 1 else parts[0]
        tokens.pop()


def _term(tokens: list[str], depth: int) -> Tree:
    if tokens and tokens[-1] == "(":
        if depth == _MOST_DEPTH:
            raise ExtraError(f"more than {_MOST_DEPTH} parentheses inside one another")
        tokens.pop()
        tree = _joined("|", tokens, depth + 1)
        if not tokens or tokens.pop() != ")":
            raise ExtraError("parentheses do not match")
        return tree
    key = _word(tokens, "a key")
    comparison = tokens.pop() if tokens else ""
    if comparison not in _COMPARISONS:
        raise ExtraError(f"{key!r} is not compared: allowed are {' '.join(_COMPARISONS)}")
    return (comparison, key, _word(tokens, f"what {key!r} is compared with"))


def _word(tokens: list[str], expected: str) -> str:
    word = tokens.pop() if tokens else ""
    if not word or word in "&|,()<>=!" or word in _COMPARISONS:
        raise ExtraError(f"{expected} is missing" + (f" before {word!r}" if word else ""))
    return word
