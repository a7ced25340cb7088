"""The multifactor formula as a table has it, one term after the other."""

from __future__ import annotations

from fractions import Fraction


def size_factor(
    nodes: int, all_nodes: int, cpus: int, all_cpus: int, limit_min: int, *,
    small: bool, to_time: bool,
) -> Fraction:  # fmt: skip
    """Return the factor of a job's size in one of its variants."""
    if to_time:
        wide = max(Fraction(nodes * all_cpus, all_nodes), Fraction(cpus))
        size = wide / limit_min / all_cpus
        size = 1 - size if small else size
    elif small:
        size = max(Fraction(0), Fraction(all_nodes - nodes, all_nodes))
        size = (size + Fraction(all_cpus - cpus, all_cpus)) / 2
    else:
        size = (Fraction(nodes, all_nodes) + Fraction(cpus, all_cpus)) / 2
    return min(Fraction(1), max(Fraction(0), size))


def priority(terms: list[tuple[int, Fraction]], site: int, nice: int) -> int:
    """Return the truncated sum of weighted factors; never 0, which would mean held."""
    total = site - nice + sum((weight * factor for weight, factor in terms), Fraction(0))
    return max(1, min(4294967295, int(total)))
