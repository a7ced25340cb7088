"""Words of SlurmctldParameters that do nothing without another word beside them."""

from __future__ import annotations

from pyslurm_ng.conf.values import option_int, option_text

_RATE = ("rl_enable",)
_WAITING = ("node_loss=confirmed", "node_loss=lease")
NEEDS: dict[str, tuple[str, ...]] = {
    "fence_program": _WAITING,
    "fence_timeout": ("fence_program",),
    "node_lease": ("node_loss=lease",),
    "rl_bucket_size": _RATE,
    "rl_log_freq": _RATE,
    "rl_refill_period": _RATE,
    "rl_refill_rate": _RATE,
    "rl_table_size": _RATE,
}
"""Each word, and the words of which it needs at least one beside it."""


def lonely_words(words: tuple[str, ...], slurmd_timeout_s: int) -> list[str]:
    """Return a line for each word of SlurmctldParameters that does nothing without another."""
    lines = [
        f"{word} has no effect without {' or '.join(others)}"
        for word, others in NEEDS.items()
        if option_text(words, word) is not None
        and not any(_holds(words, other) for other in others)
    ]
    lease_s = option_int(words, "node_lease", slurmd_timeout_s)
    if not lines and lease_s < slurmd_timeout_s:
        lines.append(
            f"node_lease={lease_s} is taken for {slurmd_timeout_s}, SlurmdTimeout: a lease is "
            "no shorter"
        )
    return lines


def _holds(words: tuple[str, ...], other: str) -> bool:
    """Return whether a list has a word such as `rl_enable` or `node_loss=lease`."""
    name, _, value = other.partition("=")
    actual = option_text(words, name)
    return actual is not None and (not value or actual.lower() == value)
