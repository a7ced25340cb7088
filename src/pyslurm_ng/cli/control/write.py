"""scontrol write: a job's script, or the configuration in force as a slurm.conf."""

import os
import sys

from pyslurm_ng.base.numbers import SHOW_ALL, SHOW_FUTURE
from pyslurm_ng.cli.command import Table, fail, say
from pyslurm_ng.cli.control.show import config_lines
from pyslurm_ng.cli.control.show_nodes import partition_lines
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Session

    Row = dict[str, Any]

# Lines of show config about the running daemon, which no file may hold.
_FACTS = frozenset(
    "BOOT_TIME HASH_VAL MULTIPLE_SLURMD NEXT_JOB_ID SLURM_CONF SLURM_VERSION".split()
)
# Texts of keys without a value, which no file may hold, either.
_UNSET = frozenset(("", "(null)", "(null type)", "Unknown", "N/A", "65534", "0-0"))
_UNITS = (" sec", " min", " usec", " nodes/min", " percent")
# Texts of keys that were not set; in a file they would set something.
_SHOWN_UNSET = {
    "HealthCheckTimeout": "0",
    "PreemptExemptTime": "00:00:00",
    "PropagateResourceLimits": "ALL",
}
_MEMORY = ("DefMemPerNode", "DefMemPerCPU", "MaxMemPerNode", "MaxMemPerCPU")
_DERIVED = frozenset(("TotalCPUs", "TotalNodes", "TRES"))


def write(session: "Session", arguments: "list[str]") -> int:
    """`write batch_script ID [FILE|-]`."""
    subject = arguments[0].lower()
    if not "batch_script".startswith(subject) or len(subject) < 2:
        if "config".startswith(subject):
            return write_config(session, arguments[1:])
        say(f"invalid write argument:{arguments[0]}")
        return 1
    if len(arguments) < 2:
        fail("too few arguments for keyword:write batch_script")
    job = arguments[1]
    try:
        reply = session.client.call("GetBatchScript", {"job": job})
    except SlurmError as error:
        say(f"job script retrieval failed: {error.text}")
        return 1
    name = arguments[2] if len(arguments) > 2 else f"slurm-{job}.sh"
    if name == "-":
        sys.stdout.flush()
        view = memoryview(reply["script"])
        while view:
            view = view[os.write(1, view) :]
        return 0
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
        with open(descriptor, "wb") as stream:
            stream.write(reply["script"])
    except OSError as problem:
        say(f"failed to open file `{name}`: {problem.strerror}")
        return 1
    print(f"batch script for job {job} written to {name}")
    return 0


def write_config(session: "Session", words: "list[str]") -> int:
    """Write the file, its name followed by the moment."""
    from time import localtime, strftime

    if len(words) > 1:
        fail("too many arguments for keyword:write")
    lines = config_lines(session)
    if isinstance(lines, int):
        return lines
    try:
        nodes = session.client.call("ShowNodes", {"flags": SHOW_ALL | SHOW_FUTURE})
        partitions = session.client.call("ShowPartitions", {"flags": SHOW_ALL})
    except SlurmError as error:
        say(f"slurm_load_node error: {error.text}")
        return 1
    file_lines = [f"# {lines[0]}", *key_lines(lines[1:]), "", "# NODES"]
    file_lines += node_lines(Table(nodes["fields"], nodes["records"], nodes["fields"]).dicts())
    file_lines += ["", "# PARTITIONS"]
    fields = partitions["fields"]
    for row in Table(fields, partitions["records"], fields).dicts():
        file_lines.append(partition_line(row, session.preempt_mode))
    stamp = strftime("%Y-%m-%dT%H:%M:%S", localtime())
    return _save(words[0] if words else _own_path(lines), file_lines, stamp)


def _save(path: str, lines: "list[str]", stamp: str) -> int:
    name = f"{path}.{stamp}"
    try:
        # Passwords may be among the values, so others must not read it.
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError as problem:
        say(f"scontrol: error: {name}: {problem.strerror}")
        return 1
    print(f"Slurm config saved to {name}")
    return 0


def _own_path(lines: "list[str]") -> str:
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "SLURM_CONF":
            return value.strip()
    return "slurm.conf"


def key_lines(shown: "list[str]") -> "list[str]":
    """Return the output of show config as lines of slurm.conf; unset values become comments."""
    written: list[str] = []
    for line in shown:
        key, equals, value = line.partition("=")
        key, value = key.strip().partition("[")[0], value.strip()
        if not equals or not key:
            # What follows are the files beside slurm.conf and the state of the controllers.
            if written:
                break
            continue
        for unit in _UNITS:
            value = value.removesuffix(unit)
        if key in ("SlurmUser", "SlurmdUser"):
            value = value.partition("(")[0]
        is_comment = key in _FACTS or value in _UNSET or _SHOWN_UNSET.get(key) == value
        if key in _MEMORY and not value.isdecimal():
            is_comment = True
        if " " in value or "#" in value:
            value = f'"{value}"'
        written.append(f"{'#' if is_comment else ''}{key}={value}")
    return written


def node_lines(rows: "list[Row]") -> "list[str]":
    """Return NodeName lines; nodes that differ only in their names share one."""
    from pyslurm_ng.base.hostlist import fold

    alike: dict[str, list[str]] = {}
    for row in rows:
        words = []
        for key, field in (("NodeHostName", "hostname"), ("NodeAddr", "address")):
            if row[field] and row[field] != row["name"]:
                words.append(f"{key}={row[field]}")
        words += [
            f"Port={row['port']}",
            f"CPUs={row['cpus']} Boards={row['boards']} SocketsPerBoard={row['sockets']}",
            f"CoresPerSocket={row['cores']} ThreadsPerCore={row['threads']}",
            f"RealMemory={row['memory_mib']} TmpDisk={row['tmp_disk_mib']}",
            f"Weight={row['weight']}",
        ]
        for key, field in (
            ("Feature", "features"),
            ("Gres", "gres"),
            ("CoreSpecCount", "core_spec_count"),
            ("CPUSpecList", "cpu_spec_list"),
            ("MemSpecLimit", "mem_spec_limit_mib"),
        ):
            if row[field]:
                words.append(f"{key}={row[field]}")
        alike.setdefault(" ".join(words), []).append(row["name"])
    return [f"NodeName={fold(names)} {words}" for words, names in alike.items()]


def partition_line(row: "Row", preempt_mode: str) -> str:
    """Return the output of show partition as a PartitionName line."""
    words = []
    for word in " ".join(partition_lines(row, preempt_mode)).split():
        key, _, value = word.partition("=")
        if key in _DERIVED or value in ("N/A", "(null)", "NONE", "UNLIMITED", "GLOBAL"):
            continue
        if key == "PreemptMode" and not row["preempt_mode"]:
            continue
        words.append(word)
    return " ".join(words)
