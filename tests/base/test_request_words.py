"""Words for bits of a request."""

from __future__ import annotations

import pytest

from pyslurm_ng.base import numbers as n
from pyslurm_ng.base.request_words import MAIL_BITS, MAIL_WORDS, exclusive_word


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (0, "NO"),
        (n.REQ_EXCLUSIVE, "NODE"),
        (n.REQ_EXCLUSIVE | n.REQ_EXCLUSIVE_USER, "USER"),
        (n.REQ_EXCLUSIVE | n.REQ_EXCLUSIVE_MCS, "MCS"),
        (n.REQ_EXCLUSIVE_USER | n.REQ_EXCLUSIVE_TOPO, "TOPO"),
    ],
)
def test_the_most_special_wish_is_shown(flags: int, word: str) -> None:
    """A job that asked for nothing shows what its partition says."""
    assert exclusive_word(flags) == word
    assert exclusive_word(flags, "USER") == (word if flags else "USER")


def test_all_mail_is_not_all_of_it() -> None:
    """The manual: ALL is BEGIN, END, FAIL, INVALID_DEPEND, REQUEUE and STAGE_OUT."""
    left_out = {word for word, bit in MAIL_BITS.items() if not MAIL_WORDS["ALL"] & bit}
    times = {"TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50"}
    assert left_out == {*times, "ARRAY_TASKS"}
