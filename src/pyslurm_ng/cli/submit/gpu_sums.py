"""GPU options that contradict each other, and Slurm's words about them."""

from pyslurm_ng.base.numbers import REQ_NODES_SET
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_values import MIXED_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.base.tres import Gres

_FAILED = "Failed to validate job spec"
_PER_NODE = "--gres=gpu/--gpus-per-node"


def check(request: "dict[str, Any]") -> None:
    """Refuse sums of GPUs that contradict each other or the counts of nodes, tasks and sockets.

    Raises:
        OptionError: they contradict.
    """
    _check_types(request)
    _drop_repetition(request)
    gpus, per_socket = _total(request, "gpus"), _total(request, "gpus_per_socket")
    per_task = _total(request, "gpus_per_task")
    per_node = _total(request, "gpus_per_node") or _of_gres(request)
    if gpus and request.get("nodes_min", 0) > gpus:
        raise _refusal(f"{_FAILED}, --gpus < -N")
    if (gpus and gpus < max(per_node, per_task)) or (per_node and per_node < per_socket):
        raise _refusal(f"Failed to ensure --gpus >= {_PER_NODE} >= --gpus-per-socket")
    if 0 < per_node < per_task:
        raise _refusal("Failed to ensure --gpus >= --gpus-per-task")
    if gpus and per_node:
        _check_nodes(request, gpus, per_node)
    if per_node and per_socket:
        _check_sockets(request, per_node, per_socket)
    _check_tasks(request, gpus, per_node, per_task)
    has_gpus = gpus or per_node or per_socket or per_task or request.get("ntasks_per_gpu")
    if request.get("mem_per_gpu_mib") and not has_gpus and not _of_tasks(request):
        amount = request["mem_per_gpu_mib"]
        raise _refusal(f"Requested mem_per_tres=gres/gpu:{amount} but did not request any GPU.")


def _check_types(request: "dict[str, Any]") -> None:
    """Refuse GPUs of a type beside GPUs of any type."""
    names = ("gpus", "gpus_per_node", "gpus_per_socket", "gpus_per_task")
    parts = [part for name in names for part in request.get(name, "").split(",") if part]
    kinds = {part.rpartition(":")[0] for part in parts} | _types_of_gres(request)
    if "" in kinds and len(kinds) > 1:
        raise OptionError(MIXED_TYPES, 1)


def _drop_repetition(request: "dict[str, Any]") -> None:
    """Take the GPUs out of --gres if --gpus-per-node asks for the same ones, as in Slurm.

    A script often has one of the options, and the command line the other.
    """
    if not request.get("gpus_per_node") or "gpu" not in request.get("gres", ""):
        return
    from pyslurm_ng.base.tres import parse_gres

    of_node = parse_gres(",".join(f"gpu:{part}" for part in request["gpus_per_node"].split(",")))
    words = {word: parse_gres(word) for word in request["gres"].split(",")}
    gpus = [gres for word in words for gres in words[word] if gres.name == "gpu"]
    if sorted(gpus) == sorted(of_node):
        others = [word for word in words if all(gres.name != "gpu" for gres in words[word])]
        request["gres"] = ",".join(others)


def _check_nodes(request: "dict[str, Any]", gpus: int, per_node: int) -> None:
    """Refuse if the GPUs of the job and of a node give another number of nodes than --nodes."""
    low, high = request.get("nodes_min", 0), request.get("nodes_max", 0)
    if gpus % per_node:
        raise _refusal(f"{_FAILED}, --gpus is not multiple of {_PER_NODE}")
    if low and not low <= gpus // per_node <= max(low, high):
        raise _refusal(
            f"{_FAILED}. Based on --gpu and {_PER_NODE} required nodes ({gpus // per_node}) "
            f"doesn't fall between min_nodes ({low}) and max_nodes ({max(low, high)}) boundaries."
        )


