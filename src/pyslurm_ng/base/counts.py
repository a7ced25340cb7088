"""Counts in messages."""


def plural(count: int, word: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' * (count != 1)}"
