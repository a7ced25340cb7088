"""The node of each task, for --distribution=arbitrary: SLURM_HOSTFILE or --nodelist."""

import os

from pyslurm_ng.base.input_files import read_whole
from pyslurm_ng.base.numbers import REQ_NTASKS_SET
from pyslurm_ng.cli.option_words import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState

_NO_NAMES = "Failure getting NodeNames from hostfile"


def settle_host_file(options: "OptionState") -> None:
    """Take nodes and tasks from the file that SLURM_HOSTFILE names, unless --nodelist is given.

    The file counts with every --distribution, for jobs and for steps.

    Raises:
        OptionError: the file cannot be read, or names too few nodes for the tasks.
    """
    path = os.environ.get("SLURM_HOSTFILE", "")
    request = options.request
    if not path or "nodelist" in options.given or "nodefile" in options.given:
        return
    names = _within(read_names(path), request.get("nodes_max", 0))
    tasks = request.get("ntasks", 0) or len(names)
    if tasks > len(names):
        raise OptionError(f"Too few NodeNames in Slurm Hostfile\n{_NO_NAMES}", 1)
    request["distribution"] = "arbitrary"
    request["node_list"] = ",".join(names[:tasks])
    request["ntasks"] = tasks
    options.flag(REQ_NTASKS_SET)


def settle_listed_tasks(options: "OptionState") -> "list[str]":
    """Take the counts of tasks and nodes from a --nodelist that names the node of each task.

    srun starts a task for each name, sbatch and salloc count one for each node. Returns warnings.

    Raises:
        OptionError: the list has more nodes than --nodes allows.
    """
    from pyslurm_ng.base.hostlist import HostlistError, expand

    request, is_srun = options.request, options.command == "srun"
    try:
        names = expand(request.get("node_list", ""))
    except HostlistError:
        return []  # refused later
    if not names:
        return []
    most, nodes = request.get("nodes_max", 0), len(set(names))
    if 0 < most < nodes and not is_srun:
        raise OptionError(f"invalid number of nodes (-N {nodes}-{most})", 1)
    tasks = request.get("ntasks", 0) or (len(names) if is_srun else nodes)
    request["ntasks"] = tasks
    options.flag(REQ_NTASKS_SET)
    if tasks >= nodes:
        request["nodes_min"] = max(request.get("nodes_min", 0), nodes)
        return []
    # As many of the first nodes as there are tasks.
    request["node_list"] = ",".join([*dict.fromkeys(names)][:tasks])
    request["nodes_min"] = request["nodes_max"] = tasks
    return [f"warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"]


def read_names(path: str) -> "list[str]":
    """Return the names in a file: a list on each line, `n1*3` for n1 three times, `#` comments.

    Raises:
        OptionError: the file cannot be read or names no node, or a line is no list of nodes.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            lines = read_whole(stream).split("\n")
    except OSError as problem:
        text = f"slurm_allocate_resources error opening file {path}, {problem.strerror}"
        raise OptionError(f"{text}\n{_NO_NAMES}", 1) from None
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].strip()
        line_names = _names(words)
        if line_names is None or len(names) + len(line_names) > _most_names():
            raise OptionError(f"Invalid hostfile {path} contents on line {number}\n{_NO_NAMES}", 1)
        names += line_names
    if not names:
        raise OptionError(f"Hostlist is empty!\n{_NO_NAMES}", 1)
    return names


def _most_names() -> int:
    from pyslurm_ng.base.hostlist import MAX_HOSTS

    return MAX_HOSTS


def _names(line: str) -> "list[str] | None":
    """Return the names of a line, None if it is no list of nodes."""
    from pyslurm_ng.base.hostlist import HostlistError, count, expand
    from pyslurm_ng.base.units import whole_number

    words, star, times_text = line.partition("*")
    times = whole_number(times_text.strip()) if star else 1
    if not line:
        return []
    if not times or len(words.split()) != 1 or not line.isascii():
        return None
    try:
        if count(words) * times > _most_names():
            return None
        return expand(words.strip()) * times
    except HostlistError:
        return None


def _within(names: "list[str]", most_nodes: int) -> "list[str]":
    """Return names as long as they are of `most_nodes` nodes or fewer; 0 means no limit."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        seen.add(name)
        if 0 < most_nodes < len(seen):
            return names[:index]
    return names
