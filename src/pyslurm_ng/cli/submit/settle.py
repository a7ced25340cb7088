"""Options together: which of them count, what they imply, which exclude each other."""

import os

from pyslurm_ng.base.numbers import (
    REQ_MEM_SET,
    REQ_NO_SPECIAL_CORES,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
)
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import option_values as ov
from pyslurm_ng.cli.submit.container_words import check as check_container
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, ENVIRONMENT, SCRIPT, OptionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def settle(options: OptionState) -> "list[str]":
    """Settle what the options mean together; return warnings with their level.

    Raises:
        OptionError: options exclude one another.
    """
    if options.verbose and "quiet" in options.settings:
        raise OptionError("don't specify both --verbose (-v) and --quiet (-Q)", 1)
    _settle_memory(options)
    if "container" in options.request or "container_options" in options.request:
        check_container(options.request)
    if options.command == "srun" and "parsable" in options.given and ("async" not in options.given):
        raise OptionError("--parsable requires --async", 1)
    warnings = _settle_hint(options)
    if "SLURM_HOSTFILE" in os.environ:
        from pyslurm_ng.cli.submit.host_file import settle_host_file

        settle_host_file(options)
    if _is_arbitrary(options) and not _is_step(options):
        from pyslurm_ng.cli.submit.host_file import settle_listed_tasks

        warnings += settle_listed_tasks(options)
    warnings += _settle_nodes(options)
    _settle_tasks(options)
    _settle_gpus(options)
    _settle_licenses(options)
    _check_hosts(options)
    if 0 < options.request.get("deadline_us", 0) < options.request.get("begin_us", 0):
        raise OptionError("Incompatible begin and deadline time specification", 1)
    if options.command != "srun":
        _check_plane(options)
    else:
        warnings += _tasks_of_nodes(options)
    if _is_step(options) and "begin" in options.given:
        warnings.append("error: --begin is ignored because nodes are already allocated.")
    return warnings


def _settle_nodes(options: OptionState) -> "list[str]":
    """Reduce the nodes to the number of tasks, and the node names to the number of nodes."""
    warnings: list[str] = []
    request = options.request
    if request.get("node_list") == "" and "nodes" not in options.given:
        request["nodes_min"] = request["nodes_max"] = 0  # no names are no nodes: refused
        options.flag(REQ_NODES_SET)
    _sort_names(options)
    tasks = request.get("ntasks", 0)
    low, name_count = request.get("nodes_min", 0), _named_nodes(options)
    if not low or low < name_count <= request.get("nodes_max", 0):
        low = name_count
    if tasks and low > tasks:
        warnings.append(
            f"warning: can't run {tasks} processes on {low} nodes, setting nnodes to {tasks}"
        )
        request["nodes_min"] = tasks
        request["nodes_max"] = tasks
        if name_count > tasks:
            _keep_names(request, tasks)
        return warnings
    if name_count and not request.get("segment") and not _is_step(options):
        request["nodes_min"] = low  # as many nodes as --nodelist names
    if "nodes" in options.given:
        warnings += _settle_names(options)
    return warnings


def _tasks_of_nodes(options: OptionState) -> "list[str]":
    """Remove --ntasks-per-node where the counts of tasks and nodes say otherwise."""
    request = options.request
    tasks, nodes = request.get("ntasks", 0), request.get("nodes_min", 0)
    per_node = request.get("ntasks_per_node", 0)
    # With only a count of nodes, the job's tasks per node say how many tasks there are.
    if per_node and not tasks and nodes < request.get("nodes_max", 0) and not _is_step(options):
        request["ntasks"] = per_node * nodes  # as many as the fewest nodes have
        options.flag(REQ_NTASKS_SET)
        return []
    is_by_tasks = _source(options, "ntasks") >= _source(options, "nodes")
    if not (is_by_tasks and nodes and 0 < per_node < tasks and tasks != nodes * per_node):
        return []
    is_typed = _source(options, "ntasks") == _source(options, "ntasks-per-node") == COMMAND_LINE
    is_too_many = tasks > per_node * request.get("nodes_max", nodes)
    if is_typed and is_too_many and not _is_step(options):
        return []  # the controller refuses it
    del request["ntasks_per_node"]
    if is_typed and is_too_many:
        return []  # in a step Slurm 22.05 does not mention it
    return [
        f"warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the "
        f"requested tasks {tasks} with the number of requested nodes {nodes}. Ignoring "
        "--ntasks-per-node."
    ]


