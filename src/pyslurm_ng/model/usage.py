"""Usage of several nodes or tasks, merged into one record."""

from __future__ import annotations

from .job import Usage

# Extremes: field of the value, and whether the larger one counts; its place goes with it.
_EXTREMES = (
    ("max_rss_kib", "max_rss", True),
    ("max_vmsize_kib", "max_vmsize", True),
    ("max_pages", "max_pages", True),
    ("min_cpu_us", "min_cpu", False),
    ("max_disk_read", "max_disk_read", True),
    ("max_disk_write", "max_disk_write", True),
)
_AVERAGES = (
    "ave_rss_kib",
    "ave_vmsize_kib",
    "ave_pages",
    "ave_cpu_us",
    "ave_disk_read",
    "ave_disk_write",
)


def merge(left: Usage | None, right: Usage) -> Usage:
    """Return the usage of two disjoint sets of tasks together.

    Sums add up, extremes keep where they were seen, averages are weighted by tasks.
    """
    if left is None:
        return right
    tasks = left.ntasks + right.ntasks
    values: dict[str, int | str] = {
        "user_us": left.user_us + right.user_us,
        "system_us": left.system_us + right.system_us,
        "ntasks": tasks,
    }
    for value, place, is_maximum in _EXTREMES:
        first, second = getattr(left, value), getattr(right, value)
        keeps = first >= second if is_maximum else first <= second
        source = left if keeps else right
        for name in (value, f"{place}_node", f"{place}_task"):
            values[name] = getattr(source, name)
    for name in _AVERAGES:
        both = getattr(left, name) * left.ntasks + getattr(right, name) * right.ntasks
        values[name] = both // tasks if tasks else 0
    return Usage(**values)  # type: ignore[arg-type]
