"""NodeName, NodeSet and DownNodes lines to one record for each node."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyslurm_ng.base.hostlist import HostlistError, count, expand, fold
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.tres import NodeGres
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.lexer import ConfText, Entry
from pyslurm_ng.conf.schema import Table, read_line
from pyslurm_ng.conf.tables.keys import DOWNNODES, NODE, NODESET

NODE_TABLE = Table(
    NODE, "NodeName", {"Feature": "Features", "Procs": "CPUs", "NodeHostName": "NodeHostname"}
)
_NODESET_TABLE = Table(NODESET, "NodeSet")
_DOWNNODES_TABLE = Table(DOWNNODES, "DownNodes")
_PORTS = "expected ports within 1 to 65535, one or as many as nodes: Port=7001-7004"


class NodeConf(NamedTuple):
    """One node as configured; counts are whole numbers, memory and disk MiB.

    `suspend_time_s` is NO_VAL if the line does not give it. `file` and `line` say where the node is
    configured.
    """

    name: str
    hostname: str
    address: str
    port: int
    cpus: int
    boards: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mib: int
    tmp_disk_mib: int
    weight: int
    features: tuple[str, ...]
    gres: tuple[NodeGres, ...]
    state: str
    reason: str
    core_spec_count: int
    cpu_spec_list: tuple[int, ...]
    mem_spec_limit_mib: int
    cpu_bind: str
    parameters: tuple[str, ...]
    restricted_cores_per_gpu: int
    suspend_time_s: int
    topology: str
    bcast_address: str
    file: str
    line: int


class NodeSetConf(NamedTuple):
    """A NodeSet: named nodes, or all nodes with a feature; `node_names` is the result."""

    name: str
    feature: str
    nodes: str
    node_names: tuple[str, ...]


class DownNodesConf(NamedTuple):
    """A DownNodes line: nodes that start in another state than usual."""

    node_names: tuple[str, ...]
    state: str
    reason: str


def build_nodes(
    text: ConfText, lines: list[list[Entry]], slurmd_port: int, gres_types: tuple[str, ...]
) -> tuple[NodeConf, ...]:
    """Return every node of the NodeName lines, in their order; errors go to ``text``."""
    nodes: list[NodeConf] = []
    seen: dict[str, NodeConf] = {}
    defaults = NODE_TABLE.defaults()
    errors = len(text.errors)
    for entries in lines:
        settings = read_line(text, entries, NODE_TABLE, "a NodeName line")
        line_values = {attribute: value for attribute, (value, _) in settings.items()}
        if "node_name" not in settings:
            continue
        if "gres" in settings:
            line_values["gres"] = _known_gres(text, *settings["gres"], gres_types)
        if line_values["node_name"].upper() == "DEFAULT":
            defaults.update(
                {name: value for name, value in line_values.items() if name != "node_name"}
            )
            continue
        values = {**defaults, **line_values}
        for node in _expand(text, entries[0], settings, values, slurmd_port):
            first = seen.get(node.name)
            if first is not None:
                text.fail(entries[0], f"node {node.name} was already given in line {first.line}")
                continue
            seen[node.name] = node
            nodes.append(node)
    if len(text.errors) == errors:  # nodes of a wrong line get default values
        _check_ports(text, nodes)
    return tuple(nodes)


def _known_gres(
    text: ConfText, resources: tuple[NodeGres, ...], entry: Entry, gres_types: tuple[str, ...]
) -> tuple[NodeGres, ...]:
    """Return what GresTypes names; Slurm leaves out the rest without a word."""
    known = tuple(gres for gres in resources if gres.name in gres_types)
    for name in dict.fromkeys(gres.name for gres in resources if gres not in known):
        types = ",".join(gres_types)
        text.warn(entry, f"'{name}' is not in GresTypes={types} and is left out")
    for gres in known:
        if gres.name in ("mps", "shard") and all(other.name != "gpu" for other in resources):
            text.fail(entry, f"'{gres.name}' are parts of GPUs, and there is no gpu in Gres")
    return known


def _expand(
    text: ConfText,
    entry: Entry,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
    slurmd_port: int,
) -> list[NodeConf]:
    """Return the nodes of one line.

    Wrong values are replaced by defaults, so that partitions may name the nodes.
    """
    names = _names(text, settings["node_name"][1], values["node_name"])
    cpus, boards, sockets, cores, threads = _shape(text, entry, settings, values)
    _check_kept_back(text, settings, values, cpus)
    hostnames = _spread(text, settings, values, "node_hostname", names)
    addresses = _spread(text, settings, values, "node_addr", hostnames)
    bcast = _spread(text, settings, values, "bcast_addr", addresses)
    ports = _ports(text, settings, values, len(names), slurmd_port)
    tail = (
        cpus,
        boards,
        sockets,
        cores,
        threads,
        values["real_memory"],
        values["tmp_disk"],
        values["weight"],
        values["features"],
        values["gres"],
        values["state"],
        values["reason"],
        values["core_spec_count"],
        values["cpu_spec_list"],
        values["mem_spec_limit"],
        values["cpu_bind"],
        values["parameters"],
        values["restricted_cores_per_gpu"],
        values["suspend_time"],
        values["topology"],
    )
    return [
        NodeConf(name, hostname, address, port, *tail, bcast_address, entry.file, entry.line)
        for name, hostname, address, port, bcast_address in zip(
            names, hostnames, addresses, ports, bcast, strict=True
        )
    ]


def _names(text: ConfText, entry: Entry, value: str) -> list[str]:
    try:
        names = expand(value)
    except HostlistError as error:
        text.fail(entry, str(error))
        return []
    for name in names:
        if name.upper() == "ALL":
            text.fail(entry, f"'{name}' cannot be the name of a node")
            return []
    if not names:
        text.fail(entry, "expected node names")
    return names


def _spread(
    text: ConfText,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
    attribute: str,
    fallback: list[str],
) -> list[str]:
    """Return one text for each node: the list if it has as many, or its only text for all.

    After an error it is the fallback.
    """
    value = values[attribute]
    if not value or not fallback:
        return fallback
    try:
        words = expand(value)
    except HostlistError:
        return fallback  # reported when the value was read
    if len(words) == len(fallback):
        return words
    if len(words) == 1:
        return words * len(fallback)
    entry = settings[attribute][1] if attribute in settings else settings["node_name"][1]
    nodes = plural(len(fallback), "node")
    text.fail(entry, f"{len(words)} values for {nodes}; allowed: one, or as many as nodes")
    return fallback


def _ports(
    text: ConfText,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
    node_count: int,
    slurmd_port: int,
) -> list[int]:
    """Return the port of each node; as in Slurm a list needs no brackets: ``6821-6822``."""
    ports_text = values["port"]
    entry = settings["port"][1] if "port" in settings else settings["node_name"][1]
    if ports_text and "[" not in ports_text:
        values = {**values, "port": f"[{ports_text}]"}
        if not _is_hostlist(values["port"]):
            text.fail(entry, _PORTS)
            return [slurmd_port] * node_count
    words = _spread(text, settings, values, "port", [str(slurmd_port)] * node_count)
    ports = [int(word) if word.isascii() and word.isdigit() else 0 for word in words]
    if all(1 <= port <= 65535 for port in ports):
        return ports
    text.fail(entry, _PORTS)
    return [slurmd_port] * node_count


def _is_hostlist(value: str) -> bool:
    try:
        count(value)
    except HostlistError:
        return False
    return True


def _shape(
    text: ConfText,
    first: Entry,
    settings: dict[str, tuple[Any, Entry]],
    values: dict[str, Any],
) -> tuple[int, int, int, int, int]:
    """Return CPUs, boards, sockets, cores per socket and threads per core; all 1 after an error.

    What the line does not give follows from the rest. CPUs may count sockets, cores or threads; any
    other number counts for nothing, as in Slurm, and the warning says so.
    """
    boards = values["boards"]
    cpus, sockets = values["cpus"], values["sockets"]
    cores = 1 if values["cores_per_socket"] == NO_VAL else values["cores_per_socket"]
    threads = 1 if values["threads_per_core"] == NO_VAL else values["threads_per_core"]
    if values["sockets_per_board"] != NO_VAL:
        product = boards * values["sockets_per_board"]
        if sockets not in (NO_VAL, product):
            text.fail(first, f"Sockets={sockets} is not Boards x SocketsPerBoard = {product}")
            return 1, 1, 1, 1, 1
        sockets = product
    if sockets == NO_VAL:
        sockets = 1 if cpus == NO_VAL else max(1, cpus // (cores * threads))
    if cpus == NO_VAL:
        cpus = sockets * cores * threads
    allowed = (sockets, sockets * cores, sockets * cores * threads)
    if cpus not in allowed:
        entry = settings["cpus"][1] if "cpus" in settings else first
        text.warnings.append(
            f"{entry.file}:{entry.line}: CPUs={cpus} matches no Sockets, Sockets*CoresPerSocket or "
            f"Sockets*CoresPerSocket*ThreadsPerCore, and means CPUs={allowed[-1]}"
        )
        cpus = allowed[-1]
    if values["core_spec_count"] >= max(1, sockets * cores):
        text.fail(first, f"CoreSpecCount={values['core_spec_count']} leaves no core for jobs")
    return cpus, boards, sockets, cores, threads


def _check_kept_back(
    text: ConfText, settings: dict[str, tuple[Any, Entry]], values: dict[str, Any], cpus: int
) -> None:
    """Leave out what is kept for the system where there is not as much; a warning says so."""
    if values["cpu_spec_list"] and max(values["cpu_spec_list"]) >= cpus:
        text.warn(settings["cpu_spec_list"][1], f"ignored: there are CPUs 0 to {cpus - 1}")
        values["cpu_spec_list"] = ()
    if "real_memory" in settings and values["mem_spec_limit"] >= max(1, values["real_memory"]):
        kept = f"ignored: no memory of RealMemory={values['real_memory']} would be left"
        text.warn(settings["mem_spec_limit"][1], kept)
        values["mem_spec_limit"] = 0


def _check_ports(text: ConfText, nodes: list[NodeConf]) -> None:
    """Add an error if two nodes have the same address and port."""
    by_address: dict[tuple[str, int], NodeConf] = {}
    for node in nodes:
        if node.state in ("FUTURE", "CLOUD"):
            continue
        first = by_address.setdefault((node.address, node.port), node)
        if first is not node:
            entry = Entry("NodeName", "", node.file, node.line)
            text.fail(
                entry,
                f"node {node.name} has the address and port of node {first.name} "
                f"({node.address}:{node.port})",
            )
            return  # one error is enough: a wrong range would repeat it for every node


def build_nodesets(
    text: ConfText, lines: list[list[Entry]], nodes: tuple[NodeConf, ...]
) -> tuple[NodeSetConf, ...]:
    """Return the node sets with their members."""
    known = {node.name: index for index, node in enumerate(nodes)}
    sets: dict[str, NodeSetConf] = {}
    for entries in lines:
        settings = read_line(text, entries, _NODESET_TABLE, "a NodeSet line")
        values = {attribute: value for attribute, (value, _) in settings.items()}
        name = values.get("node_set", "")
        feature, node_list = values.get("feature", ""), values.get("nodes", "")
        if not name or name.upper() in ("ALL", "DEFAULT") or name in sets or name in known:
            text.fail(entries[0], f"'{name}' is empty, reserved, or the name of a node or node set")
            continue
        if not feature and not node_list:
            text.fail(entries[0], "expected Feature= or Nodes=")
            continue
        members = {i for i, node in enumerate(nodes) if feature and feature in node.features}
        if node_list:
            members.update(_indexes(text, settings["nodes"][1], node_list, known, {}))
        node_names = tuple(nodes[index].name for index in sorted(members))
        sets[name] = NodeSetConf(name, feature, node_list, node_names)
    return tuple(sets.values())


def build_down_nodes(
    text: ConfText, lines: list[list[Entry]], nodes: tuple[NodeConf, ...]
) -> tuple[DownNodesConf, ...]:
    """Return the DownNodes lines with their nodes."""
    down_nodes = []
    known = {node.name: index for index, node in enumerate(nodes)}
    defaults = _DOWNNODES_TABLE.defaults()
    for entries in lines:
        settings = read_line(text, entries, _DOWNNODES_TABLE, "a DownNodes line")
        values = {**defaults, **{attribute: value for attribute, (value, _) in settings.items()}}
        if "down_nodes" not in settings:
            continue
        members = _indexes(text, settings["down_nodes"][1], values["down_nodes"], known, {})
        node_names = tuple(nodes[index].name for index in members)
        down_nodes.append(DownNodesConf(node_names, values["state"], values["reason"]))
    return tuple(down_nodes)


def resolve_nodes(
    text: ConfText,
    entry: Entry,
    value: str,
    nodes: tuple[NodeConf, ...],
    known: dict[str, int],
    sets: dict[str, NodeSetConf],
) -> tuple[str, ...]:
    """Return the nodes that a partition's list names, in the order of the configuration."""
    members = _indexes(text, entry, value, known, sets)
    return tuple(nodes[index].name for index in members)


def _indexes(
    text: ConfText,
    entry: Entry,
    value: str,
    known: dict[str, int],
    sets: dict[str, NodeSetConf],
) -> list[int]:
    try:
        names = expand(value)
    except HostlistError:
        return []  # reported when the value was read
    members: set[int] = set()
    missing: list[str] = []
    for name in names:
        index = known.get(name)
        if index is not None:
            members.add(index)
        elif name.upper() == "ALL":
            members.update(known.values())
        elif name in sets:
            members.update(known[member] for member in sets[name].node_names)
        else:
            missing.append(name)
    # A list of nodes that cannot be read may have the missing ones.
    if missing and all(error.key.lower() != "nodename" for error in text.errors):
        text.fail(entry, f"no NodeName line has {fold(missing)}")
    return sorted(members)
