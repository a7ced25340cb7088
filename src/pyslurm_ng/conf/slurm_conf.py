"""slurm.conf (or slurm.toml) to one frozen, typed, checked configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyslurm_ng.base.address import host_and_port
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.base.tres import BUILTIN_TRES, TresError, tres_name
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.effects.effect import gaps
from pyslurm_ng.conf.effects.needs import lonely_words
from pyslurm_ng.conf.lexer import (
    ConfError,
    ConfErrors,
    ConfText,
    Entry,
    parse_text,
    parse_words,
    read_conf,
)
from pyslurm_ng.conf.node_lines import (
    DownNodesConf,
    NodeConf,
    NodeSetConf,
    build_down_nodes,
    build_nodes,
    build_nodesets,
)
from pyslurm_ng.conf.old_words import moved_word, with_todays_words
from pyslurm_ng.conf.out_of_bounds import within_bounds
from pyslurm_ng.conf.partition_lines import PartitionConf, build_partitions, per_node_counts
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.key import ControllerHost, Key
from pyslurm_ng.conf.tables.keys import PARAMETERS, POWERACTION
from pyslurm_ng.conf.tables.records import SlurmParameters
from pyslurm_ng.conf.toml_text import read_toml
from pyslurm_ng.conf.values import (
    BadValue,
    convert,
    near_option,
    option_int,
    option_text,
    unknown_options,
)

__all__ = [
    "PARAMETER_TABLE",
    "ConfError",
    "ConfErrors",
    "DownNodesConf",
    "NodeConf",
    "NodeSetConf",
    "PartitionConf",
    "PowerActionConf",
    "SlurmConf",
    "load_slurm_conf",
    "parse_slurm_conf",
    "read_slurm_conf",
]

PARAMETER_TABLE = Table(
    PARAMETERS,
    "slurm.conf",
    {
        "JobContainerType": "NamespaceType",
        "JobContainerPlugin": "NamespaceType",
        "UseSpecResources": "AllowSpecResourcesUsage",
    },
)
_POWERACTION_TABLE = Table(POWERACTION, "PowerAction")
LINE_KINDS = ("nodename", "partitionname", "nodeset", "downnodes", "poweraction")
# Each of these may stand in several lines, which add up.
_REPEATABLE = ("SlurmctldHost", "Prolog", "Epilog")

# Keys that Slurm once had. As with Slurm, a site's file must not stop working because of them.
_REMOVED = {
    name.lower(): hint
    for name, hint in {
        "AccountingStorageLoc": "the database is named in slurmdbd.conf",
        "AccountingStoreJobComment": "use AccountingStoreFlags=job_comment",
        "AcctGatherFilesystemFreq": "use JobAcctGatherFrequency",
        "AcctGatherInfinibandType": "use AcctGatherInterconnectType",
        "BackupAddr": "use SlurmctldHost",
        "BackupController": "use SlurmctldHost",
        "CacheGroups": "",
        "ChosLoc": "",
        "CheckpointType": "",
        "ControlAddr": "use SlurmctldHost=name(address)",
        "ControlMachine": "use SlurmctldHost",
        "CoreSpecPlugin": "",
        "CryptoType": "use CredType",
        "DefaultStorageHost": "",
        "DefaultStorageLoc": "",
        "DefaultStoragePass": "",
        "DefaultStoragePort": "",
        "DefaultStorageType": "",
        "DefaultStorageUser": "",
        "DynAllocPort": "",
        "ExtSensorsFreq": "",
        "ExtSensorsType": "",
        "FastSchedule": "use SlurmdParameters=config_overrides",
        "GetEnvTimeout": "",
        "JobCheckpointDir": "",
        "JobCredentialPrivateKey": "",
        "JobCredentialPublicCertificate": "",
        "KeepAliveTime": "use CommunicationParameters=keepalivetime",
        "LaunchType": "",
        "LayoutsType": "",
        "Layouts": "",
        "MemLimitEnforce": "use JobAcctGatherParams=OverMemoryKill",
        "MsgAggregationParams": "",
        "PowerParameters": "",
        "PowerPlugin": "",
        "RoutePlugin": "use TopologyParam",
        "SallocDefaultCommand": "use LaunchParameters=use_interactive_step",
        "SbcastParameters": "use BcastParameters",
        "SchedulerAuth": "",
        "SchedulerPort": "",
        "SchedulerRootFilter": "",
        "SlurmctldPlugstack": "",
        "SrunIOTimeout": "",
        "TaskPluginParams": "use TaskPluginParam",
    }.items()
}

# Keys that Slurm once had and that cannot be ignored: the cluster would have other nodes.
_REFUSED = {
    "frontendname": "front ends no longer exist: each node runs a slurmd of its own, or several "
    "nodes share a NodeHostname",
}

# As in Slurm, these still count in a file without the key that replaced them.
_AS_BEFORE = dict.fromkeys(("controlmachine", "controladdr"), "counts without SlurmctldHost")
_USUAL_OF_REMOVED = {"fastschedule": "1"}
"""Values of removed keys that say what is so without them: they need no successor."""


class PowerActionConf(NamedTuple):
    """A PowerAction: a program with a name, run by the controller or the node."""

    name: str
    program: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConf(SlurmParameters):
    """A whole slurm.conf; every key is an attribute in snake case, with its default filled in.

    Numbers keep the unit of the key: seconds, also for durations such as `priority_max_age`, unless
    its name or Slurm's manual says otherwise; memory is MiB. NO_VAL means unset, INFINITE
    unlimited. `given` holds the names that the file sets.
    """

    path: str
    files: tuple[str, ...]
    text_hash: str
    nodes: tuple[NodeConf, ...]
    partitions: tuple[PartitionConf, ...]
    nodesets: tuple[NodeSetConf, ...]
    down_nodes: tuple[DownNodesConf, ...]
    power_actions: tuple[PowerActionConf, ...]
    given: frozenset[str]
    warnings: tuple[str, ...]

    def tracked_tres(self) -> tuple[str, ...]:
        """Return the TRES the cluster counts, in Slurm's order of ids."""
        names = list(BUILTIN_TRES)
        for word in self.accounting_storage_tres:
            name = tres_name(word)
            if name not in names:
                names.append(name)
        if "gres/gpu" in names:
            names += [name for name in ("gres/gpumem", "gres/gpuutil") if name not in names]
        return tuple(names)


