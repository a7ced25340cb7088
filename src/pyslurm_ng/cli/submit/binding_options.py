"""--cpu-bind and --mem-bind: reading, help, and the variables for a step's tasks."""

from pyslurm_ng.base import bind_words
from pyslurm_ng.base.bind_words import BindWords, BindWordsError
from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState

_CPU_HELP = """\
CPU bind options:
    --cpu-bind=         Bind tasks to CPUs
        q[uiet]         bind and print nothing (default)
        v[erbose]       print each task's CPUs before it begins
        no[ne]          do not bind
        rank            task N of a node gets CPU N
        map_cpu:<list>  a CPU for each task: <cpu1>,<cpu2>,...
        mask_cpu:<list> a mask of CPUs for each task: <mask1>,<mask2>,...
        rank_ldom       task N of a node gets NUMA node N
        map_ldom:<list> a NUMA node for each task: <node1>,<node2>,...
        mask_ldom:<list>a mask of NUMA nodes for each task: <mask1>,<mask2>,...
        sockets         to the sockets of the task's CPUs
        cores           to the cores of the task's CPUs
        threads         to the task's CPUs
        ldoms           to the NUMA nodes of the task's CPUs
        one_thread      with the four above: one thread of each core
        help            show this
"""
_MEM_HELP = """\
Memory bind options:
    --mem-bind=         Bind memory to NUMA nodes
        q[uiet]         bind and print nothing (default)
        v[erbose]       print each task's NUMA nodes before it begins
        no[ne]          do not bind (default)
        local           memory of the NUMA node that the task runs on
        rank            task N of a node gets NUMA node N
        map_mem:<list>  a NUMA node for each task: <node1>,<node2>,...
        mask_mem:<list> a mask of NUMA nodes for each task: <mask1>,<mask2>,...
        p[refer]        prefer the first of these nodes, but allow others
        sort, nosort    sort free pages, or not; without effect
        help            show this
"""
_OF_HINTS = {
    "compute_bound": "cores", "memory_bound": "cores", "multithread": "threads",
    "nomultithread": "threads",
}  # fmt: skip


def read(options: "OptionState", name: str, value: str) -> None:
    """Read one of the two options.

    Raises:
        OptionError: a word is unknown.
        HelpRequested: the value asks for help.
    """
    is_cpu = name.startswith("cpu")
    if not value and not is_cpu:
        raise OptionError(f'unrecognized --{name} argument ""')
    try:
        words = bind_words.cpu_bind(value) if is_cpu else bind_words.mem_bind(value)
    except BindWordsError as error:
        if is_cpu:
            raise OptionError(f"{error}\nfatal: Failed to parse --cpu-bind= values.", 1) from None
        raise OptionError(str(error)) from None
    if words.is_help:  # as in Slurm, an option that asks for help counts as one that failed
        options.tell(*((_CPU_HELP, 1) if is_cpu else (_MEM_HELP, 255)))
    options.settings["cpu-bind" if is_cpu else "mem-bind"] = words.text()


def without_step_masks(environment: "dict[str, str]") -> "dict[str, str]":
    """Return the variables without a SLURM_CPU_BIND that the node of a step has set.

    Such masks are for the tasks of that step. If a task starts an srun, that srun binds its own
    tasks. A value that the user has set stays.
    """
    name = "SLURM_CPU_BIND"
    known = "".join(environment.get(f"{name}_{part}", "") for part in ("TYPE", "LIST"))
    is_from_node = known.startswith("mask_cpu:0x") and environment.get(name, "").endswith(
        f",{known}"
    )
    if not is_from_node or "SLURM_STEP_ID" not in environment:
        return environment
    return {key: value for key, value in environment.items() if key != name}


def step_cpu_bind(options: "OptionState") -> BindWords:
    """Return how the tasks of a step are bound, from all options about binding."""
    request = options.request
    words = bind_words.cpu_bind(options.settings.get("cpu-bind", ""))
    hint = request.get("hint", "")
    if words.kind:
        return words
    if hint:
        words.kind = _OF_HINTS[hint]
        if hint == "nomultithread":
            words.flags.add("one_thread")
    elif request.get("threads_per_core"):
        words.kind = "threads"
    elif request.get("ntasks_per_core") or request.get("cores_per_socket"):
        words.kind = "cores"
    elif request.get("ntasks_per_socket") or request.get("sockets_per_node"):
        words.kind = "sockets"
    return words


def cpu_bind_variables(options: "OptionState") -> "dict[str, str]":
    """Return SLURM_CPU_BIND and its parts as srun sets them; a node that binds changes them."""
    return _variables("SLURM_CPU_BIND", bind_words.cpu_bind(options.settings.get("cpu-bind", "")))


def mem_bind_variables(options: "OptionState") -> "dict[str, str]":
    """Return SLURM_MEM_BIND and its parts; {} without --mem-bind."""
    text = options.settings.get("mem-bind", "")
    if not text:
        return {}
    words = bind_words.mem_bind(text)
    variables = _variables("SLURM_MEM_BIND", words)
    return variables | ({"SLURM_MEM_BIND_PREFER": "prefer"} if "prefer" in words.flags else {})


def _variables(name: str, words: BindWords) -> "dict[str, str]":
    return {
        name: words.text(),
        f"{name}_LIST": words.list_text,
        f"{name}_TYPE": words.kind_text,
        f"{name}_VERBOSE": words.loudness,
    }
