"""What options mean together: which of them counts, what they imply, which exclude each other."""

import os

from pyslurm_ng.base.numbers import REQ_MEM_SET, REQ_NO_SPECIAL_CORES, REQ_NTASKS_SET
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import option_values as ov
from pyslurm_ng.cli.submit.option_state import ENVIRONMENT, SCRIPT, OptionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def settle(options: OptionState) -> "list[str]":
    """Settle what the options mean together; return warnings with their level.

    Raises:
        OptionError: options that exclude one another.
    """
    _settle_memory(options)
    if options.command == "srun" and "parsable" in options.given:
        raise OptionError("--parsable requires --async", 1)
    _check_hint(options)
    if "SLURM_HOSTFILE" in os.environ:
        from pyslurm_ng.cli.submit.host_file import settle_host_file

        settle_host_file(options)
    odd = _settle_nodes(options)
    _settle_gpus(options)
    _settle_tasks(options)
    _settle_licenses(options)
    _check_hosts(options)
    if 0 < options.request.get("deadline_us", 0) < options.request.get("begin_us", 0):
        raise OptionError("Incompatible begin and deadline time specification", 1)
    if options.command != "srun":
        _check_plane(options)
    elif _is_step(options):
        odd += _without_effect(options)
    return odd


def _settle_nodes(options: OptionState) -> "list[str]":
    """Reduce the nodes to the number of tasks, and the names to the number of nodes."""
    odd: list[str] = []
    request = options.request
    _sort_names(options)
    tasks = request.get("ntasks", 0)
    low, named = request.get("nodes_min", 0), _named_nodes(options)
    if not low or low < named <= request.get("nodes_max", 0):
        low = named
    if tasks and low > tasks:
        odd.append(
            f"warning: can't run {tasks} processes on {low} nodes, setting nnodes to {tasks}"
        )
        request["nodes_min"] = tasks
        request["nodes_max"] = tasks
        if named > tasks:
            _keep_names(request, tasks)
        return odd
    if named and not request.get("segment") and not _is_step(options):
        request["nodes_min"] = low  # as many nodes as are named
    if "nodes" in options.given:
        odd += _settle_names(options)
    return odd


def _without_effect(options: OptionState) -> "list[str]":
    """Leave out what a step cannot have; return warnings about it."""
    odd = []
    if "begin" in options.given:
        odd.append("error: --begin is ignored because nodes are already allocated.")
    request = options.request
    tasks, nodes = request.get("ntasks", 0), request.get("nodes_min", 0)
    per_node = request.get("ntasks_per_node", 0)
    # With a count of nodes alone the job's tasks per node say how many tasks there are.
    is_by_tasks = _source(options, "ntasks") >= _source(options, "nodes")
    if is_by_tasks and nodes and 0 < per_node < tasks and tasks != nodes * per_node:
        odd.append(
            f"warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the "
            f"requested tasks {tasks} with the number of requested nodes {nodes}. Ignoring "
            "--ntasks-per-node."
        )
        del request["ntasks_per_node"]
    return odd


def _settle_names(options: OptionState) -> "list[str]":
    """Refuse more names than nodes; srun leaves out the last names, and says so."""
    most, named = options.request.get("nodes_max", 0), _named_nodes(options)
    if not 0 < most < named or options.request.get("segment"):
        return []  # segments may lie on any of the nodes named
    if options.command != "srun":
        raise OptionError(f"invalid number of nodes (-N {named}-{most})", 1)
    _keep_names(options.request, most)
    return [
        "error: Required nodelist includes more nodes than permitted by max-node count "
        f"({named} > {most}). Eliminating nodes from the nodelist."
    ]


def _check_plane(options: OptionState) -> None:
    """Planes fill one node after another: there must be tasks for the last one."""
    request = options.request
    nodes = request.get("nodes_min", 0) or _named_nodes(options)
    tasks = request.get("ntasks") or request.get("ntasks_per_node", 1) * max(1, nodes)
    if "plane_size" in request and tasks <= (nodes - 1) * request["plane_size"]:
        text = "Too few processes for the requested {plane,node} distribution"
        raise OptionError(text, 1)


