"""What a step's tasks and its supervisor are told for --mpi."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.process_mapping import (
    blocks_of,
    mapping_text,
    parse_blocks,
)
from pyslurm_ng.d.spec.node_setup import SpecError
from pyslurm_ng.model.ids import step_text
from pyslurm_ng.wire.node_messages import JobCredential, LaunchStep

if TYPE_CHECKING:
    from pyslurm_ng.d.spool import step_contract as sc

NONE = ("", "none")
_MOST_RANKS = 1 << 22
_LEAST_SECRET_BYTES = 16


def mpi_spec(credential: JobCredential, request: LaunchStep) -> sc.MpiSpec | None:
    """Return what serves the MPI libraries of a step; None if nothing does.

    Raises:
        SpecError: a kind of MPI that does not exist, or ranks that do not fit the nodes.
    """
    if request.mpi in NONE:
        return None
    kind = request.mpi.partition("_v")[0]
    if kind not in ("pmi2", "pmix"):
        raise SpecError(f"Invalid MPI type '{request.mpi}'; allowed: none, pmi2, pmix")
    if kind == "pmix" and len(request.mpi_secret) < _LEAST_SECRET_BYTES:
        raise SpecError("--mpi=pmix: this srun sends no secret for the ranks; use a newer one")
    nodes = list(credential.step_nodes)
    blocks = blocks_of(credential.step_tasks)
    ranks = sum(map(len, credential.step_tasks))
    try:
        if request.all_ranks:
            nodes, ranks = expand(request.all_nodes), request.all_ranks
            blocks = parse_blocks(request.all_ranks_of_nodes)
    except (HostlistError, ValueError) as error:
        raise SpecError(f"the ranks of all components: {error}") from None
    placed = sum(count * per_node for _, count, per_node in blocks)
    end = max(first + count for first, count, _ in blocks)
    if not placed == ranks <= _MOST_RANKS or end > len(nodes):
        raise SpecError(f"{placed} ranks on {end} nodes; {ranks} on {len(nodes)} are allowed")
    job = f"{credential.het_job_id or credential.job_id}.{step_text(credential.step_id)}"
    # A requeued job has its steps' numbers again; components have only the job's in common.
    world = job if request.all_ranks else f"{job}.{credential.start_us:x}"
    return {
        "kind": kind,
        "job": job,
        "world": world,
        "ranks": ranks,
        "first_rank": request.first_rank,
        "first_node": request.first_node,
        "mapping": mapping_text(blocks),
        "nodes": nodes,
        "secret": request.mpi_secret.hex() if kind == "pmix" else "",
    }


def step_variables(kind: str, mpi: sc.MpiSpec | None) -> dict[str, str]:
    """Return the variables of all tasks; SLURM_MPI_TYPE only of a kind that serves them."""
    variables = {"SLURM_MPI_TYPE": kind} if kind not in ("", "none") else {}
    if mpi is not None and mpi["kind"] == "pmi2":
        variables |= {"PMI_JOBID": mpi["job"], "PMI_SIZE": str(mpi["ranks"])}
    return variables


def task_variables(kind: str, rank: int) -> dict[str, str]:
    """Return the variables of one task; PMI_FD is known only when it starts."""
    names = {"pmi2": "PMI_RANK", "pmix": "PMIX_RANK"}
    name = names.get(kind.partition("_v")[0])
    return {name: str(rank)} if name else {}
