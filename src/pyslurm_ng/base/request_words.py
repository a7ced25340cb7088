"""Words for bits of a request: --mail-type, and what a job shares or has to itself."""

from collections.abc import Iterable

from pyslurm_ng.base.numbers import (
    MAIL_ARRAY_TASKS,
    MAIL_BEGIN,
    MAIL_END,
    MAIL_FAIL,
    MAIL_INVALID_DEPEND,
    MAIL_REQUEUE,
    MAIL_STAGE_OUT,
    MAIL_TIME_50,
    MAIL_TIME_80,
    MAIL_TIME_90,
    MAIL_TIME_LIMIT,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
)

NO_NAME = ","
"""What is sent for an empty name: it names nothing, while an empty field is one not given."""

MAIL_BITS = {
    "BEGIN": MAIL_BEGIN,
    "END": MAIL_END,
    "FAIL": MAIL_FAIL,
    "REQUEUE": MAIL_REQUEUE,
    "TIME_LIMIT": MAIL_TIME_LIMIT,
    "TIME_LIMIT_90": MAIL_TIME_90,
    "TIME_LIMIT_80": MAIL_TIME_80,
    "TIME_LIMIT_50": MAIL_TIME_50,
    "STAGE_OUT": MAIL_STAGE_OUT,
    "ARRAY_TASKS": MAIL_ARRAY_TASKS,
    "INVALID_DEPEND": MAIL_INVALID_DEPEND,
}
MAIL_WORDS = {
    "NONE": 0,
    **MAIL_BITS,
    "ALL": MAIL_BEGIN | MAIL_END | MAIL_FAIL | MAIL_REQUEUE | MAIL_STAGE_OUT | MAIL_INVALID_DEPEND,
}
"""What --mail-type takes."""
_MAIL_ORDER = (
    "ARRAY_TASKS", "INVALID_DEPEND", "BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT",
    "TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT_90", "TIME_LIMIT",
)  # fmt: skip


def mail_words(bits: int) -> list[str]:
    """Return the words of --mail-type in the order in which Slurm prints them."""
    return [word for word in _MAIL_ORDER if bits & MAIL_BITS[word]] or ["NONE"]


# The first flag that is set counts.
_EXCLUSIVE = (
    (REQ_EXCLUSIVE_TOPO, "TOPO"),
    (REQ_EXCLUSIVE_MCS, "MCS"),
    (REQ_EXCLUSIVE_USER, "USER"),
    (REQ_EXCLUSIVE, "NODE"),
)


def exclusive_word(flags: int, otherwise: str = "NO") -> str:
    """Return what a job asked to have to itself; `otherwise` if it asked for nothing."""
    for bit, word in _EXCLUSIVE:
        if flags & bit:
            return word
    return otherwise


SERIES = ("energy", "lustre", "network", "task")
"""What --profile may collect; Slurm shows the file system's series as Lustre."""
_SERIES_ALIASES = {"filesystem": "lustre"}


def series_of(text: str) -> tuple[str, ...]:
    """Return the series that `energy,task` or `all` names, () for none; `none` outweighs others.

    Raises:
        ValueError: a word that is no series.
    """
    words = [_SERIES_ALIASES.get(word, word) for word in text.lower().split(",")]
    for word in words:
        if word not in (*SERIES, "all", "none"):
            raise ValueError(word)
    if "none" in words:
        return ()
    return tuple(name for name in SERIES if name in words or "all" in words)


SAMPLING_S = 30
"""How often usage of tasks is sampled where neither slurm.conf nor the job says it."""


def sampling_s(words: Iterable[str], series: str = "task") -> int | None:
    """Return the seconds of JobAcctGatherFrequency or --acctg-freq for a series; None: not said.

    A number without a series is for tasks.
    """
    seconds: int | None = None
    for word in words:
        kind, equals, value = word.rpartition("=")
        if (
            (kind == series or (not equals and series == "task"))
            and value.isascii()
            and value.isdecimal()
        ):
            seconds = int(value)
    return seconds


def samples_too_rarely(asked: str, configured: Iterable[str]) -> bool:
    """Return whether --acctg-freq would have memory looked at less often than the site wants."""
    every_s = sampling_s(asked.split(","))
    most_s = sampling_s(configured)
    most_s = SAMPLING_S if most_s is None else most_s
    return every_s is not None and bool(most_s) and not 0 < every_s <= most_s
