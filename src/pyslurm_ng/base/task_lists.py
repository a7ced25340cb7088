"""Lists of an array's tasks as Slurm writes them.

Messages and the database hold ranges, however long the list is: `1-7:2,12`. Slurm writes ids and
runs of ids, `1,3,5,7,12`; it writes a step only where the whole list is one long progression.
"""

from __future__ import annotations

from collections.abc import Iterator

# Measured on Slurm 22.05: `0-15:3` is written so, `0,2,4,6,8,10` and `100,200,300,400,500` are not.
_FEWEST_OF_A_STEP = 6
_WIDEST_WITHOUT_A_STEP = 10


def written(text: str, width: int = 0) -> str:
    """Return a list of ranges as Slurm writes it, with `...` where it is cut.

    `width` is Slurm's count of characters, which has room for the dots and an end mark; 0 cuts
    nothing. A progression with a step is never cut.
    """
    if ":" in text:
        ranges = [_range(word) for word in text.split(",")]
        first, last, step = _one_progression(ranges)
        count = (last - first) // step + 1 if step > 1 else 0
        if count >= _FEWEST_OF_A_STEP and last - first > _WIDEST_WITHOUT_A_STEP:
            return f"{first}-{last}:{step}"
        text = _joined(_runs(ranges), width)
    if not width or len(text) <= width - 3:
        return text
    return text[: max(0, width - 4)] + "..."[: max(0, width - 1)]


def _range(word: str) -> tuple[int, int, int]:
    bounds, _, step = word.partition(":")
    first, _, last = bounds.partition("-")
    return int(first), int(last or first), int(step or 1)


def _one_progression(ranges: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Return the progression that the ranges are together, with a step of 0 if they are none."""
    first, last, step = ranges[0]
    for begin, end, gap in ranges[1:]:
        if last == first:
            step = begin - first
        if begin - last != step or (end > begin and gap != step):
            return first, end, 0
        last = end
    return first, last, step


def _runs(ranges: list[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of ids that follow each other."""
    begin, end = -1, -2
    for first, last, step in ranges:
        starts = (first,) if step == 1 else range(first, last + 1, step)
        for start in starts:
            stop = last if step == 1 else start
            if start == end + 1:
                end = stop
                continue
            if begin >= 0:
                yield begin, end
            begin, end = start, stop
    yield begin, end


def _joined(runs: Iterator[tuple[int, int]], width: int) -> str:
    """Return the runs with commas, as many of them as are shown."""
    words: list[str] = []
    length = 0
    for begin, end in runs:
        words.append(str(begin) if begin == end else f"{begin}-{end}")
        length += len(words[-1]) + 1
        if width and length > width:
            break
    return ",".join(words)