def load_slurm_conf(path: str) -> SlurmConf:
    """Read and check a slurm.conf, or a slurm.toml by its suffix.

    Raises:
        ConfErrors: with every problem found, in the order of the file.
    """
    conf, errors = read_slurm_conf(path)
    if conf is None:
        raise ConfErrors(errors)
    return conf


def read_slurm_conf(path: str) -> tuple[SlurmConf | None, list[ConfError]]:
    """Return the configuration, or None and everything that is wrong with it."""
    return _build(read_lines(path))


def read_lines(path: str) -> ConfText:
    """Return the lines of a slurm.conf and what it includes, or of a slurm.toml."""
    return read_toml(path) if path.endswith(".toml") else read_conf(path)


def changed_slurm_conf(path: str, settings: Sequence[str], source: str) -> SlurmConf:
    """Read a configuration in which some lines replace those of the same key.

    A line of nodes or partitions replaces the one of the same name, in whichever file.

    Args:
        source: what errors in `settings` name instead of a file.

    Raises:
        ConfErrors: with every problem found.
    """
    text = read_lines(path)
    fresh = [parse_words(setting, source) for setting in settings]
    lines = [line for text in fresh for line in text.lines]
    subjects = {subject for line in lines for subject in _subjects(line)}
    for number, entries in enumerate(text.lines):
        pairs = zip(entries, _subjects(entries), strict=True)
        text.lines[number] = [entry for entry, subject in pairs if subject not in subjects]
    text.lines = [*filter(None, text.lines), *lines]
    text.errors += [error for text in fresh for error in text.errors]
    conf, errors = _build(text)
    if conf is None:
        raise ConfErrors(errors)
    return conf


