"""The fields of sinfo: heading, how nodes are grouped, and how a group is shown."""

from pyslurm_ng.base.hostlist import fold, sort_key
from pyslurm_ng.base.numbers import (
    NO_VAL,
    NODE_ALLOCATED,
    NODE_FLAG_COMPLETING,
    NODE_FLAG_DRAIN,
    NODE_FLAG_FAIL,
    NODE_FLAG_POWERED_DOWN,
    NODE_IDLE,
    NODE_MIXED,
)
from pyslurm_ng.base.state_names import node_state_full, node_state_words
from pyslurm_ng.cli.listing.list_format import Dates, count_text, short_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = dict[str, Any]

_OUT = NODE_FLAG_DRAIN | NODE_FLAG_FAIL | NODE_FLAG_POWERED_DOWN


class Group:
    """One line: nodes that agree in all fields shown, of one partition or merged over several."""

    def __init__(self, partition: "Row", context: "Context") -> None:
        self.partition = partition
        self.context = context
        self.nodes: list[Row] = []
        self.names: set[str] = set()

    def add(self, node: "Row") -> None:
        """Add a node, unless another partition has added it."""
        if node["name"] not in self.names:
            self.names.add(node["name"])
            self.nodes.append(node)


class Context:
    """What fields need besides the records."""

    def __init__(self, now_us: int, cluster_name: str, preempt_mode: str, exact: bool) -> None:
        self.cluster_name = cluster_name
        self.preempt_mode = preempt_mode
        self.exact = exact
        self.dates = Dates(now_us)


# What a group shows ---------------------------------------------------------------------------


def _first(name: str, empty: str = "(null)") -> "Callable[[Group], str | int]":
    """Show a field that all nodes of a group agree in."""

    def show(group: Group) -> "str | int":
        return (group.nodes[0][name] or empty) if group.nodes else "n/a"

    return show


def _least(name: str) -> "Callable[[Group], str | int]":
    """Show a number, with a plus sign when nodes have different ones."""

    def show(group: Group) -> "str | int":
        if not group.nodes:
            return 0
        numbers = [node[name] for node in group.nodes]
        low = min(numbers)
        return f"{low}+" if max(numbers) > low else low

    return show


def _range(values: "list[int]", text: "Callable[[int], str]") -> str:
    known = [value for value in values if value >= 0]
    if not known:
        return "N/A"
    low, high = min(known), max(known)
    return text(low) if low == high else f"{text(low)}-{text(high)}"


def _load(group: Group) -> str:
    return _range(
        [node["cpu_load_hundredths"] for node in group.nodes],
        lambda load: f"{load // 100}.{load % 100:02d}",
    )


def _free_mem(group: Group) -> str:
    return _range([node["free_mem_mib"] for node in group.nodes], str)


def _state_long(group: Group) -> str:
    if not group.nodes:
        return "n/a"
    return node_state_words(group.nodes[0]["state"], group.nodes[0]["flags"])[0]


def _state_compact(group: Group) -> str:
    if not group.nodes:
        return "n/a"
    return node_state_words(group.nodes[0]["state"], group.nodes[0]["flags"])[1]


def _state_complete(group: Group) -> str:
    if not group.nodes:
        return "n/a"
    return node_state_full(group.nodes[0]["state"], group.nodes[0]["flags"]).lower()


def is_allocated(node: "Row") -> bool:
    """Return whether a node counts as allocated: jobs run or clean up there."""
    is_busy = node["state"] in (NODE_ALLOCATED, NODE_MIXED)
    return is_busy or bool(node["flags"] & NODE_FLAG_COMPLETING)


def is_idle(node: "Row") -> bool:
    """Return whether a node counts as idle: free and in service."""
    return node["state"] == NODE_IDLE and not node["flags"] & _OUT and not is_allocated(node)


def node_counts(group: Group) -> "tuple[int, int, int, int]":
    """Return the nodes allocated, idle, other, and all."""
    allocated = sum(1 for node in group.nodes if is_allocated(node))
    idle = sum(1 for node in group.nodes if is_idle(node))
    total = len(group.nodes)
    return allocated, idle, total - allocated - idle, total


def cpu_counts(group: Group) -> "tuple[int, int, int, int]":
    """Return the CPUs allocated, idle, other, and all."""
    allocated = idle = total = 0
    for node in group.nodes:
        allocated += node["cpus_alloc"]
        total += node["cpus"]
        if node["state"] in (NODE_IDLE, NODE_ALLOCATED, NODE_MIXED) and not node["flags"] & _OUT:
            idle += node["cpus_effective"] - node["cpus_alloc"]
    return allocated, idle, total - allocated - idle, total


def _nodes_ai(group: Group) -> str:
    allocated, idle, _, _ = node_counts(group)
    return f"{count_text(allocated)}/{count_text(idle)}"


def _nodes_aiot(group: Group) -> str:
    return "/".join(count_text(count) for count in node_counts(group))


def _cpus_aiot(group: Group) -> str:
    return "/".join(count_text(count) for count in cpu_counts(group))


def _count(group: Group) -> int:
    return len(group.nodes)


def _folded(name: str) -> "Callable[[Group], str]":
    def show(group: Group) -> str:
        return fold(sorted((node[name] for node in group.nodes), key=sort_key))

    return show


def _sct(group: Group) -> str:
    return ":".join(str(_least(name)(group)) for name in ("sockets", "cores", "threads"))


def _reason(group: Group) -> str:
    return (group.nodes[0]["reason"] or "none") if group.nodes else "none"


def _user(group: Group) -> str:
    from pyslurm_ng.cli.command import user_name

    node = group.nodes[0] if group.nodes else None
    return user_name(node["reason_uid"]) if node and node["reason_us"] else "Unknown"


def _user_long(group: Group) -> str:
    from pyslurm_ng.cli.command import user_name

    node = group.nodes[0] if group.nodes else None
    if not node or not node["reason_us"]:
        return "Unknown"
    return f"{user_name(node['reason_uid'])}({node['reason_uid']})"


def _time_stamp(group: Group) -> str:
    when_us = group.nodes[0]["reason_us"] if group.nodes else 0
    return group.context.dates.text(when_us, "Unknown")


# Partitions -----------------------------------------------------------------------------------


def partition_text(partition: "Row") -> str:
    """Return the name, with a star for the default."""
    return f"{partition['name']}*" if partition["is_default"] else str(partition["name"])


_AVAILABLE = {"UP": "up", "DOWN": "down", "DRAIN": "drain", "INACTIVE": "inactive"}


def limit_text(minutes: int) -> str:
    """Return a limit as sinfo prints it: `infinite` for none, `n/a` when not set."""
    if minutes == NO_VAL:
        return "n/a"
    return "infinite" if minutes > NO_VAL else short_limit(minutes)


def size_text(partition: "Row") -> str:
    """Return the nodes a job may have: `1-infinite`, `2-4`, `1`."""
    low, high = max(partition["min_nodes"], 1), partition["max_nodes"]
    if high >= NO_VAL:
        return f"{low}-infinite"
    return str(low) if low == high else f"{low}-{high}"


def _of_partition(show: "Callable[[Row], str | int]") -> "Callable[[Group], str | int]":
    return lambda group: show(group.partition)


def _oversubscribe(partition: "Row") -> str:
    if partition["exclusive"] == "NODE":
        return "EXCLUSIVE"
    return str(partition["oversubscribe"])


def _preempt_mode(group: Group) -> str:
    return str(group.partition["preempt_mode"] or group.context.preempt_mode)


# Kinds of field: a value of the whole group, of the partition, one for each group, merged unless
# --exact.
TOTAL, PARTITION, OWN, MERGED = "total", "partition", "own", "merged"
Field = tuple[str, str, str, tuple[str, ...], "Callable[[Group], str | int]"]
_STATE = ("state", "flags")

