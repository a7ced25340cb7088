"""Sets of numbers as Slurm lists them: `0,2-9`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def fold_numbers(numbers: "Iterable[int]") -> str:
    """Return numbers, none of them negative, in ascending ranges."""
    parts: list[str] = []
    first = last = -2
    for number in [*sorted(numbers), -1]:
        if number == last + 1:
            last = number
            continue
        if last >= 0:
            parts.append(f"{first}" if first == last else f"{first}-{last}")
        first = last = number
    return ",".join(parts)