def _subjects(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Return the subject of each entry: its key, or for a line of nodes or the like their names."""
    first = entries[0].key.lower()
    if first in LINE_KINDS:
        return [(first, entries[0].value.lower())] * len(entries)
    return [(entry.key.lower(), "") for entry in entries]


def parse_slurm_conf(text: str, path: str = "slurm.conf") -> SlurmConf:
    """Read a configuration given as a string, as tests and the simulator do.

    Raises:
        ConfErrors: with every problem found.
    """
    conf, errors = _build(parse_text(text, path))
    if conf is None:
        raise ConfErrors(errors)
    return conf


def _build(text: ConfText) -> tuple[SlurmConf | None, list[ConfError]]:
    by_kind: dict[str, list[list[Entry]]] = {kind: [] for kind in LINE_KINDS}
    plain: list[Entry] = []
    for entries in text.lines:
        kind = entries[0].key.lower()
        if kind in by_kind:
            by_kind[kind].append(entries)
        else:
            plain.extend(entries)
    warnings: list[str] = []
    values, given_entries = _parameters(text, plain, warnings)
    nodes = build_nodes(text, by_kind["nodename"], values["slurmd_port"], values["gres_types"])
    nodesets = build_nodesets(text, by_kind["nodeset"], nodes)
    down_nodes = build_down_nodes(text, by_kind["downnodes"], nodes)
    partitions = build_partitions(text, by_kind["partitionname"], values, nodes, nodesets)
    actions = _power_actions(text, by_kind["poweraction"])
    _derive(values, len(nodes))
    if text.files:  # a file that cannot be read is not also reported as incomplete
        _check(text, values, given_entries, nodes)
    if text.errors:
        order = {file: index for index, file in enumerate(text.files)}
        text.errors.sort(key=lambda error: (order.get(error.file, -1), error.line))
        return None, text.errors
    if "SlurmctldParameters" in given_entries:
        entry = given_entries["SlurmctldParameters"]
        warnings += [
            f"{entry.file}:{entry.line}: SlurmctldParameters: {line}"
            for line in lonely_words(values["slurmctld_parameters"], values["slurmd_timeout"])
        ]
    if "Licenses" in given_entries:
        values["licenses"] = _own_licenses(text, given_entries["Licenses"], values["licenses"])
    warnings += _only_backfill(text.path, values, partitions)
    warnings += text.warnings
    conf = SlurmConf(
        **values,
        path=text.path,
        files=tuple(text.files),
        text_hash=text.text_hash,
        nodes=nodes,
        partitions=partitions,
        nodesets=nodesets,
        down_nodes=down_nodes,
        power_actions=actions,
        given=frozenset(given_entries),
        warnings=tuple(warnings),
    )
    return conf, []


def _only_backfill(
    path: str, values: dict[str, Any], partitions: tuple[PartitionConf, ...]
) -> list[str]:
    """Return a warning for each key about sharing or preemption that sched/builtin ignores."""
    if values["scheduler_type"] != "sched/builtin":
        return []
    why = "has no effect with SchedulerType=sched/builtin"
    warnings = (
        [f"{path}: PreemptType={values['preempt_type']} {why}"] if values["preempt_type"] else []
    )
    names = [
        partition.partition_name
        for partition in partitions
        if partition.over_subscribe.startswith(_SHARING)
    ]
    if names:
        warnings.append(f"{path}: OverSubscribe of partition {', '.join(names)} {why}")
    return warnings


_CONS = ("select/cons_tres", "select/cons_res")
_SHARING = ("YES", "FORCE")
_MOST_OF_SCRIPT = 512 << 20  # as Slurm has it, of max_script_size


def _own_licenses(
    text: ConfText, entry: Entry, licenses: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """Return the cluster's own licences: NAME@SERVER are those that slurmdbd gives."""
    for name in (name for name, _ in licenses if "@" in name):
        text.warn(entry, f"{name} is left out: licences of servers are added with sacctmgr")
    return tuple((name, count) for name, count in licenses if "@" not in name)


def _parameters(
    text: ConfText, entries: list[Entry], warnings: list[str]
) -> tuple[dict[str, Any], dict[str, Entry]]:
    """Return the cluster-wide values by attribute, and the place of each given key."""
    values = PARAMETER_TABLE.defaults()
    given_entries: dict[str, Entry] = {}
    removed_entries: dict[str, Entry] = {}
    effects: dict[str, list[str]] = {}  # warnings about what the entry that counts does
    for entry in entries:
        entry = within_bounds(text, "slurm.conf", with_todays_words(text, "slurm.conf", entry))
        key = PARAMETER_TABLE.find(entry.key)
        where = f"{entry.file}:{entry.line}: {entry.key}"
        if key is None:
            hint = _REMOVED.get(entry.key.lower())
            if hint is None:
                near = PARAMETER_TABLE.suggest(entry.key)
                text.fail(
                    entry, _REFUSED.get(entry.key.lower(), f"unknown key in slurm.conf{near}")
                )
            else:
                removed_entries[entry.key.lower()] = entry
                if entry.value == _USUAL_OF_REMOVED.get(entry.key.lower()):
                    hint = ""
                means = _AS_BEFORE.get(entry.key.lower(), "is ignored")
                warnings.append(f"{where}: no longer exists and {means}{hint and '; ' + hint}")
            continue
        try:
            value = convert(key, entry.value)
        except BadValue as error:
            text.fail(entry, str(error))
            given_entries.setdefault(key.name, entry)
            continue
        if key.name in given_entries and key.name in _REPEATABLE:
            value = values[key.attribute] + value
        elif key.name in given_entries:
            warnings[:] = (line for line in warnings if line not in effects.get(key.name, ()))
            warnings.append(
                f"{where}: also in line {given_entries[key.name].line}; this one counts"
            )
        values[key.attribute] = value
        given_entries[key.name] = entry
        for word in unknown_options(key, entry.value):
            near = moved_word(key.name, word) or near_option(key, word)
            warnings.append(f"{where}: '{word}' is unknown and ignored{near}")
        effects[key.name] = gaps(PARAMETER_TABLE.section, key, entry, value)
        warnings += effects[key.name]
        if key.name == "SlurmctldHost" and len(values[key.attribute]) > 1:
            warnings.append(
                f"{entry.file}:{entry.line}: SlurmctldHost={entry.value} has no effect in "
                "pyslurm-ng yet: there is no backup controller"
            )
    if "SlurmctldHost" not in given_entries and "controlmachine" in removed_entries:
        # Without this removed key an old file names no controller.
        old_entry = removed_entries["controlmachine"]
        address = removed_entries["controladdr"].value if "controladdr" in removed_entries else ""
        values["slurmctld_host"] = (ControllerHost(old_entry.value, address),)
        given_entries["SlurmctldHost"] = old_entry
    return values, given_entries


def _power_actions(text: ConfText, lines: list[list[Entry]]) -> tuple[PowerActionConf, ...]:
    actions = []
    defaults = _POWERACTION_TABLE.defaults()
    for entries in lines:
        settings = read_line(text, entries, _POWERACTION_TABLE, "a PowerAction line")
        values = {**defaults, **{attribute: value for attribute, (value, _) in settings.items()}}
        if not values["power_action"] or not values["program"]:
            text.fail(entries[0], "expected PowerAction=name and Program=path")
            continue
        actions.append(
            PowerActionConf(values["power_action"], values["program"], values["location"])
        )
    return tuple(actions)


def _derive(values: dict[str, Any], node_count: int) -> None:
    """Fill in the defaults that depend on other values."""
    for name in ("epilog_timeout", "prolog_timeout"):
        if values[name] == NO_VAL:
            values[name] = values["prolog_epilog_timeout"]
    if values["max_dbd_msgs"] == NO_VAL:
        # Room for the beginning and end of every job, and a few events of every node.
        values["max_dbd_msgs"] = max(10000, 2 * values["max_job_count"] + 4 * node_count)
    if values["max_node_count"] == NO_VAL:
        values["max_node_count"] = node_count
    if values["unkillable_step_timeout"] == NO_VAL:
        values["unkillable_step_timeout"] = max(60, 5 * values["message_timeout"])
    if values["enforce_part_limits"] == "YES":
        values["enforce_part_limits"] = "ANY"


def _check(
    text: ConfText,
    values: dict[str, Any],
    given_entries: dict[str, Entry],
    nodes: tuple[NodeConf, ...],
) -> None:
    """Add an error for keys that exclude each other, and for keys that must be given."""

    def fail(name: str, problem: str) -> None:
        entry = given_entries.get(name)
        if entry is not None:
            text.fail(entry, problem)
        else:
            text.errors.append(ConfError(text.path, 0, name, problem))

    if "ClusterName" not in given_entries:
        fail("ClusterName", "must be given")
    if "SlurmctldHost" not in given_entries:
        fail("SlurmctldHost", "must be given")
    if not nodes and "MaxNodeCount" not in given_entries and not text.errors:
        fail("NodeName", "at least one node must be given, or MaxNodeCount for dynamic nodes")
    if values["max_node_count"] < len(nodes):
        fail(
            "MaxNodeCount",
            f"{values['max_node_count']} is less than the {plural(len(nodes), 'node')}",
        )
    if values["first_job_id"] >= values["max_job_id"]:
        fail("FirstJobId", f"must be less than MaxJobId={values['max_job_id']}")
    for kind in ("def", "max"):
        per_cpu = f"{kind}_mem_per_cpu"
        if values[per_cpu] and values[f"{kind}_mem_per_node"]:
            name = f"{kind.capitalize()}MemPerCPU"
            text.warn(given_entries[name], per_node_counts(name))
            values[per_cpu] = 0
    broken = {error.key.lower() for error in text.errors}
    if not broken & {"preempttype", "preemptmode"}:
        _check_preemption(values, fail)
    _check_select(values, fail)
    if values["priority_calc_period"] in (0, INFINITE):
        fail("PriorityCalcPeriod", "allowed: at least one minute")
    never_resets = values["priority_usage_reset_period"] == "NONE"
    if not values["priority_decay_half_life"] and never_resets:
        entry = given_entries["PriorityDecayHalfLife"]
        text.warn(entry, "without PriorityUsageResetPeriod usage only grows; Slurm does not start")
    _check_mcs(values, fail)
    _check_exclusive_words(values, fail)
    _check_prolog_flags(values, fail)
    _check_tres(text, values, given_entries, fail)
    fence = option_text(values["slurmctld_parameters"], "fence_program")
    if fence is not None and not fence.startswith("/"):
        fail("SlurmctldParameters", f"fence_program={fence} is not an absolute path")
    if option_int(values["scheduler_parameters"], "max_script_size", 0) > _MOST_OF_SCRIPT:
        fail("SchedulerParameters", "max_script_size may be 512 MB at most")
    for path in values["bcast_exclude"]:
        if not path.startswith("/"):
            fail("BcastExclude", f"'{path}' is not an absolute path")
    if values["slurm_sched_log_level"] and not values["slurm_sched_log_file"]:
        fail("SlurmSchedLogLevel", "requires SlurmSchedLogFile, the file that is written")
    _check_completions(values["job_comp_type"], values["job_comp_loc"], fail)
    _check_controller_port(values, nodes, fail)
    for word in values["accounting_storage_external_host"]:
        try:
            host_and_port(word, values["accounting_storage_port"])
        except ValueError as error:
            fail("AccountingStorageExternalHost", str(error))


def _check_completions(kind: str, location: str, fail: Callable[[str, str], None]) -> None:
    """Check where completed jobs are told of."""
    if kind == "jobcomp/elasticsearch":
        if not location.startswith(("http://", "https://")):
            fail("JobCompLoc", f"'{location}' is no URL, which {kind} needs: http:// or https://")
    elif kind == "jobcomp/script" and not location:
        fail("JobCompLoc", f"{kind} needs the path of a program")
    elif kind in ("jobcomp/filetxt", "jobcomp/script") and location and location[0] != "/":
        fail("JobCompLoc", f"'{location}' is not an absolute path")


def _check_preemption(values: dict[str, Any], fail: Callable[[str, str], None]) -> None:
    modes = set(values["preempt_mode"])
    acting_modes = modes & {"CANCEL", "REQUEUE", "SUSPEND"}
    if len(acting_modes) > 1:
        fail("PreemptMode", "allowed: one of CANCEL, REQUEUE and SUSPEND")
    if values["preempt_type"] and not acting_modes:
        kind = values["preempt_type"]
        fail("PreemptType", f"{kind} needs PreemptMode=CANCEL, REQUEUE or SUSPEND")
    if (acting_modes or modes & {"PRIORITY", "WITHIN"}) and not values["preempt_type"]:
        fail("PreemptMode", "needs PreemptType=preempt/qos or preempt/partition_prio")
    if "SUSPEND" in modes and "GANG" not in modes:
        fail("PreemptMode", "SUSPEND needs GANG too")


def _check_exclusive_words(values: dict[str, Any], fail: Callable[[str, str], None]) -> None:
    """Check lists of which some words exclude each other."""
    units = set(values["task_plugin_param"]) & {"None", "Sockets", "Cores", "Threads"}
    if len(units) > 1:
        fail("TaskPluginParam", "allowed: one of None, Sockets, Cores and Threads")
    if {"UsePss", "NoShared"} <= set(values["job_acct_gather_params"]):
        fail("JobAcctGatherParams", "UsePss and NoShared exclude each other")


def _check_prolog_flags(values: dict[str, Any], fail: Callable[[str, str], None]) -> None:
    """Check the flags together, and that jobs with private directories have an extern step."""
    flags = {word.lower() for word in values["prolog_flags"]}
    if "nohold" in flags and flags & {"contain", "x11"}:
        fail("PrologFlags", "NoHold cannot be combined with Contain or X11")
    kind = values["namespace_type"]
    if kind == "namespace/tmpfs" and flags.isdisjoint(("contain", "runinjob", "x11")):
        fail("NamespaceType", f"PrologFlags=Contain is required for use with {kind}")


def _check_mcs(values: dict[str, Any], fail: Callable[[str, str], None]) -> None:
    """Check that MCSPlugin has what it needs."""
    if values["mcs_plugin"] == "mcs/group" and not values["mcs_parameters"]:
        fail("MCSPlugin", "mcs/group needs MCSParameters with names of groups")


def _check_select(values: dict[str, Any], fail: Callable[[str, str], None]) -> None:
    units = {"CR_CPU", "CR_CPU_Memory", "CR_Core", "CR_Core_Memory", "CR_Socket"}
    units |= {"CR_Socket_Memory", "CR_Memory"}
    chosen = [word for word in values["select_type_parameters"] if word in units]
    if len(chosen) > 1:
        fail("SelectTypeParameters", f"allowed: only one of {', '.join(sorted(units))}")
    if values["select_type_parameters"] and not chosen and values["select_type"] in _CONS:
        fail("SelectTypeParameters", f"one of {', '.join(sorted(units))} is missing")
    if values["select_type"] == "select/linear" and not set(chosen) <= {"CR_Memory"}:
        # The default belongs to cons_tres; linear allocates whole nodes.
        values["select_type_parameters"] = tuple(
            word for word in values["select_type_parameters"] if word not in units
        )


def _check_tres(
    text: ConfText,
    values: dict[str, Any],
    given_entries: dict[str, Entry],
    fail: Callable[[str, str], None],
) -> None:
    for word in values["accounting_storage_tres"]:
        try:
            name = tres_name(word)
        except TresError as error:
            fail("AccountingStorageTRES", str(error))
            continue
        kind, _, rest = name.partition("/")
        gres = rest.partition(":")[0]
        if kind == "gres" and gres not in (*values["gres_types"], "gpumem", "gpuutil"):
            types = ",".join(values["gres_types"])
            # As in Slurm it is counted all the same: configurations name GPUs before they have any.
            text.warn(
                given_entries["AccountingStorageTRES"],
                f"'{gres}' is not in GresTypes={types}, so that no job gets any",
            )


def _check_controller_port(
    values: dict[str, Any], nodes: tuple[NodeConf, ...], fail: Callable[[str, str], None]
) -> None:
    """Add an error if a daemon on the controller's host has the port of the controller."""
    low, high = values["slurmctld_port"]
    hosts = {host.name for host in values["slurmctld_host"]}
    hosts |= {host.address for host in values["slurmctld_host"] if host.address}
    for node in nodes:
        if low <= node.port <= high and (node.hostname in hosts or node.address in hosts):
            fail("SlurmctldPort", f"port {node.port} is that of node {node.name} on the same host")
            return
    port = values["accounting_storage_port"]
    uses_dbd = values["accounting_storage_type"] != ""
    if uses_dbd and low <= port <= high and values["accounting_storage_host"] in hosts:
        fail("SlurmctldPort", f"port {port} is AccountingStoragePort on the same host")


def parameter(name: str) -> Key | None:
    """Return the key of slurm.conf with this name or alias."""
    return PARAMETER_TABLE.find(name)
