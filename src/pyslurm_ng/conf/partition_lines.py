"""PartitionName lines to partitions, with their nodes and all limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.lexer import ConfText, Entry
from pyslurm_ng.conf.node_lines import NodeConf, NodeSetConf, resolve_nodes
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.keys import PARTITION
from pyslurm_ng.conf.tables.records import PartitionParameters

PARTITION_TABLE = Table(
    PARTITION,
    "PartitionName",
    {
        "Shared": "OverSubscribe",
        "AllowAccount": "AllowAccounts",
        "DenyAccount": "DenyAccounts",
        "PriorityFactor": "PriorityJobFactor",
    },
)
_DEF_MEM = ("def_mem_per_cpu", "def_mem_per_node")
_FOR_GPUS = (("def_mem_per_gpu",), ("def_cpu_per_gpu",))
_MAX_MEM = ("max_mem_per_cpu", "max_mem_per_node")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConf(PartitionParameters):
    """One partition; `node_names` are its nodes in the order of slurm.conf, `nodes` the text.

    `max_time` and `default_time` are minutes; NO_VAL means that there is no default. Memory is MiB;
    0 means no limit. `over_time_limit`, `resume_timeout`, `suspend_time` and `suspend_timeout` are
    NO_VAL where the cluster's value applies. An empty list of Allow keys allows all.
    """

    node_names: tuple[str, ...]
    inherited: tuple[str, ...]  # attributes of memory and CPUs per GPU that the cluster's keys give
    file: str
    line: int

    @property
    def name(self) -> str:
        """The partition's name."""
        return self.partition_name


def build_partitions(
    text: ConfText,
    lines: list[list[Entry]],
    parameters: dict[str, Any],
    nodes: tuple[NodeConf, ...],
    nodesets: tuple[NodeSetConf, ...],
) -> tuple[PartitionConf, ...]:
    """Return the partitions in order; `parameters` are the cluster-wide values by attribute."""
    known = {node.name: index for index, node in enumerate(nodes)}
    sets = {nodeset.name: nodeset for nodeset in nodesets}
    defaults: dict[str, Any] = {}
    partitions: dict[str, PartitionConf] = {}
    alternates: list[tuple[str, Entry]] = []
    for entries in lines:
        expanded = _priority_aliases(entries)
        settings = read_line(text, expanded, PARTITION_TABLE, "a PartitionName line")
        line_values = {attribute: value for attribute, (value, _) in settings.items()}
        if "partition_name" not in settings:
            continue
        name = line_values["partition_name"]
        if name.upper() == "DEFAULT":
            defaults.update(
                {key: value for key, value in line_values.items() if key != "partition_name"}
            )
            continue
        first = entries[0]
        if name in partitions:
            text.fail(first, f"partition {name} was already given in line {partitions[name].line}")
            continue
        if not name or "," in name or "[" in name:
            text.fail(first, f"'{name}' is not the name of a partition")
            continue
        values = _fill({**defaults, **line_values}, parameters)
        entry = settings["nodes"][1] if "nodes" in settings else first
        members = resolve_nodes(text, entry, values["nodes"], nodes, known, sets)
        _check(text, first, settings, values)
        if values["default"]:
            _take_default(text, first, partitions)
        if parameters["select_type"] == "select/linear" and values["over_subscribe"] != "NO":
            entry = settings["over_subscribe"][1] if "over_subscribe" in settings else first
            text.warnings.append(
                f"{entry.file}:{entry.line}: OverSubscribe={values['over_subscribe']} means NO: "
                "with SelectType=select/linear no job shares a node here"
            )
            values["over_subscribe"] = "NO"
        _check_preempt_mode(text, settings, values, parameters)
        _drop_denied(text, settings, values)
        if values["alternate"]:
            alternates.append((values["alternate"], first))
        partitions[name] = PartitionConf(
            **values, node_names=members, file=first.file, line=first.line
        )
    for alternate, first in alternates:
        if alternate not in partitions:
            text.fail(first, f"Alternate={alternate} is not a partition")
    return tuple(partitions.values())


def _drop_denied(
    text: ConfText, settings: dict[str, tuple[Any, Entry]], values: dict[str, Any]
) -> None:
    """Leave out lists of what is denied beside lists of what is allowed, and warn of it."""
    for kind in ("accounts", "qos"):
        if not values[f"allow_{kind}"] or not values[f"deny_{kind}"]:
            continue
        values[f"deny_{kind}"] = ()
        if f"deny_{kind}" in settings:
            entry = settings[f"deny_{kind}"][1]
            text.warn(entry, f"ignored, since Allow{kind.capitalize()} is given, too")