def _settle_names(options: OptionState) -> "list[str]":
    """Refuse more names than nodes; srun removes the last names and warns of it."""
    most, name_count = options.request.get("nodes_max", 0), _named_nodes(options)
    if not 0 < most < name_count or options.request.get("segment"):
        return []  # segments may be on any of the nodes of the list
    if options.command != "srun":
        raise OptionError(f"invalid number of nodes (-N {name_count}-{most})", 1)
    _keep_names(options.request, most)
    return [
        "error: Required nodelist includes more nodes than permitted by max-node count "
        f"({name_count} > {most}). Eliminating nodes from the nodelist."
    ]


def _check_plane(options: OptionState) -> None:
    """Refuse planes that fill the nodes one after the other and leave none for the last node."""
    request = options.request
    nodes = request.get("nodes_min", 0) or _named_nodes(options)
    tasks = request.get("ntasks") or request.get("ntasks_per_node", 1) * max(1, nodes)
    if "plane_size" in request and tasks <= (nodes - 1) * request["plane_size"]:
        text = "Too few processes for the requested {plane,node} distribution"
        raise OptionError(text, 1)


def _check_hosts(options: OptionState) -> None:
    """Require a list of hosts for an arbitrary distribution; a step may use that of its job."""
    layout = options.request.get("distribution", "").lower()
    if not layout.startswith("arbitrary") or _is_step(options):
        return
    if not options.request.get("node_list"):
        raise OptionError(ov.NO_HOSTS, 1)


def _sort_names(options: OptionState) -> None:
    """Write the nodes of --nodelist as Slurm shows them: each once and sorted."""
    names = options.request.get("node_list", "")
    if "," in names and not _is_arbitrary(options):
        from pyslurm_ng.cli.submit.option_names import folded

        options.request["node_list"] = folded(names)


def _keep_names(request: "dict[str, Any]", most: int) -> None:
    """Keep the first nodes of --nodelist, `most` of them."""
    from pyslurm_ng.base.hostlist import expand_unique, fold

    request["node_list"] = fold(expand_unique(request["node_list"])[:most])


def _is_arbitrary(options: OptionState) -> bool:
    return "arbitrary" in options.request.get("distribution", "").lower()


def _named_nodes(options: OptionState) -> int:
    """Return how many nodes --nodelist names; 0 if their order is that of the tasks."""
    names = options.request.get("node_list", "")
    if not names or _is_arbitrary(options):
        return 0
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return len(set(expand(names)))
    except HostlistError:
        return 0  # refused later


_MEMORY_OPTIONS = "--mem, --mem-per-cpu, and --mem-per-gpu"
_MEMORY_VARIABLES = "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE"


def _settle_memory(options: OptionState) -> None:
    """Keep one of --mem, --mem-per-cpu and --mem-per-gpu: the one of the strongest source."""
    if not options.memory:
        return
    strongest = max(options.given[name][0] for name in options.memory)
    names = [name for name in options.memory if options.given[name][0] == strongest]
    if len(names) > 1:
        text = _MEMORY_OPTIONS if strongest != ENVIRONMENT else _MEMORY_VARIABLES
        text += " are mutually exclusive."
        raise OptionError(text, 1, "fatal: ")
    fields = {"mem": "mem_per_node_mib", "mem-per-cpu": "mem_per_cpu_mib"}
    options.request[fields.get(names[0], "mem_per_gpu_mib")] = options.memory[names[0]]
    options.flag(REQ_MEM_SET)


_BESIDE_HINT = ("ntasks-per-core", "threads-per-core", "extra-node-info", "cpu-bind")


def _settle_hint(options: OptionState) -> "list[str]":
    """Leave --hint out beside options that say the same in detail; return a warning.

    The stronger source counts; of one source the details count.
    """
    if "hint" not in options.given:
        return []
    source = options.given["hint"][0]
    others = [name for name in _BESIDE_HINT if _excludes_hint(options, name)]
    strongest = max((_source(options, name) for name in others), default=-1)
    if strongest < source:
        for name in others:
            _forget(options, name)
        _apply_hint(options.request)
        return []
    _forget(options, "hint")
    if strongest > source:
        return []
    head = "warning: Following options are mutually exclusive with --hint: "
    words = "--ntasks-per-core, --threads-per-core, -B and --cpu-bind"
    if source == ENVIRONMENT:
        why = "but more than one set by environment variables. Ignoring SLURM_HINT."
        return [f"{head}{words}, {why}"]
    return [f"{head}{words} (other than --cpu-bind=verbose). Ignoring --hint."]


