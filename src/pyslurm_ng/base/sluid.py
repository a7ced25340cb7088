"""Sortable unique ids of job records: the time of submission, then a running part.

As in Slurm it is a 64-bit number (`sacct -o dbindex` shows it). Its text is `s` and 13 letters of
Crockford's base 32, so texts sort by time.

A requeue is a new submission, so the job gets another one; a resize begins another record of the
same submission.
"""

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _LETTERS for second in _LETTERS]
_VALUES = {letter: value for value, letter in enumerate(_LETTERS)}
_CLUSTER = 1 << 54
_TEXT_LENGTH = 14
LOW_BITS = 1023
"""The last bits of a number are those of the job's id."""


def sluid_number(submit_us: int, job_id: int) -> int:
    """Return the number for a record: a mark, then milliseconds times 1024 plus the job id.

    Tasks of an array have one time of submission and ids in a row, so theirs differ, too.
    """
    return _CLUSTER | (submit_us // 1000 << 10) + job_id & _CLUSTER - 1


def record_sluid(submit_us: int, resize_us: int, job_id: int) -> int:
    """Return the number of a job's newest record; `resize_us` is 0 for a job never resized."""
    return sluid_number(resize_us or submit_us, job_id)


def sluid_text(number: int) -> str:
    """Return the number as users see it, empty for 0."""
    if not number:
        return ""
    # By pairs, since listings have one for each job: a loop over letters takes four times as long.
    pairs = _PAIRS
    return (
        f"s{_LETTERS[number >> 60 & 31]}{pairs[number >> 50 & 1023]}{pairs[number >> 40 & 1023]}"
        f"{pairs[number >> 30 & 1023]}{pairs[number >> 20 & 1023]}{pairs[number >> 10 & 1023]}"
        f"{pairs[number & 1023]}"
    )


def sluid_of(text: str) -> int:
    """Return the number of a text as users type it, 0 when it is none."""
    if len(text) != _TEXT_LENGTH or text[0] != "s":
        return 0
    number = 0
    for letter in text[1:].upper():
        value = _VALUES.get(letter)
        if value is None:
            return 0
        number = number << 5 | value
    return number if number < 1 << 63 else 0