def _check_sockets(request: "dict[str, Any]", per_node: int, per_socket: int) -> None:
    """Refuse if the GPUs of a node and of a socket give other sockets than --sockets-per-node."""
    if per_node % per_socket:
        raise _refusal(f"{_FAILED}, {_PER_NODE} not multiple of --gpus-per-socket.")
    sockets = request.get("sockets_per_node", 0)
    if sockets and per_node // per_socket != sockets:
        raise _refusal(
            f"{_FAILED}. Based on {_PER_NODE} and --gpus-per-socket required number of sockets "
            "differ from --sockets-per-node."
        )


def _check_tasks(request: "dict[str, Any]", gpus: int, per_node: int, per_task: int) -> None:
    """Refuse if the GPUs of a task and of the job or a node give other tasks than --ntasks."""
    tasks_per_node = request.get("ntasks_per_node", 0)
    low, high = _nodes(request)
    tasks = request.get("ntasks") or tasks_per_node * max(1, low)
    if not per_task:
        return
    if not (gpus or tasks or (low and high in (0, low))):
        raise _refusal(
            f"{_FAILED}. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
        )
    if gpus % per_task:
        raise _refusal(f"{_FAILED}, --gpus not multiple of --gpus-per-task")
    if gpus and tasks not in (0, gpus // per_task):
        raise _refusal(
            f"{_FAILED}. Based on --gpus and --gpus-per-task number of requested tasks differ from "
            "-n/--ntasks."
        )
    if per_node % per_task:
        raise _refusal(f"{_FAILED}, {_PER_NODE} not multiple of --gpus-per-task.")
    if per_node and tasks_per_node not in (0, per_node // per_task):
        raise _refusal(
            f"{_FAILED}. Based on {_PER_NODE} and --gpus-per-task requested number of tasks per "
            "node differ from --ntasks-per-node."
        )


def gpus_of_tasks(request: "dict[str, Any]") -> str:
    """Return the number of GPUs that follows from --ntasks-per-gpu and the tasks or nodes of a job.

    Raises:
        OptionError: the tasks are no multiple, or neither tasks nor nodes are counted.
    """
    per_gpu, tasks = request["ntasks_per_gpu"], request.get("ntasks", 0)
    low, high = _nodes(request)
    if tasks > per_gpu and tasks % per_gpu:
        raise _refusal(f"{_FAILED}, -n/--ntasks has to be a multiple of --ntasks-per-gpu.")
    if not tasks and (not low or high not in (0, low)):
        raise _refusal(
            "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a "
            "node/ntask specification"
        )
    return str(-(-tasks // per_gpu) or low)


def _nodes(request: "dict[str, Any]") -> "tuple[int, int]":
    """Return the bounds of --nodes; names of nodes alone count no tasks."""
    if not request.get("flags", 0) & REQ_NODES_SET:
        return 0, 0
    return request.get("nodes_min", 0), request.get("nodes_max", 0)


def _refusal(text: str) -> OptionError:
    return OptionError(f"{text}\nInvalid generic resource (gres) specification", 1)


def _total(request: "dict[str, Any]", name: str) -> int:
    """Return the sum of a list of `[type:]count`."""
    parts = request.get(name, "").split(",")
    return sum(int(part.rpartition(":")[2]) for part in parts if part)


def _of_gres(request: "dict[str, Any]") -> int:
    return sum(gres.amount for gres in _gpus_of_gres(request))


def _types_of_gres(request: "dict[str, Any]") -> "set[str]":
    return {gres.type_name for gres in _gpus_of_gres(request)}


def _gpus_of_gres(request: "dict[str, Any]") -> "list[Gres]":
    text = request.get("gres", "")
    if "gpu" not in text:
        return []
    from pyslurm_ng.base.tres import parse_gres

    return [gres for gres in parse_gres(text) if gres.name == "gpu"]


def _of_tasks(request: "dict[str, Any]") -> bool:
    return "gpu" in request.get("tres_per_task", "")
