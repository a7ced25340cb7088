"""How PreemptMode= is written."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST = ("GANG", "WITHIN")


def preempt_text(words: "Iterable[str]") -> str:
    """Return the words as Slurm shows them: GANG and WITHIN before what happens to jobs."""
    return ",".join(sorted(words, key=lambda word: (word not in _FIRST, word)))