def _check_hosts(options: OptionState) -> None:
    """Require a list of hosts for an arbitrary distribution; a step may use its job's."""
    layout = options.request.get("distribution", "").lower()
    if not layout.startswith("arbitrary") or _is_step(options):
        return
    if not options.request.get("node_list"):
        raise OptionError(ov.NO_HOSTS, 1)


def _sort_names(options: OptionState) -> None:
    """Write the nodes of --nodelist as Slurm shows them: each once, in order."""
    names = options.request.get("node_list", "")
    if "," in names and not _is_arbitrary(options):
        from pyslurm_ng.cli.submit.option_names import folded

        options.request["node_list"] = folded(names)


def _keep_names(request: "dict[str, Any]", most: int) -> None:
    """Leave the last of the nodes of --nodelist out."""
    from pyslurm_ng.base.hostlist import expand_unique, fold

    request["node_list"] = fold(expand_unique(request["node_list"])[:most])


def _is_arbitrary(options: OptionState) -> bool:
    return "arbitrary" in options.request.get("distribution", "").lower()


def _named_nodes(options: OptionState) -> int:
    """Return how many nodes --nodelist names; 0 where their order is the tasks' order."""
    names = options.request.get("node_list", "")
    if not names or _is_arbitrary(options):
        return 0
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return len(set(expand(names)))
    except HostlistError:
        return 0  # refused later


def _settle_memory(options: OptionState) -> None:
    """Keep one of --mem, --mem-per-cpu and --mem-per-gpu: that of the strongest source."""
    if not options.memory:
        return
    strongest = max(options.given[name][0] for name in options.memory)
    names = [name for name in options.memory if options.given[name][0] == strongest]
    if len(names) > 1:
        text = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise OptionError(text, 1, "fatal: ")
    fields = {"mem": "mem_per_node_mib", "mem-per-cpu": "mem_per_cpu_mib"}
    options.request[fields.get(names[0], "mem_per_gpu_mib")] = options.memory[names[0]]
    options.flag(REQ_MEM_SET)


def _check_hint(options: OptionState) -> None:
    if "hint" not in options.given:
        return
    source = options.given["hint"][0]
    others = ("ntasks-per-core", "threads-per-core", "extra-node-info", "cpu-bind")
    if any(name in options.given and options.given[name][0] == source for name in others):
        where = ("script", "environment variables", "command line arguments")[source]
        raise OptionError(
            "Following options are mutually exclusive with --hint: --ntasks-per-core, "
            "--threads-per-core, -B and --cpu-bind, but more than one set by "
            f"{where}.",
            1,
            "fatal: ",
        )


def _settle_gpus(options: OptionState) -> None:
    """Derive the GPUs of --ntasks-per-gpu, and refuse contradictory sums."""
    request = options.request
    totals = ("gpus", "gpus_per_node", "gpus_per_task")
    _check_tasks_of_gpus(options)
    # A job's variables do not name its sockets, so that of its GPUs says nothing to a step.
    is_of_job = _is_step(options) and _source(options, "gpus-per-socket") == ENVIRONMENT
    if request.get("gpus_per_socket") and not request.get("sockets_per_node") and not is_of_job:
        raise OptionError(ov.NO_SOCKETS, 1)
    if request.get("core_spec") and request.get("thread_spec"):
        text = "-S/--core-spec and --thread-spec options are mutually exclusive"
        raise OptionError(text, 1, "fatal: ")
    for option in ("core-spec", "thread-spec"):
        if option in options.given and not request.get(option.replace("-", "_")):
            options.flag(REQ_NO_SPECIAL_CORES)
    has_counts = any(request.get(name) for name in totals) or "gpu" in options.resources
    if request.get("ntasks_per_gpu") and not has_counts:
        _add_gpus(options)
    if request.get("cpus_per_gpu") and request.get("cpus_per_task"):
        of_gpu, of_task = _source(options, "cpus-per-gpu"), _source(options, "cpus-per-task")
        if of_gpu == of_task:
            text = "--cpus-per-task is mutually exclusive with --cpus-per-gpu"
            raise OptionError(text, 1, "fatal: ")
        del request["cpus_per_task" if of_gpu > of_task else "cpus_per_gpu"]
    if _is_step(options) or not any("gpu" in name for name in (*request, *options.resources)):
        return
    from pyslurm_ng.cli.submit import gpu_sums

    gpu_sums.check(request)


