"""Sortable unique ids of job records: the time of submission, then a running part.

As in Slurm it is a 64-bit number (`sacct -o dbindex` shows it). Its text is `s` and 13 letters of
Crockford's base 32, so texts sort by time.
"""

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CLUSTER = 1 << 54


def sluid_number(submit_us: int, job_id: int) -> int:
    """Return the number for a record: a mark, 44 bits of milliseconds, 10 bits of the job id."""
    return _CLUSTER | (submit_us // 1000 & (1 << 44) - 1) << 10 | job_id & 1023


def sluid_text(number: int) -> str:
    """Return the number as users see it, empty for 0."""
    if not number:
        return ""
    letters = []
    for _ in range(13):
        letters.append(_LETTERS[number & 31])
        number >>= 5
    return "s" + "".join(reversed(letters))
