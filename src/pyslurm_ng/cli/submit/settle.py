"""What options mean together: which of them counts, what they imply, which exclude each other."""

import os

from pyslurm_ng.base.numbers import REQ_MEM_SET, REQ_NTASKS_SET
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import option_values as ov
from pyslurm_ng.cli.submit.option_state import SCRIPT, OptionState


def settle(said: OptionState) -> "list[str]":
    """Settle what the options mean together; return warnings with their level.

    Raises:
        OptionError: options that exclude one another.
    """
    _settle_memory(said)
    if said.command == "srun" and "parsable" in said.given:
        raise OptionError("--parsable requires --async", 1)
    _check_hint(said)
    if "SLURM_HOSTFILE" in os.environ:
        from pyslurm_ng.cli.submit.host_file import settle_host_file

        settle_host_file(said)
    odd = _settle_nodes(said)
    _settle_gpus(said)
    _settle_tasks(said)
    _settle_licenses(said)
    _check_hosts(said)
    if said.command != "srun":
        _check_plane(said)
    elif _is_step(said):
        odd += _without_effect(said)
    return odd


def _settle_nodes(said: OptionState) -> "list[str]":
    """Reduce the nodes to the number of tasks, and the names to the number of nodes."""
    odd: list[str] = []
    request = said.request
    tasks = request.get("ntasks", 0)
    low, named = request.get("nodes_min", 0), _named_nodes(said, tasks)
    if not low or low < named <= request.get("nodes_max", 0):
        low = named
    if tasks and low > tasks:
        odd.append(
            f"warning: can't run {tasks} processes on {low} nodes, setting nnodes to {tasks}"
        )
        request["nodes_min"] = tasks
        request["nodes_max"] = tasks
    elif "nodes" in said.given:
        odd += _settle_names(said)
    return odd


def _without_effect(said: OptionState) -> "list[str]":
    """Leave out what a step cannot have; return warnings about it."""
    odd = []
    if "begin" in said.given:
        odd.append("error: --begin is ignored because nodes are already allocated.")
    request = said.request
    tasks, nodes = request.get("ntasks", 0), request.get("nodes_min", 0)
    per_node = request.get("ntasks_per_node", 0)
    # With a count of nodes alone the job's tasks per node say how many tasks there are.
    is_told = _source(said, "ntasks") >= _source(said, "nodes")
    if is_told and nodes and 0 < per_node < tasks and tasks != nodes * per_node:
        odd.append(
            f"warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the "
            f"requested tasks {tasks} with the number of requested nodes {nodes}. Ignoring "
            "--ntasks-per-node."
        )
        del request["ntasks_per_node"]
    return odd


def _settle_names(said: OptionState) -> "list[str]":
    """Refuse more names than nodes; srun leaves out the last names, and says so."""
    most, named = said.request.get("nodes_max", 0), _named_nodes(said, 1)
    if not 0 < most < named:
        return []
    if said.command != "srun":
        raise OptionError(f"invalid number of nodes (-N {named}-{most})", 1)
    from pyslurm_ng.base.hostlist import expand_unique, fold

    names = expand_unique(said.request["node_list"])
    said.request["node_list"] = fold(names[:most])
    return [
        "error: Required nodelist includes more nodes than permitted by max-node count "
        f"({named} > {most}). Eliminating nodes from the nodelist."
    ]


def _check_plane(said: OptionState) -> None:
    """Planes fill one node after another: there must be tasks for the last one."""
    request = said.request
    nodes = request.get("nodes_min", 0) or _named_nodes(said, 1)
    tasks = request.get("ntasks") or request.get("ntasks_per_node", 1) * max(1, nodes)
    if "plane_size" in request and tasks <= (nodes - 1) * request["plane_size"]:
        text = "Too few processes for the requested {plane,node} distribution"
        raise OptionError(text, 1)


def _check_hosts(said: OptionState) -> None:
    """Require a list of hosts for an arbitrary distribution; a step may use its job's."""
    layout = said.request.get("distribution", "").lower()
    if not layout.startswith("arbitrary") or _is_step(said):
        return
    if not said.request.get("node_list"):
        raise OptionError(ov.NO_HOSTS, 1)


def _named_nodes(said: OptionState, tasks: int) -> int:
    """Return how many nodes --nodelist names, for a job whose tasks may be fewer."""
    names = said.request.get("node_list", "")
    if not tasks or not names or "arbitrary" in said.request.get("distribution", "").lower():
        return 0
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return len(set(expand(names)))
    except HostlistError:
        return 0  # refused later