def _apply_hint(request: "dict[str, Any]") -> None:
    if request["hint"] != "multithread":
        request["threads_per_core"] = 1
    if request["hint"] == "memory_bound":
        request["cores_per_socket"] = 1


def _excludes_hint(options: OptionState, name: str) -> bool:
    """Return whether an option is given that says what --hint says; loudness does not."""
    if name != "cpu-bind" or name not in options.given:
        return name in options.given
    from pyslurm_ng.base.bind_words import cpu_bind

    return bool(cpu_bind(options.settings.get(name, "")).kind)


def _forget(options: OptionState, name: str) -> None:
    """Take an option out as if it had not been given."""
    options.given.pop(name)
    options.settings.pop(name, None)
    fields = _SHAPE if name == "extra-node-info" else (name.replace("-", "_"),)
    for field in fields:
        options.request.pop(field, None)


def _settle_gpus(options: OptionState) -> None:
    """Derive the GPUs of --ntasks-per-gpu, and refuse contradictory sums."""
    request = options.request
    totals = ("gpus", "gpus_per_node", "gpus_per_task")
    _check_tasks_of_gpus(options)
    # A job's variables do not have its sockets, so a step ignores the one for GPUs per socket.
    is_of_job = _is_step(options) and _source(options, "gpus-per-socket") == ENVIRONMENT
    per_socket = request.get("gpus_per_socket", "0")
    if per_socket != "0" and not request.get("sockets_per_node") and not is_of_job:
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
    """Ask for the GPUs that follow from --ntasks-per-gpu and the number of tasks."""
    request = options.request
    if not _is_step(options):
        from pyslurm_ng.cli.submit import gpu_sums

        request["gpus"] = gpu_sums.gpus_of_tasks(request)
    elif request.get("ntasks"):
        request["gpus"] = str(-(-request["ntasks"] // request["ntasks_per_gpu"]))
    options.resources.append("gpu")


def _check_tasks_of_gpus(options: OptionState) -> None:
    """Refuse --ntasks-per-gpu beside options that count tasks or GPUs in another way."""
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
    """Ask for one task on each socket, core or thread that options count, as Slurm 22.05 does.

    sbatch and salloc do so with -B, and with a count of nodes also for other options that count
    sockets, cores or threads. srun does so only with all three numbers of -B.
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
    """Return whether numbers of sockets, cores or threads count the tasks, too."""
    request = options.request
    counted_units = [name for name in _SHAPE if request.get(name)]
    if options.command == "srun":
        return "extra-node-info" in options.given and len(counted_units) == len(_SHAPE)
    if request.get("ntasks_per_node") or "hint" in options.given:
        return False
    return "extra-node-info" in options.given or bool(nodes and counted_units)


def _settle_licenses(options: OptionState) -> None:
    """Add the licences of all tasks to those of the job; a step has no licences."""
    request = options.request
    if not options.task_licenses or _is_step(options):
        return
    on_nodes = max(1, request.get("nodes_min", 0))
    per_node = request.get("ntasks_per_node", 0)
    tasks = request.get("ntasks") or (per_node * on_nodes if per_node else on_nodes)
    task_counts = {name: count * tasks for name, count in options.task_licenses}
    words = [_with_more(word, task_counts) for word in request.get("licenses", "").split(",")]
    words += [f"{name}:{count}" for name, count in task_counts.items()]
    request["licenses"] = ",".join(filter(None, words))


def _with_more(word: str, task_counts: "dict[str, int]") -> str:
    """Return a word of --licenses with the tasks' licences of this name, and remove them there."""
    name, _, count = word.replace("=", ":").partition(":")
    if name not in task_counts or (count and not count.isdecimal()):
        return word
    return f"{name}:{int(count or 1) + task_counts.pop(name)}"


def _is_step(options: OptionState) -> bool:
    has_job = "SLURM_JOB_ID" in os.environ or bool(options.settings.get("jobid"))
    return options.command == "srun" and has_job


def _source(options: OptionState, name: str) -> int:
    return options.given[name][0] if name in options.given else SCRIPT
