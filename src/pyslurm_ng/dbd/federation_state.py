"""The state of a cluster in its federation, as a number and as its name."""

ACTIVE, INACTIVE = 1, 2
DRAIN, REMOVE = 0x10, 0x20

_NAMES = {
    0: "NA",
    ACTIVE: "ACTIVE",
    INACTIVE: "INACTIVE",
    ACTIVE | DRAIN: "DRAIN",
    ACTIVE | DRAIN | REMOVE: "DRAIN+REMOVE",
}


def state_name(state: int) -> str:
    """Return a state as Slurm shows it."""
    return _NAMES.get(state, "?")


def number_of(word: str) -> int | None:
    """Return the state that a word means, None if it means none; no word means ACTIVE."""
    if not word:
        return ACTIVE
    return next(
        (state for state, name in _NAMES.items() if state and name == word.upper()), None
    )  # fmt: skip