def _priority_aliases(entries: list[Entry]) -> list[Entry]:
    """Return entries in which the two priorities of today replace the old ``Priority=``."""
    new_entries = []
    keys = {entry.key.lower() for entry in entries}
    for entry in entries:
        if entry.key.lower() == "priority":
            priority_keys = ("PriorityJobFactor", "PriorityTier")
            new_entries += [
                entry._replace(key=name) for name in priority_keys if name.lower() not in keys
            ]
        else:
            new_entries.append(entry)
    return new_entries


def _fill(line_values: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return every attribute of a partition, from its line, its defaults, or the cluster."""
    values = {**PARTITION_TABLE.defaults(), **line_values}
    inherited: tuple[str, ...] = ()
    # A partition that sets one kind of memory default or limit replaces the cluster's other kind;
    # what comes with GPUs is for jobs that have some, beside it.
    for group in (_DEF_MEM, _MAX_MEM, *_FOR_GPUS):
        is_own = any(values[name] != NO_VAL for name in group)
        inherited += () if is_own else group
        for name in group:
            if values[name] == NO_VAL:
                values[name] = 0 if is_own else parameters[name]
    values["inherited"] = inherited
    if "disable_root_jobs" not in line_values:
        values["disable_root_jobs"] = parameters["disable_root_jobs"]
    if values["alloc_nodes"].upper() == "ALL":
        values["alloc_nodes"] = ""
    if not values["preempt_mode"]:
        values["preempt_mode"] = parameters["preempt_mode"]
    if values["over_subscribe"] == "EXCLUSIVE":
        values["over_subscribe"] = "NO"
        values["exclusive"] = "NODE"
    elif parameters["select_type"] == "select/linear" and values["over_subscribe"] == "NO":
        values["exclusive"] = "NODE"  # each job has its nodes to itself
    elif values["exclusive"] == "NO" and values["exclusive_user"]:
        values["exclusive"] = "USER"
    elif values["exclusive"] == "NO" and values["exclusive_topo"]:
        values["exclusive"] = "TOPO"
    return values


def _check_preempt_mode(
    text: ConfText,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
    parameters: dict[str, Any],
) -> None:
    """Add an error if a partition has two modes, or SUSPEND without gang scheduling."""
    if "preempt_mode" not in settings:
        return
    words = set(values["preempt_mode"])
    entry = settings["preempt_mode"][1]
    if len(words & {"OFF", "CANCEL", "REQUEUE", "SUSPEND"}) > 1:
        text.fail(entry, "allowed: one of OFF, CANCEL, REQUEUE and SUSPEND")
    if "SUSPEND" in words and "GANG" not in parameters["preempt_mode"]:
        text.fail(entry, "SUSPEND needs GANG in the PreemptMode of the cluster")


def _take_default(text: ConfText, entry: Entry, partitions: dict[str, PartitionConf]) -> None:
    """Let the last default partition be the only one, as Slurm does."""
    for name, other in partitions.items():
        if other.default:
            partitions[name] = replace(other, default=False)
            text.warnings.append(
                f"{entry.file}:{entry.line}: Default: also of partition {name} in line "
                f"{other.line}; this one counts"
            )


def _check(
    text: ConfText,
    entry: Entry,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
) -> None:
    if values["min_nodes"] > values["max_nodes"]:
        text.fail(entry, f"MinNodes={values['min_nodes']} exceeds MaxNodes={values['max_nodes']}")
    limit, default = values["max_time"], values["default_time"]
    if INFINITE != limit < default and default not in (NO_VAL, INFINITE):
        times = plural(default, "minute"), plural(limit, "minute")
        text.fail(entry, "DefaultTime of {} exceeds MaxTime of {}".format(*times))
    for kind in ("def", "max"):
        per_cpu, per_node = f"{kind}_mem_per_cpu", f"{kind}_mem_per_node"
        if values[per_cpu] and values[per_node]:
            if per_cpu in settings:  # else it is the cluster's, which is named there
                name = f"{kind.capitalize()}MemPerCPU"
                text.warn(settings[per_cpu][1], per_node_counts(name))
            values[per_cpu] = 0


def per_node_counts(name: str) -> str:
    """Return the warning about memory for each CPU where memory for each node is given, too."""
    return f"ignored, since {name.removesuffix('CPU')}Node is given, too"
