"""Errors about the tasks of arrays, as scontrol prints them."""

from pyslurm_ng.base.hostlist import fold_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_FOLDED = 100_000  # tasks of a range that are counted one by one


def folded(errors: "Iterable[tuple[str, int, str]]") -> "list[tuple[str, int, str]]":
    """Return errors, each once, with those of one array joined where they say the same.

    `7_3-4`, `7_1` and `7_2` become `7_1-4`. Ids of other shapes stay as they are.
    """
    tasks_of: dict[tuple[str, int, str], list[int]] = {}
    lines: list[tuple[str, int, str]] = []
    for text, code, words in dict.fromkeys((text, code, words) for text, code, words in errors):
        array, separator, named = text.partition("_")
        tasks = _task_numbers(named.strip("[]")) if separator else []
        if not tasks:
            lines.append((text, code, words))
            continue
        if (array, code, words) not in tasks_of:
            lines.append((array, code, words))
        tasks_of.setdefault((array, code, words), []).extend(tasks)
    return [
        (f"{line[0]}_{fold_numbers(sorted(set(tasks_of[line])))}" if line in tasks_of else line[0],
         *line[1:])
        for line in lines
    ]  # fmt: skip


def _task_numbers(text: str) -> "list[int]":
    """Return the tasks of `1,3-5`, none where it is of another shape."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return []
        if int(last or first) - int(first) > _MOST_FOLDED:
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers
