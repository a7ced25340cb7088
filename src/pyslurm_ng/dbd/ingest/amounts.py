"""Requests, allocations and usage of jobs and steps as the TRES texts of accounting tables.

Texts are `name=amount` lists: memory in MiB for requests and allocations; in usage columns
CPU time in milliseconds and sizes in bytes, as Slurm's data parser gives them.
"""

from collections.abc import Iterable, Mapping

from pyslurm_ng.model import amounts
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes


def tres_text(counts: Mapping[str, int]) -> str:
    """Return `name=amount,...` in alphabetical order of the words, zeros left out."""
    return ",".join(sorted(f"{name}={amount}" for name, amount in counts.items() if amount))


def requested_tres(
    request: JobRequest, partition: Partition | None, tracked: Iterable[str]
) -> tuple[int, int, dict[str, int]]:
    """Return requested nodes, CPUs and TRES; generic resources only if tracked."""
    sizes = job_sizes(request, partition)
    return sizes.nodes_min, sizes.cpus, amounts.requested_tres(request, partition, tracked)