def _add_gpus(options: OptionState) -> None:
    """Ask for the GPUs that --ntasks-per-gpu makes of a count of tasks."""
    request = options.request
    if not _is_step(options):
        from pyslurm_ng.cli.submit import gpu_sums

        request["gpus"] = gpu_sums.gpus_of_tasks(request)
    elif request.get("ntasks"):
        request["gpus"] = str(-(-request["ntasks"] // request["ntasks_per_gpu"]))
    options.resources.append("gpu")


def _check_tasks_of_gpus(options: OptionState) -> None:
    """Refuse --ntasks-per-gpu beside options that count its tasks or GPUs in another way."""
    if not options.request.get("ntasks_per_gpu"):
        return
    for option in ("gpus-per-socket", "ntasks-per-node", "gpus-per-task"):
        if options.request.get(option.replace("-", "_")):
            is_of_environment = _source(options, option) == ENVIRONMENT
            name = (
                f"SLURM_{option.upper().replace('-', '_')}" if is_of_environment else f"--{option}"
            )
            text = f"{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
            raise OptionError(text, 1, "fatal: ")


_SHAPE = ("sockets_per_node", "cores_per_socket", "threads_per_core")


def _settle_tasks(options: OptionState) -> None:
    """Give every socket, core or thread that the options name a task, as Slurm 22.05 does.

    sbatch and salloc do so with -B, and with a count of nodes whichever option names them; srun
    only with all three numbers of -B.
    """
    request = options.request
    low, high = request.get("nodes_min", 0), request.get("nodes_max", 0)
    if request.get("ntasks") or high not in (0, low) or not _names_tasks(options, low):
        return
    tasks = max(1, low)
    for name in _SHAPE:
        tasks *= request.get(name, 1)
    request["ntasks"] = tasks
    options.flag(REQ_NTASKS_SET)


def _names_tasks(options: OptionState, nodes: int) -> bool:
    """Return whether numbers of the hardware count the tasks, too."""
    request = options.request
    named = [name for name in _SHAPE if request.get(name)]
    if options.command == "srun":
        return "extra-node-info" in options.given and len(named) == len(_SHAPE)
    if request.get("ntasks_per_node") or "hint" in options.given:
        return False
    return "extra-node-info" in options.given or bool(nodes and named)


def _settle_licenses(options: OptionState) -> None:
    """Add the licences of each task to those of the job; a step has none."""
    request = options.request
    if not options.task_licenses or _is_step(options):
        return
    on_nodes = max(1, request.get("nodes_min", 0))
    per_node = request.get("ntasks_per_node", 0)
    tasks = request.get("ntasks") or (per_node * on_nodes if per_node else on_nodes)
    wanted = {name: count * tasks for name, count in options.task_licenses}
    words = [_with_more(word, wanted) for word in request.get("licenses", "").split(",")]
    words += [f"{name}:{count}" for name, count in wanted.items()]
    request["licenses"] = ",".join(filter(None, words))


def _with_more(word: str, wanted: "dict[str, int]") -> str:
    """Return a part of --licenses with those of its name that tasks want, and take them out."""
    name, _, count = word.replace("=", ":").partition(":")
    if name not in wanted or (count and not count.isdigit()):
        return word
    return f"{name}:{int(count or 1) + wanted.pop(name)}"


def _is_step(options: OptionState) -> bool:
    return options.command == "srun" and "SLURM_JOB_ID" in os.environ


def _source(options: OptionState, name: str) -> int:
    return options.given[name][0] if name in options.given else SCRIPT
