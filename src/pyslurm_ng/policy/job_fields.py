"""The fields of a job's request by Slurm's names, as scripts read and write them.

A request is the plain map of a `JobRequest`, without defaults. Numbers that were not given read as
Slurm's marks (4294967294, or 65534 for fields of 16 bits), texts that were not given as None.

Source: what fields a script finds under Slurm 22.05, with which values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import (
    NO_VAL,
    NO_VAL16,
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
    REQ_GRES_DISABLE_BIND,
    REQ_GRES_ENFORCE_BIND,
    REQ_HOLD,
    REQ_KEEP_INVALID_DEP,
    REQ_KILL_INVALID_DEP,
    REQ_MEM_SET,
    REQ_NICE_SET,
    REQ_NO_REQUEUE,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    REQ_OVERCOMMIT,
    REQ_OVERSUBSCRIBE,
    REQ_REBOOT,
    REQ_REQUEUE,
    REQ_SPREAD,
    REQ_USE_MIN_NODES,
    SECOND_US,
)
from pyslurm_ng.policy import constants

_MOST_NAMES = 100_000
Request: TypeAlias = dict[str, Any]
Value: TypeAlias = "str | int | bool | list[str] | None"


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is read and written.

    Attributes:
        is_text: it takes a text; other fields take a whole number.
        write: None for a field that scripts may only read.
    """

    read: Callable[[Request], Value]
    write: Callable[[Request, Any], None] | None = None
    is_text: bool = False


def _put(request: Request, key: str, value: object, unset: object) -> None:
    if value == unset:
        request.pop(key, None)
    else:
        request[key] = value


def _flag(request: Request, bits: int, *, is_on: bool) -> None:
    flags = request.get("flags", 0)
    _put(request, "flags", flags | bits if is_on else flags & ~bits, 0)


def _text(key: str) -> Field:
    """Return a field that holds the same text as in the request."""

    def write(request: Request, value: str | None) -> None:
        _put(request, key, value or "", "")

    return Field(lambda request: request.get(key) or None, write, is_text=True)


def _nodes(key: str) -> Field:
    """Return a field of node names, which are folded as commands fold them."""

    def write(request: Request, value: str | None) -> None:
        names = value or ""
        if "," in names:
            with contextlib.suppress(hostlist.HostlistError):
                names = hostlist.fold_sorted(hostlist.unique(hostlist.expand(names, _MOST_NAMES)))
        _put(request, key, names, "")

    return Field(lambda request: request.get(key) or None, write, is_text=True)


def number(key: str, mark: int = NO_VAL, *, zero: int | None = 0, flag: int = 0) -> Field:
    """Return a field that holds the same number as in the request.

    Args:
        mark: what the script sees, and may write, for a number that was not given.
        zero: what the request holds then; None if it holds the mark, too.
        flag: a bit of the request's flags that says that the number was given.
    """
    unset = mark if zero is None else zero

    def read(request: Request) -> int:
        value: int = request.get(key, unset)
        return mark if value == unset else value

    def write(request: Request, value: int | None) -> None:
        number = unset if value is None or value in (mark, constants.NO_VAL64) else value
        _put(request, key, number, unset)
        if flag:
            _flag(request, flag, is_on=number != unset)

    return Field(read, write)


def _moment(key: str) -> Field:
    """Return a time in seconds, which the request has in microseconds."""

    def read(request: Request) -> int:
        return int(request.get(key, 0)) // SECOND_US

    def write(request: Request, value: int | None) -> None:
        _put(request, key, 0 if value in (None, NO_VAL) else value * SECOND_US, 0)

    return Field(read, write)


def _read_delay_boot(request: Request) -> int:
    minutes: int = request.get("delay_boot_min", NO_VAL)
    return NO_VAL if minutes == NO_VAL else minutes * 60


