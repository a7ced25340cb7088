"""What jobs ask for and hold, as TRES amounts by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from pyslurm_ng.base.tres import Gres, TresError, parse_gres

from .job import JobRequest, NodeAlloc
from .license_server import license_counts
from .partition import Partition
from .sizes import JobSizes, job_sizes


def requested_gres(request: JobRequest, nodes: int, tasks: int) -> dict[str, int]:
    """Return all generic resources that are asked for, as `gres/NAME` and `gres/NAME:TYPE`.

    Several options may name the same GPUs: they are counted once, by the option of the largest
    scope.
    """
    amounts: dict[str, int] = {}
    has_gpus = False
    if not _asks_for_gres(request):
        return amounts
    for text, factor in (
        (_as_gres(request.gpus), 1),
        (_as_gres(request.gpus_per_node), nodes),
        (request.gres, nodes),
        (_as_gres(request.gpus_per_socket), nodes * max(1, request.sockets_per_node)),
        (_as_gres(request.gpus_per_task), tasks),
        (request.tres_per_task, tasks),
    ):
        resources = _resources(text)
        for resource in resources:
            if resource.name == "gpu" and has_gpus:
                continue
            # The set holds one name for an untyped resource, two for a typed one.
            for name in sorted({f"gres/{resource.name}", resource.tres_name}):
                amounts[name] = amounts.get(name, 0) + resource.amount * factor
        has_gpus = has_gpus or any(resource.name == "gpu" for resource in resources)
    return amounts


def _asks_for_gres(request: JobRequest) -> bool:
    """Return whether any option names resources; most jobs have none, and all are counted."""
    return bool(
        request.gres
        or request.gpus
        or request.gpus_per_node
        or request.gpus_per_socket
        or request.gpus_per_task
        or request.tres_per_task
    )


def _as_gres(gpus: str) -> str:
    """Return a `[type:]n` list of the --gpus options as --gres takes it."""
    words = gpus.split(",") if gpus else ()
    return ",".join(word if "gpu" in word else f"gpu:{word}" for word in words)


def _resources(text: str) -> tuple[Gres, ...]:
    words = [word for word in text.split(",") if word and not word.startswith("cpu")]
    try:
        return parse_gres(",".join(words))
    except TresError:
        # The submit rule has checked the text; one of a newer grammar only loses its amount.
        return ()


def requested_tres(
    request: JobRequest,
    partition: Partition | None,
    tracked: Iterable[str],
    sizes: JobSizes | None = None,
) -> dict[str, int]:
    """Return the TRES that a request asks for; devices and licences only if they are tracked.

    Args:
        sizes: those of the request, if the caller has them.
    """
    sizes = sizes or job_sizes(request, partition)
    gres_counts = requested_gres(request, sizes.nodes_min, sizes.tasks)
    mem_mib = sizes.mem_per_node_mib * sizes.nodes_min
    mem_mib += sizes.mem_per_cpu_mib * sizes.cpus
    mem_mib += sizes.mem_per_gpu_mib * gres_counts.get("gres/gpu", 0)
    amounts = {"cpu": sizes.cpus, "mem": mem_mib, "node": sizes.nodes_min}
    terms = partition.billing_terms if partition is not None else ""
    others = gres_counts | license_tres(request.licenses)
    amounts["billing"] = billing({**amounts, **others}, terms)
    amounts |= {name: others[name] for name in tracked if name in others}
    return amounts


def license_tres(licenses: str) -> dict[str, int]:
    """Return licences as TRES; of alternatives only the first."""
    if not licenses:
        return {}
    return {f"license/{name}": count for name, count in license_counts(licenses)}


def tres_text(counts: Mapping[str, int]) -> str:
    """Return `name=amount,...` in alphabetical order of the words, zeros left out."""
    return _text_of(tuple(counts.items()))


@lru_cache(1024)
def _text_of(counts: tuple[tuple[str, int], ...]) -> str:
    # Few jobs of a site differ in what they hold, and each is written several times.
    return ",".join(sorted([f"{name}={amount}" for name, amount in counts if amount]))


def allocated_tres(
    nodes: Iterable[NodeAlloc], tracked: Iterable[str], terms: str | None, licenses: str = ""
) -> dict[str, int]:
    """Return the TRES that a job or step holds.

    Args:
        terms: those of billing; None for steps, which are not billed.
        licenses: those of the job; steps have none.
    """
    charges = tuple([
        (
            node.cpus - node.idle_cpus,
            node.mem_mib,
            tuple([(gres.name, gres.type, gres.count) for gres in node.gres]) if node.gres else (),
        )
        for node in nodes
    ])  # fmt: skip
    sums = _sums_of if len(charges) <= _FEW_NODES else _sums_of.__wrapped__
    return dict(sums(charges, tuple(tracked), terms, licenses))


_FEW_NODES = 8
"""Of jobs of which many hold the same; each of their records asks, and each of their steps."""


@lru_cache(1024)
def _sums_of(
    charges: tuple[tuple[int, int, tuple[tuple[str, str, int], ...]], ...],
    tracked: tuple[str, ...],
    terms: str | None,
    licenses: str,
) -> dict[str, int]:
    """Return the TRES held in all: CPUs, memory and generic resources of each node, licences."""
    amounts = {"cpu": 0, "mem": 0, "node": 0}
    totals = license_tres(licenses)
    for cpus, mem_mib, all_gres in charges:
        amounts["cpu"] += cpus
        amounts["mem"] += mem_mib
        amounts["node"] += 1
        for name, kind, count in all_gres:
            whole = f"gres/{name}"
            totals[whole] = totals.get(whole, 0) + count
            if kind:
                typed = f"{whole}:{kind}"
                totals[typed] = totals.get(typed, 0) + count
    if terms is not None:
        amounts["billing"] = billing({**amounts, **totals}, terms)
    amounts |= {name: totals[name] for name in tracked if name in totals}
    return amounts


def billing(amounts: Mapping[str, int], terms: str) -> int:
    """Return the billing amount: CPUs, or what `TRESBillingWeights` make of all amounts.

    A weight may end in K, M, G or T: then it counts per that unit of memory (MiB is the base).

    Args:
        terms: the weights, maybe behind a rule and `;`. Without one all terms are added. MAX_TRES
            takes the largest of what nodes have (cpu, mem, node, gres/*) instead of their sum,
            MAX_TRES_GRES the largest of cpu, mem and node.
    """
    if not terms:
        return amounts.get("cpu", 0)
    rule, _, weights = terms.rpartition(";")
    total = most = 0.0
    for word in weights.split(","):
        name, _, weight = word.strip().lower().partition("=")
        term = amounts.get(name, 0) * _factor(weight)
        if rule and (name in _OF_NODES or (rule == "MAX_TRES" and name.startswith("gres/"))):
            most = max(most, term)
        else:
            total += term
    return max(0, int(total + most))


def billing_of_node(amounts: Mapping[str, int], terms: Iterable[str]) -> int:
    """Return what a node is worth: the most that any of its partitions makes of it.

    Args:
        terms: of each partition; those without weights count only if no other has any.
    """
    weighted = [billing(amounts, words) for words in terms if words]
    return max(weighted, default=amounts.get("cpu", 0))


_OF_NODES = ("cpu", "mem", "node")


def _factor(weight: str) -> float:
    """Return the factor of a weight; 0 if it is no number."""
    power = "mgtp".find(weight[-1:]) if weight[-1:].isalpha() else 0
    try:
        factor = float(weight.rstrip("kmgtp")) * (1024 if weight[-1:] == "k" else 1)
    except ValueError:
        return 0.0
    return factor / (1 << 10 * max(0, power))