def _settle_memory(said: OptionState) -> None:
    """Keep one of --mem, --mem-per-cpu and --mem-per-gpu: that of the strongest source."""
    if not said.memory:
        return
    strongest = max(said.given[name][0] for name in said.memory)
    names = [name for name in said.memory if said.given[name][0] == strongest]
    if len(names) > 1:
        text = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise OptionError(text, 1, "fatal: ")
    fields = {"mem": "mem_per_node_mib", "mem-per-cpu": "mem_per_cpu_mib"}
    said.request[fields.get(names[0], "mem_per_gpu_mib")] = said.memory[names[0]]
    said.flag(REQ_MEM_SET)


def _check_hint(said: OptionState) -> None:
    if "hint" not in said.given:
        return
    source = said.given["hint"][0]
    others = ("ntasks-per-core", "threads-per-core", "extra-node-info", "cpu-bind")
    if any(name in said.given and said.given[name][0] == source for name in others):
        where = ("script", "environment variables", "command line arguments")[source]
        raise OptionError(
            "Following options are mutually exclusive with --hint: --ntasks-per-core, "
            "--threads-per-core, -B and --cpu-bind, but more than one set by "
            f"{where}.",
            1,
            "fatal: ",
        )


def _settle_gpus(said: OptionState) -> None:
    """Derive the GPUs of --ntasks-per-gpu, and refuse contradictory sums."""
    request = said.request
    per_gpu = request.get("ntasks_per_gpu", 0)
    totals = ("gpus", "gpus_per_node", "gpus_per_task")
    if request.get("gpus_per_socket") and not request.get("sockets_per_node"):
        raise OptionError(ov.NO_SOCKETS, 1)
    if request.get("core_spec") and request.get("thread_spec"):
        text = "-S/--core-spec and --thread-spec options are mutually exclusive"
        raise OptionError(text, 1, "fatal: ")
    is_told = any(request.get(name) for name in totals) or "gpu" in said.resources
    if per_gpu and request.get("ntasks") and not is_told:
        request["gpus"] = str(-(-request["ntasks"] // per_gpu))
        said.resources.append("gpu")
    if per_gpu and request.get("gpus_per_task"):
        text = "--gpus-per-task is mutually exclusive with --ntasks-per-gpu"
        if said.command != "sbatch":
            text += " and SLURM_NTASKS_PER_GPU"
        raise OptionError(text, 1, "fatal: ")
    if request.get("cpus_per_gpu") and request.get("cpus_per_task"):
        of_gpu, of_task = _source(said, "cpus-per-gpu"), _source(said, "cpus-per-task")
        if of_gpu == of_task:
            text = "--cpus-per-task is mutually exclusive with --cpus-per-gpu"
            raise OptionError(text, 1, "fatal: ")
        del request["cpus_per_task" if of_gpu > of_task else "cpus_per_gpu"]
    if _is_step(said) or not any("gpu" in name for name in (*request, *said.resources)):
        return
    from pyslurm_ng.cli.submit import gpu_sums

    gpu_sums.check(request)


def _settle_tasks(said: OptionState) -> None:
    """With -B and a count of nodes, give every named thread, core or socket a task."""
    request = said.request
    low, high = request.get("nodes_min", 0), request.get("nodes_max", 0)
    is_told = request.get("ntasks") or request.get("ntasks_per_node")
    if "extra-node-info" not in said.given or is_told or high not in (0, low):
        return
    tasks = max(1, low)
    for name in ("sockets_per_node", "cores_per_socket", "threads_per_core"):
        tasks *= request.get(name, 1)
    request["ntasks"] = tasks
    said.flag(REQ_NTASKS_SET)


def _settle_licenses(said: OptionState) -> None:
    """Add the licences of each task to those of the job; a step has none."""
    request = said.request
    if not said.task_licenses or _is_step(said):
        return
    on_nodes = max(1, request.get("nodes_min", 0))
    per_node = request.get("ntasks_per_node", 0)
    tasks = request.get("ntasks") or (per_node * on_nodes if per_node else on_nodes)
    words = [f"{name}:{count * tasks}" for name, count in said.task_licenses]
    request["licenses"] = ",".join(word for word in (request.get("licenses", ""), *words) if word)


def _is_step(said: OptionState) -> bool:
    return said.command == "srun" and "SLURM_JOB_ID" in os.environ


def _source(said: OptionState, name: str) -> int:
    return said.given[name][0] if name in said.given else SCRIPT