# Letter or "", heading, kind, record fields, how it is shown; by lower-case long name.
FIELDS: "dict[str, Field]" = {
    "allocmem": ("", "ALLOCMEM", MERGED, ("memory_alloc_mib",), _least("memory_alloc_mib")),
    "allocnodes": ("S", "ALLOCNODES", PARTITION, ("alloc_nodes",),
                   _of_partition(lambda row: row["alloc_nodes"] or "all")),
    "available": ("a", "AVAIL", PARTITION, ("state",),
                  _of_partition(lambda row: _AVAILABLE[row["state"]])),
    "cluster": ("V", "CLUSTER", TOTAL, (), lambda group: group.context.cluster_name or "N/A"),
    "comment": ("", "COMMENT", OWN, ("comment",), _first("comment")),
    "cores": ("Y", "CORES", MERGED, ("cores",), _least("cores")),
    "cpus": ("c", "CPUS", MERGED, ("cpus",), _least("cpus")),
    "cpusload": ("O", "CPU_LOAD", MERGED, ("cpu_load_hundredths",), _load),
    "cpusstate": ("C", "CPUS(A/I/O/T)", TOTAL, ("cpus", "cpus_alloc", "cpus_effective"),
                  _cpus_aiot),
    "defaulttime": ("L", "DEFAULTTIME", PARTITION, ("default_time_min",),
                    _of_partition(lambda row: limit_text(row["default_time_min"]))),
    "disk": ("d", "TMP_DISK", MERGED, ("tmp_disk_mib",), _least("tmp_disk_mib")),
    "extra": ("", "EXTRA", OWN, ("extra",), _first("extra")),
    "features": ("f", "AVAIL_FEATURES", OWN, ("features",), _first("features")),
    "features_act": ("b", "ACTIVE_FEATURES", OWN, ("active_features",),
                     _first("active_features")),
    "freemem": ("e", "FREE_MEM", MERGED, ("free_mem_mib",), _free_mem),
    "gres": ("G", "GRES", OWN, ("gres",), _first("gres")),
    "gresused": ("", "GRES_USED", OWN, ("gres_used",), _first("gres_used")),
    "groups": ("g", "GROUPS", PARTITION, ("allow_groups",),
               _of_partition(lambda row: ",".join(row["allow_groups"]) or "all")),
    "maxcpuspernode": ("B", "MAX_CPUS_PER_NODE", PARTITION, ("max_cpus_per_node",),
                       _of_partition(lambda row: "UNLIMITED"
                                     if row["max_cpus_per_node"] >= NO_VAL
                                     else row["max_cpus_per_node"])),
    "memory": ("m", "MEMORY", MERGED, ("memory_mib",), _least("memory_mib")),
    "nodeaddr": ("o", "NODE_ADDR", OWN, ("address",), _first("address")),
    "nodeai": ("A", "NODES(A/I)", TOTAL, (), _nodes_ai),
    "nodeaiot": ("F", "NODES(A/I/O/T)", TOTAL, (), _nodes_aiot),
    "nodehost": ("n", "HOSTNAMES", OWN, ("hostname",), _folded("hostname")),
    "nodelist": ("N", "NODELIST", TOTAL, (), _folded("name")),
    "nodes": ("D", "NODES", TOTAL, (), _count),
    "oversubscribe": ("h", "OVERSUBSCRIBE", PARTITION, ("oversubscribe", "exclusive"),
                      _of_partition(_oversubscribe)),
    "partition": ("P", "PARTITION", PARTITION, ("name", "is_default"),
                  _of_partition(partition_text)),
    "partitionname": ("R", "PARTITION", PARTITION, ("name",),
                      _of_partition(lambda row: row["name"])),
    "port": ("", "PORT", OWN, ("port",), _first("port")),
    "preemptmode": ("M", "PREEMPT_MODE", PARTITION, ("preempt_mode",), _preempt_mode),
    "priorityjobfactor": ("I", "PRIO_JOB_FACTOR", PARTITION, ("priority_job_factor",),
                          _of_partition(lambda row: row["priority_job_factor"])),
    "prioritytier": ("p", "PRIO_TIER", PARTITION, ("priority_tier",),
                     _of_partition(lambda row: row["priority_tier"])),
    "reason": ("E", "REASON", OWN, ("reason",), _reason),
    "reservation": ("i", "RESERVATION", OWN, ("reservation",), _first("reservation", "")),
    "root": ("r", "ROOT", PARTITION, ("root_only",),
             _of_partition(lambda row: "yes" if row["root_only"] else "no")),
    "size": ("s", "JOB_SIZE", PARTITION, ("min_nodes", "max_nodes"), _of_partition(size_text)),
    "sockets": ("X", "SOCKETS", MERGED, ("sockets",), _least("sockets")),
    "socketcorethread": ("z", "S:C:T", MERGED, ("sockets", "cores", "threads"), _sct),
    "statecompact": ("t", "STATE", OWN, _STATE, _state_compact),
    "statecomplete": ("", "STATECOMPLETE", OWN, _STATE, _state_complete),
    "statelong": ("T", "STATE", OWN, _STATE, _state_long),
    "threads": ("Z", "THREADS", MERGED, ("threads",), _least("threads")),
    "time": ("l", "TIMELIMIT", PARTITION, ("max_time_min",),
             _of_partition(lambda row: limit_text(row["max_time_min"]))),
    "timestamp": ("H", "TIMESTAMP", OWN, ("reason_us",), _time_stamp),
    "user": ("u", "USER", OWN, ("reason_uid", "reason_us"), _user),
    "userlong": ("U", "USER", OWN, ("reason_uid", "reason_us"), _user_long),
    "version": ("v", "VERSION", OWN, ("version",), _first("version", "N/A")),
    "weight": ("w", "WEIGHT", MERGED, ("weight",), _least("weight")),
}  # fmt: skip
FIELDS["share"] = FIELDS["oversubscribe"]
BY_LETTER = {field[0]: name for name, field in FIELDS.items() if field[0]}
BY_LETTER["h"] = "oversubscribe"
ALL_LETTERS = "".join(sorted(BY_LETTER, key=lambda letter: (letter.isupper(), letter.lower())))
# Fields that are always read of every node.
ALWAYS = ("name", "node_id", "state", "flags", "is_planned", "is_blocked", "cpus",
          "cpus_alloc", "cpus_effective", "reason", "reason_us")  # fmt: skip
