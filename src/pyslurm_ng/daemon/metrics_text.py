"""The text format of Prometheus: families of gauges with their help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Samples = Iterable[tuple[str, int | float]]
"""(label value, number) of one family; one row with the label value "" for a family without."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def family(
    name: str, purpose: str, samples: Samples, label: str = "", kind: str = "gauge"
) -> list[str]:
    """Return the lines of one family.

    Args:
        label: the label's name; "" for one sample without labels.
        kind: gauge or counter.
    """
    lines = [f"# HELP {name} {purpose}", f"# TYPE {name} {kind}"]
    if label:
        lines += [f'{name}{{{label}="{escaped(value)}"}} {number}' for value, number in samples]
    else:
        lines += [f"{name} {number}" for _, number in samples]
    return lines


def escaped(value: str) -> str:
    r"""Return a label value as it is written: \, " and line breaks with a \ before them."""
    return value.translate(_ESCAPES)


def table(
    prefix: str,
    columns: Sequence[tuple[str, str]],
    rows: Mapping[str, Sequence[int]],
    label: str = "",
) -> list[str]:
    """Return the lines of one family for each column.

    Args:
        columns: (suffix of the name, help); the suffix "" is the prefix itself.
        rows: numbers in the order of the columns, by the label's value; by "" without a label.
    """
    lines: list[str] = []
    for index, (suffix, purpose) in enumerate(columns):
        name = f"{prefix}_{suffix}" if suffix else prefix
        lines += family(
            name, purpose, ((value, numbers[index]) for value, numbers in rows.items()), label
        )
    return lines