def _write_delay_boot(request: Request, value: int | None) -> None:
    minutes = NO_VAL if value is None or value == NO_VAL else -(-value // 60)
    _put(request, "delay_boot_min", minutes, NO_VAL)


def _switch(on_bit: int, off_bit: int = 0, unset: int = 0) -> Field:
    """Return a field of 0 and 1 that is one bit of the flags, or two."""

    def read(request: Request) -> int:
        flags = request.get("flags", 0)
        if flags & on_bit:
            return 1
        return 0 if flags & off_bit else unset

    def write(request: Request, value: int | None) -> None:
        _flag(request, on_bit | off_bit, is_on=False)
        if value is not None and value != unset:
            _flag(request, on_bit if value else off_bit, is_on=True)

    return Field(read, write)


_SHARED_BITS = {
    constants.SHARED_NONE: REQ_EXCLUSIVE,
    constants.SHARED_OK: REQ_OVERSUBSCRIBE,
    constants.SHARED_USER: REQ_EXCLUSIVE_USER,
    constants.SHARED_MCS: REQ_EXCLUSIVE_MCS,
    constants.SHARED_TOPO: REQ_EXCLUSIVE_TOPO,
}


def _read_shared(request: Request) -> int:
    flags = request.get("flags", 0)
    for value, bit in _SHARED_BITS.items():
        if flags & bit:
            return value
    return NO_VAL16


def _write_shared(request: Request, value: int | None) -> None:
    _flag(request, sum(_SHARED_BITS.values()), is_on=False)
    if value in _SHARED_BITS:
        _flag(request, _SHARED_BITS[value], is_on=True)


_BIT_FLAGS = {
    constants.KILL_INV_DEP: REQ_KILL_INVALID_DEP,
    constants.NO_KILL_INV_DEP: REQ_KEEP_INVALID_DEP,
    constants.GRES_ENFORCE_BIND: REQ_GRES_ENFORCE_BIND,
    constants.SPREAD_JOB: REQ_SPREAD,
    constants.USE_MIN_NODES: REQ_USE_MIN_NODES,
    constants.GRES_DISABLE_BIND: REQ_GRES_DISABLE_BIND,
}


def _read_bit_flags(request: Request) -> int:
    flags = request.get("flags", 0)
    return sum(bit for bit, ours in _BIT_FLAGS.items() if flags & ours)


def _write_bit_flags(request: Request, value: int | None) -> None:
    for bit, ours in _BIT_FLAGS.items():
        _flag(request, ours, is_on=bool((value or 0) & bit))


def _read_nice(request: Request) -> int:
    is_given = "nice" in request or request.get("flags", 0) & REQ_NICE_SET
    return constants.NICE_OFFSET + request.get("nice", 0) if is_given else NO_VAL


def _write_nice(request: Request, value: int | None) -> None:
    is_given = value is not None and value != NO_VAL
    _flag(request, REQ_NICE_SET, is_on=is_given)
    _put(request, "nice", value - constants.NICE_OFFSET if value and is_given else 0, 0)


def _read_priority(request: Request) -> int:
    return 0 if request.get("flags", 0) & REQ_HOLD else int(request.get("priority", NO_VAL))


def _write_priority(request: Request, value: int | None) -> None:
    """Set the priority; 0 holds the job, any other lets it go."""
    _flag(request, REQ_HOLD, is_on=False)
    _put(request, "priority", NO_VAL if value is None else value, NO_VAL)


# Memory, which is one value for each node, CPU or GPU.

_MEMORY = ("mem_per_node_mib", "mem_per_cpu_mib", "mem_per_gpu_mib")


def _memory(key: str) -> Field:
    def read(request: Request) -> int | None:
        is_given = request.get("flags", 0) & REQ_MEM_SET
        is_other = any(request.get(other) for other in _MEMORY if other != key)
        if request.get(key):
            return int(request[key])
        return 0 if is_given and not is_other and key == _MEMORY[0] else None

    def write(request: Request, value: int | None) -> None:
        for other in _MEMORY:
            request.pop(other, None)
        is_given = value is not None and value < NO_VAL
        _flag(request, REQ_MEM_SET, is_on=is_given)
        if is_given:
            _put(request, key, value, 0)

    return Field(read, write)


_PER_NODE, _PER_CPU = _memory(_MEMORY[0]), _memory(_MEMORY[1])


def _read_pn_min_memory(request: Request) -> int:
    per_cpu = request.get("mem_per_cpu_mib")
    if per_cpu:
        return constants.MEM_PER_CPU + int(per_cpu)
    per_node = _PER_NODE.read(request)
    return constants.NO_VAL64 if per_node is None else int(per_node)  # type: ignore[arg-type]


def _write_pn_min_memory(request: Request, value: int | None) -> None:
    is_unset = value is None or value in (constants.NO_VAL64, NO_VAL)
    is_per_cpu = not is_unset and value is not None and value >= constants.MEM_PER_CPU
    field = _PER_CPU if is_per_cpu else _PER_NODE
    assert field.write is not None
    amount = None if is_unset or value is None else value % constants.MEM_PER_CPU
    field.write(request, amount)


def _read_pn_min_cpus(request: Request) -> int:
    """Return the CPUs that a node must have: at least those of one task."""
    most: int = max(request.get("mincpus", 0), request.get("cpus_per_task", 0))
    return most or NO_VAL16


def _read_min_cpus(request: Request) -> int:
    tasks: int = request.get("ntasks", 0)
    each: int = request.get("cpus_per_task", 0)
    return max(1, tasks) * max(1, each)


def _write_min_cpus(request: Request, value: int | None) -> None:
    """Ask for so many CPUs in all: more tasks, since a request has no other total."""
    each = max(1, request.get("cpus_per_task", 0))
    most = max(1, request.get("ntasks", 0), request.get("nodes_min", 0))
    if value is not None and value != NO_VAL and value > most * each:
        _put(request, "ntasks", -(-value // each), 0)


# Generic resources --------------------------------------------------------------------------------


def _tres(plain_key: str, gpu_key: str) -> Field:
    """Return a list of resources that the request has in two parts: others, and GPUs alone."""

    def read(request: Request) -> str | None:
        parts = [part for part in request.get(plain_key, "").split(",") if part]
        shown = [part if is_named(part) else f"gres/{part}" for part in parts]
        gpus = [part for part in request.get(gpu_key, "").split(",") if part]
        shown += [f"gres/gpu:{part}" for part in gpus]
        return ",".join(shown) or None

    def is_named(part: str) -> bool:
        return part.startswith(("gres/", "gres:")) or part.partition("=")[0] in ("cpu", "mem")

    def write(request: Request, value: str | None) -> None:
        parts = [_without_prefix(part) for part in (value or "").split(",") if part]
        gpus = [part for part in parts if part.partition(":")[0] == "gpu"] if gpu_key else []
        if plain_key == "gres":
            gpus = []  # --gres takes GPUs, too
        request.pop(gpu_key, None)
        rest = [part for part in parts if part not in gpus]
        if plain_key:
            _put(request, plain_key, ",".join(rest), "")
        elif rest:
            raise ValueError(f"only GPUs are allowed here, not {rest[0]}")
        counts = [part.partition(":")[2] or "1" for part in gpus]
        if counts:
            request[gpu_key] = ",".join(counts)

    return Field(read, write, is_text=True)


def _without_prefix(part: str) -> str:
    name = part.strip()
    for prefix in ("gres/", "gres:"):
        name = name.removeprefix(prefix)
    return name.replace("=", ":", 1) if name.startswith("gpu") else name


def _of_each_gpu(key: str) -> Field:
    """Return `gres/gpu:N`, which the request has as a number."""

    def read(request: Request) -> str | None:
        return f"gres/gpu:{request[key]}" if request.get(key) else None

    def write(request: Request, value: str | None) -> None:
        text = _without_prefix(value or "")
        number = text.rpartition(":")[2]
        if text and not (text.startswith("gpu:") and number.isdecimal()):
            raise ValueError(f"{value}: gres/gpu:N is allowed")
        _put(request, key, int(number or 0), 0)

    return Field(read, write, is_text=True)


def _fixed(value: Value) -> Field:
    return Field(lambda request: value)


FIELDS: dict[str, Field] = {
    "account": _text("account"),
    "acctg_freq": _text("acctg_freq"),
    "admin_comment": _text("admin_comment"),
    "alloc_node": Field(lambda request: request.get("alloc_node") or None),
    "argc": Field(lambda request: len(request.get("argv", ()))),
    "argv": Field(lambda request: list(request.get("argv", ()))),
    "array_inx": _text("array"),
    "batch_features": _text("batch_features"),
    "begin_time": _moment("begin_us"),
    "bitflags": Field(_read_bit_flags, _write_bit_flags),
    "boards_per_node": _fixed(0),
    "burst_buffer": _text("burst_buffer"),
    "clusters": _fixed(None),
    "cluster_features": _text("cluster_features"),
    "comment": _text("comment"),
    "container": _text("container"),
    "contiguous": _switch(REQ_CONTIGUOUS),
    "core_spec": Field(lambda request: request.get("core_spec") or None),
    "cores_per_socket": number("cores_per_socket", NO_VAL16),
    "cpu_freq_gov": _fixed(NO_VAL),
    "cpu_freq_max": _fixed(NO_VAL),
    "cpu_freq_min": _fixed(NO_VAL),
    "cpus_per_task": number("cpus_per_task", NO_VAL16),
    "cpus_per_tres": _of_each_gpu("cpus_per_gpu"),
    "cron_job": _fixed(False),
    "deadline": _moment("deadline_us"),
    "delay_boot": Field(_read_delay_boot, _write_delay_boot),
    "dependency": _text("dependency"),
    "end_time": _fixed(0),
    "exc_nodes": _nodes("exclude"),
    "extra": _text("extra"),
    "features": _text("constraint"),
    "gres": _tres("gres", "gpus_per_node"),
    "immediate": _fixed(0),
    "licenses": _text("licenses"),
    "mail_type": number("mail_type", 0),
    "mail_user": _text("mail_user"),
    "max_cpus": _fixed(NO_VAL),
    "max_nodes": number("nodes_max", flag=REQ_NODES_SET),
    "mcs_label": _text("mcs_label"),
    "mem_per_tres": _of_each_gpu("mem_per_gpu_mib"),
    "min_cpus": Field(_read_min_cpus, _write_min_cpus),
    "min_mem_per_cpu": _PER_CPU,
    "min_mem_per_node": _PER_NODE,
    "min_nodes": number("nodes_min", flag=REQ_NODES_SET),
    "name": _text("name"),
    "network": _text("network"),
    "nice": Field(_read_nice, _write_nice),
    "ntasks_per_board": _fixed(0),
    "ntasks_per_core": number("ntasks_per_core", NO_VAL16),
    "ntasks_per_gpu": number("ntasks_per_gpu", NO_VAL16),
    "ntasks_per_node": number("ntasks_per_node", NO_VAL16),
    "ntasks_per_socket": number("ntasks_per_socket", NO_VAL16),
    "ntasks_per_tres": number("ntasks_per_gpu", NO_VAL16),
    "num_tasks": number("ntasks", flag=REQ_NTASKS_SET),
    "overcommit": _switch(REQ_OVERCOMMIT),
    "oversubscribe": Field(_read_shared, _write_shared),
    "partition": _text("partition"),
    "plane_size": number("plane_size", NO_VAL16),
    "pn_min_cpus": Field(_read_pn_min_cpus, number("mincpus", NO_VAL16).write),
    "pn_min_memory": Field(_read_pn_min_memory, _write_pn_min_memory),
    "pn_min_tmp_disk": number("tmp_mib"),
    "power_flags": _fixed(0),
    "prefer": _text("prefer"),
    "priority": Field(_read_priority, _write_priority),
    "qos": _text("qos"),
    "reboot": _switch(REQ_REBOOT, unset=NO_VAL16),
    "req_nodes": _text("node_list"),
    "req_switch": number("switches"),
    "requeue": _switch(REQ_REQUEUE, REQ_NO_REQUEUE, NO_VAL16),
    "reservation": _text("reservation"),
    "segment_size": number("segment", NO_VAL16),
    "shared": Field(_read_shared, _write_shared),
    "site_factor": _fixed(NO_VAL),
    "sockets_per_board": _fixed(0),
    "sockets_per_node": number("sockets_per_node", NO_VAL16),
    "spank_job_env_size": _fixed(0),
    "std_err": _text("std_err"),
    "std_in": _text("std_in"),
    "std_out": _text("std_out"),
    "submit_line": Field(lambda request: request.get("submit_line") or None),
    "threads_per_core": number("threads_per_core", NO_VAL16),
    "time_limit": number("time_limit_min", zero=None),
    "time_min": number("time_min_min", zero=None),
    "tres_bind": _text("tres_bind"),
    "tres_freq": _text("tres_freq"),
    "tres_per_job": _tres("", "gpus"),
    "tres_per_node": _tres("gres", "gpus_per_node"),
    "tres_per_socket": _tres("", "gpus_per_socket"),
    "tres_per_task": _tres("tres_per_task", "gpus_per_task"),
    "wait4switch": number("switches_wait_s"),
    "wait_all_nodes": number("wait_all_nodes", zero=None),
    "warn_signal": number("signal", NO_VAL16),
    "warn_time": Field(lambda request: request.get("signal_before_s", 60)),
    "wckey": _text("wckey"),
    "work_dir": _text("work_dir"),
}
"""Every field that belongs to the request itself, by Slurm's name."""


class FieldError(Exception):
    """A value that a field does not take."""


class UnknownField(Exception):
    """A name that is no field, or one that scripts may only read."""


def set_field(request: Request, field: Field | None, name: str, value: object) -> None:
    """Set a field, None for one that is not there, as Lua or Python gave it; None is "not given".

    Raises:
        FieldError: the value is none for this field.
        UnknownField: there is no such field, or it can only be read.
    """
    if field is None or field.write is None:
        raise UnknownField(name)
    checked = _as_text(name, value) if field.is_text else _as_number(name, value)
    try:
        field.write(request, checked)
    except ValueError as error:
        raise FieldError(f"{name}: {error}") from None


def _as_text(name: str, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise FieldError(f"{name}: string expected, got {kind_of(value)}")
    return None if value is None else str(value)


def _as_number(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = float(value) if not value.strip().isdecimal() else int(value)
        except ValueError:
            raise FieldError(f"{name}: number expected, got string") from None
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int | float):
        raise FieldError(f"{name}: number expected, got {kind_of(value)}")
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise FieldError(f"{name}: number expected, got {value}") from None
    if number < 0:
        raise FieldError(f"{name}: {number}: a number from 0 on is allowed")
    return number


def kind_of(value: object) -> str:
    """Return what Lua would call a value's type."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, int | float) else "table"
