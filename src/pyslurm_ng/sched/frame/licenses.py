"""Licences that reservations keep for their jobs.

While a reservation is in force, no other job may have what its jobs have not taken of its licences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation

Counts = dict[str, int]  # by licence


class LicensesInside(NamedTuple):
    """Licences of one reservation now: `left` for its jobs, `taken` by those in `job_ids`."""

    left: Counts
    taken: Counts
    job_ids: frozenset[int]


NOTHING_INSIDE = LicensesInside({}, {}, frozenset())


def in_force(reservations: Iterable[Reservation], now_us: int) -> Iterator[tuple[str, Counts]]:
    """Yield the reservations that keep licences now, and how many of each."""
    for reservation in reservations:
        if reservation.licenses and any(
            begin <= now_us < end for begin, end in reservation.occurrences()
        ):
            yield reservation.name, dict(license_counts(reservation.licenses))


def licenses_inside(cluster: Cluster, now_us: int) -> dict[str, LicensesInside]:
    """Return by reservation in force what is left of its licences."""
    kept = dict(in_force(cluster.reservations.values(), now_us))
    if not kept:
        return {}
    taken: dict[str, Counts] = {name: {} for name in kept}
    job_ids: dict[str, list[int]] = {name: [] for name in kept}
    for job_id in cluster.job_index.active:
        job = cluster.jobs[job_id]
        if job.reservation not in kept or not job.licenses_alloc:
            continue
        job_ids[job.reservation].append(job_id)
        counts = taken[job.reservation]
        for name, count in license_counts(job.licenses_alloc):
            counts[name] = counts.get(name, 0) + count
    return {
        reservation_name: LicensesInside(
            {
                name: max(0, most - taken[reservation_name].get(name, 0))
                for name, most in counts.items()
            },
            taken[reservation_name],
            frozenset(job_ids[reservation_name]),
        )
        for reservation_name, counts in kept.items()
    }


def kept_from(inside: Mapping[str, LicensesInside], reservation_names: Iterable[str]) -> Counts:
    """Return the licences that are kept from jobs which may only use these reservations."""
    own = frozenset(reservation_names)
    kept: Counts = {}
    for reservation_name, licenses in inside.items():
        if reservation_name not in own:
            for name, count in licenses.left.items():
                kept[name] = kept.get(name, 0) + count
    return kept
