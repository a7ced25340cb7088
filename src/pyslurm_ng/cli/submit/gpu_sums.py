"""GPU options that contradict each other: which ones, in Slurm's words."""

from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FAILED = "Failed to validate job spec"
_PER_NODE = "--gres=gpu/--gpus-per-node"


def check(request: "dict[str, Any]") -> None:
    """Refuse sums of GPUs that contradict each other or the counts of nodes, tasks and sockets.

    Raises:
        OptionError: they do.
    """
    gpus, per_socket = _total(request, "gpus"), _total(request, "gpus_per_socket")
    per_task = _total(request, "gpus_per_task")
    per_node = _total(request, "gpus_per_node") or _of_gres(request)
    low, high = request.get("nodes_min", 0), request.get("nodes_max", 0)
    if gpus and low > gpus:
        raise _refusal(f"{_FAILED}, --gpus < -N")
    if (gpus and gpus < per_node) or (per_node and per_node < per_socket):
        raise _refusal(f"Failed to ensure --gpus >= {_PER_NODE} >= --gpus-per-socket")
    if gpus and per_task and gpus % per_task:
        raise _refusal(f"{_FAILED}, --gpus not multiple of --gpus-per-task")
    if gpus and per_node and low and not low <= gpus // per_node <= max(low, high):
        raise _refusal(
            f"{_FAILED}. Based on --gpu and {_PER_NODE} required nodes ({gpus // per_node}) "
            f"doesn't fall between min_nodes ({low}) and max_nodes ({max(low, high)}) boundaries."
        )
    sockets = request.get("sockets_per_node", 0)
    if per_node and per_socket and sockets and per_node // per_socket != sockets:
        raise _refusal(
            f"{_FAILED}. Based on {_PER_NODE} and --gpus-per-socket required number of sockets "
            "differ from --sockets-per-node."
        )
    counts_nodes = low and high in (0, low)
    if per_task and not (gpus or request.get("ntasks") or counts_nodes):
        raise _refusal(
            f"{_FAILED}. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
        )
    wants_any = gpus or per_node or per_socket or per_task or request.get("ntasks_per_gpu")
    if request.get("mem_per_gpu_mib") and not wants_any and not _of_tasks(request):
        amount = request["mem_per_gpu_mib"]
        raise _refusal(f"Requested mem_per_tres=gres/gpu:{amount} but did not request any GPU.")


def _refusal(text: str) -> OptionError:
    return OptionError(f"{text}\nInvalid generic resource (gres) specification", 1)


def _total(request: "dict[str, Any]", name: str) -> int:
    """Return the sum of a `[type:]n` list."""
    parts = request.get(name, "").split(",")
    return sum(int(part.rpartition(":")[2]) for part in parts if part)


def _of_gres(request: "dict[str, Any]") -> int:
    text = request.get("gres", "")
    if "gpu" not in text:
        return 0
    from pyslurm_ng.base.tres import parse_gres

    return sum(item.amount for item in parse_gres(text) if item.name == "gpu")


def _of_tasks(request: "dict[str, Any]") -> bool:
    return "gpu" in request.get("tres_per_task", "")
