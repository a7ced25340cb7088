"""A job's description, DATA_PARSER_JOB_DESC_MSG, as the request that sbatch would send."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import (
    INFINITE,
    NO_VAL,
    REQ_CONSOLIDATE_SEGMENTS,
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
    REQ_NO_KILL,
    REQ_NO_REQUEUE,
    REQ_NODES_SET,
    REQ_NTASKS_SET,
    REQ_OPEN_APPEND,
    REQ_OPEN_TRUNCATE,
    REQ_OVERCOMMIT,
    REQ_OVERSUBSCRIBE,
    REQ_REBOOT,
    REQ_REQUEUE,
    REQ_SIGNAL_BATCH,
    REQ_SIGNAL_RESV,
    REQ_SPREAD,
    REQ_SPREAD_SEGMENTS,
    REQ_USE_MIN_NODES,
    SECOND_US,
)
from pyslurm_ng.base.signal_names import parse_signal
from pyslurm_ng.data_parser.job_keys import MAIL_WORDS
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.refusal import BAD_REQUEST, UNPROCESSABLE, Refusal

Desc = dict[str, Any]
Request = dict[str, Any]

_TEXTS = {
    "account": "account", "account_gather_frequency": "acctg_freq",
    "admin_comment": "admin_comment", "array": "array", "batch_features": "batch_features",
    "burst_buffer": "burst_buffer", "cluster_constraint": "cluster_features",
    "comment": "comment", "constraints": "constraint",
    "cpu_binding": "cpu_bind", "current_working_directory": "work_dir",
    "dependency": "dependency", "extra": "extra", "licenses": "licenses",
    "mail_user": "mail_user", "mcs_label": "mcs_label", "memory_binding": "mem_bind",
    "name": "name", "network": "network", "partition": "partition", "prefer": "prefer",
    "qos": "qos", "reservation": "reservation", "standard_error": "std_err",
    "standard_input": "std_in", "standard_output": "std_out", "tres_bind": "tres_bind",
    "tres_freq": "tres_freq", "wckey": "wckey",
}  # fmt: skip
"""Keys whose text goes unchanged into a field of the request."""

_COUNTS = {
    "core_specification": "core_spec", "thread_specification": "thread_spec",
    "cpus_per_task": "cpus_per_task", "minimum_cpus_per_node": "mincpus",
    "ntasks_per_tres": "ntasks_per_gpu", "sockets_per_node": "sockets_per_node",
    "cores_per_socket": "cores_per_socket", "tasks_per_core": "ntasks_per_core",
    "tasks_per_node": "ntasks_per_node", "tasks_per_socket": "ntasks_per_socket",
    "temporary_disk_per_node": "tmp_mib", "threads_per_core": "threads_per_core",
    "wait_for_switch": "switches_wait_s", "reserve_ports": "resv_ports",
    "oom_kill_step": "oom_kill_step",
}  # fmt: skip
_OPTIONAL = {
    "distribution_plane_size": "plane_size", "required_switches": "switches",
    "segment_size": "segment", "priority": "priority", "kill_warning_delay": "signal_before_s",
}  # fmt: skip
_FLAG_WORDS = {
    "KILL_INVALID_DEPENDENCY": REQ_KILL_INVALID_DEP,
    "NO_KILL_INVALID_DEPENDENCY": REQ_KEEP_INVALID_DEP,
    "SPREAD_JOB": REQ_SPREAD,
    "PREFER_MINIMUM_NODE_COUNT": REQ_USE_MIN_NODES,
    "GRES_BINDING_ENFORCED": REQ_GRES_ENFORCE_BIND,
    "GRES_BINDING_DISABLED": REQ_GRES_DISABLE_BIND,
    "SPREAD_SEGMENTS": REQ_SPREAD_SEGMENTS,
    "CONSOLIDATE_SEGMENTS": REQ_CONSOLIDATE_SEGMENTS,
}
_SHARED = {
    "none": REQ_EXCLUSIVE,
    "oversubscribe": REQ_OVERSUBSCRIBE,
    "user": REQ_EXCLUSIVE_USER,
    "mcs": REQ_EXCLUSIVE_MCS,
    "topo": REQ_EXCLUSIVE_TOPO,
}
_SWITCHES = {
    "contiguous": REQ_CONTIGUOUS,
    "hold": REQ_HOLD,
    "overcommit": REQ_OVERCOMMIT,
    "reboot": REQ_REBOOT,
}
WITHOUT_EFFECT = (
    "burst_buffer", "network", "cpu_frequency", "crontab", "memory_update_delay",
    "memory_update_margin",
    "minimum_boards_per_node", "minimum_sockets_per_board", "runtime", "selinux_context",
    "site_factor", "spank_environment", "tasks_per_board", "x11", "x11_magic_cookie",
    "x11_target_host", "x11_target_port", "maximum_cpus", "clusters", "cpu_binding_flags",
    "memory_binding_type",
)  # fmt: skip
"""Keys that are known and do nothing here; the answer warns of them (docs/reference/compat.md)."""


REFUSED = ("container", "container_id")
"""Keys that commands refuse as well: a job outside its container would be another one."""


def job_request(call: Call, desc: Desc, where: str) -> Request:
    """Return the request for a description.

    Args:
        where: the description's place in the body, for warnings and errors.

    Raises:
        Refusal: a value that no request can hold.
    """
    request: Request = {}
    for key in REFUSED:
        if desc.get(key):
            raise Refusal(
                UNPROCESSABLE, f"{key} is not implemented in pyslurm-ng",
                Errno.ESLURM_NOT_SUPPORTED, f"{where}{key}/",
            )  # fmt: skip
    for key, field in _TEXTS.items():
        if desc.get(key):
            request[field] = desc[key]
    for key, field in _COUNTS.items():
        if desc.get(key) is not None:
            request[field] = desc[key]
    for key, field in _OPTIONAL.items():
        count = _number(desc.get(key))
        if count is not None:
            request[field] = count
    for read in _READERS:
        read(desc, request)
    flags = _flags(desc)
    if flags:
        request["flags"] = request.get("flags", 0) | flags
    for key in WITHOUT_EFFECT:
        if desc.get(key):
            call.warn(f"{key} has no effect in pyslurm-ng", f"{where}{key}/")
    _describe(call, request)
    return request


def environment_of(desc: Desc) -> bytes:
    """Return the variables, each with a NUL at its end.

    Raises:
        Refusal: an entry without a name or with a NUL.
    """
    entries = []
    for index, text in enumerate(desc.get("environment") or ()):
        name, equals, _ = text.partition("=")
        if not name or not equals or "\0" in text:
            raise Refusal(
                BAD_REQUEST, "environment: NAME=value is expected",
                Errno.ESLURM_ENVIRONMENT_MISSING, f"#/job/environment/{index}/",
            )  # fmt: skip
        entries.append(text.encode() + b"\0")
    return b"".join(entries)


def _describe(call: Call, request: Request) -> None:
    """Add where the request comes from."""
    request["alloc_node"] = os.uname().nodename.partition(".")[0]
    request["origin"] = "sbatch"
    request["submit_line"] = "slurmrestd"
    request.setdefault("umask", 0o22)


def _number(value: Any) -> int | None:
    """Return an optional number; None if it is not set, INFINITE for no bound."""
    if not value:
        return None
    if value.get("infinite"):
        return INFINITE
    return value.get("number") or 0 if value.get("set") else None


def _times(desc: Desc, request: Request) -> None:
    for key, field in (("time_limit", "time_limit_min"), ("time_minimum", "time_min_min")):
        minutes = _number(desc.get(key))
        if minutes is not None:
            request[field] = minutes
    begin = _number(desc.get("begin_time"))
    if begin:
        request["begin_us"] = begin * SECOND_US
    if desc.get("deadline"):
        request["deadline_us"] = desc["deadline"] * SECOND_US
    if desc.get("delay_boot"):
        request["delay_boot_min"] = min(-(-desc["delay_boot"] // 60), NO_VAL - 1)


def _size(desc: Desc, request: Request) -> None:
    if desc.get("tasks") is not None:
        request["ntasks"] = desc["tasks"]
        request["flags"] = request.get("flags", 0) | REQ_NTASKS_SET
    elif desc.get("minimum_cpus") and not desc.get("cpus_per_task"):
        request["ntasks"] = desc["minimum_cpus"]
    least, most = desc.get("minimum_nodes"), desc.get("maximum_nodes")
    text = desc.get("nodes") or ""
    if text:
        low, _, high = text.partition("-")
        if low.isdecimal() and (not high or high.isdecimal()) and len(text) < 20:
            least, most = int(low), int(high or low)
        else:
            request["node_sizes"] = text
    if least or most:
        request["nodes_min"] = least or 1
        request["nodes_max"] = most or least or 0
    if least or most or text:
        request["flags"] = request.get("flags", 0) | REQ_NODES_SET
    for key, field in (("required_nodes", "node_list"), ("excluded_nodes", "exclude")):
        if desc.get(key):
            request[field] = ",".join(desc[key])


def _memory(desc: Desc, request: Request) -> None:
    for key, field in (
        ("memory_per_cpu", "mem_per_cpu_mib"),
        ("memory_per_node", "mem_per_node_mib"),
    ):
        mib = _number(desc.get(key))
        if mib is not None:
            request[field] = mib
            request["flags"] = request.get("flags", 0) | REQ_MEM_SET


def _gpu_count(text: str) -> int | None:
    """Return N of `gres/gpu:N`."""
    count = text.rpartition(":")[2]
    return int(count) if count.isdecimal() and len(count) < 16 else None


def _resources(desc: Desc, request: Request) -> None:
    for key, field in (("cpus_per_tres", "cpus_per_gpu"), ("memory_per_tres", "mem_per_gpu_mib")):
        count = _gpu_count(desc.get(key) or "")
        if count is not None:
            request[field] = count
            if field.startswith("mem"):
                request["flags"] = request.get("flags", 0) | REQ_MEM_SET
    for key, field in (("tres_per_job", "gpus"), ("tres_per_socket", "gpus_per_socket")):
        if desc.get(key):
            request[field] = _gpus(desc[key])
    words = _words(desc.get("tres_per_node"))
    if words:
        request["gres"] = ",".join(word.removeprefix("gres/") for word in words)
    _per_task(_words(desc.get("tres_per_task")), request)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _gpus(text: str) -> str:
    """Return `a100:2` of `gres/gpu:a100:2` and of `gres/gpu:a100=2`."""
    words = []
    for word in _words(text):
        name = word.removeprefix("gres/").replace("=", ":")
        words.append(name.removeprefix("gpu:"))
    return ",".join(words)


def _per_task(words: list[str], request: Request) -> None:
    """Take --tres-per-task apart: CPUs and GPUs have fields of their own."""
    rest = []
    for word in words:
        name, _, count = word.replace("=", ":").rpartition(":")
        if name == "cpu" and count.isdecimal() and len(count) < 10:
            request["cpus_per_task"] = int(count)
        elif name.removeprefix("gres/").startswith("gpu"):
            gpus = _gpus(word)
            request["gpus_per_task"] = ",".join(
                filter(None, (request.get("gpus_per_task", ""), gpus))
            )
        else:
            rest.append(word)
    if rest:
        request["tres_per_task"] = ",".join(rest)


def _others(desc: Desc, request: Request) -> None:
    if desc.get("nice") is not None:
        request["nice"] = desc["nice"]
        request["flags"] = request.get("flags", 0) | REQ_NICE_SET
    if desc.get("mail_type"):
        request["mail_type"] = _mail(desc["mail_type"])
    if desc.get("profile"):
        request["profile"] = ",".join(word.lower() for word in desc["profile"])
    if desc.get("distribution"):
        request["distribution"] = desc["distribution"].lower()
    if desc.get("argv"):
        request["argv"] = desc["argv"]
    if desc.get("wait_all_nodes") is not None:
        request["wait_all_nodes"] = int(desc["wait_all_nodes"])
    if desc.get("kill_warning_signal"):
        request["signal"] = _signal(desc["kill_warning_signal"])
    limits = [
        (name.upper(), *(2 * (_limit(value),)))
        for name, value in (desc.get("rlimits") or {}).items()
        if _number(value) is not None
    ]
    if limits:
        request["rlimits"] = limits
    for key, field in (("user_id", "uid"), ("group_id", "gid")):
        if desc.get(key):
            request[field] = _id_of(desc[key], key)


def _limit(value: Any) -> int:
    count = _number(value)
    return -1 if count is None or count == INFINITE else count


def _mail(words: list[str | None]) -> int:
    return sum(1 << MAIL_WORDS.index(word) for word in set(words) if word in MAIL_WORDS)


def _signal(text: str) -> int:
    number = parse_signal(text)
    if not number:
        raise Refusal(BAD_REQUEST, f"kill_warning_signal: {text[:32]!r} is no signal",
                      source="#/job/kill_warning_signal/")  # fmt: skip
    return number


def _id_of(text: str, key: str) -> int:
    import grp
    import pwd

    if text.isdecimal() and len(text) <= 10:
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid if key == "user_id" else grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):
        raise Refusal(BAD_REQUEST, f"{key}: {text[:64]!r} is not known",
                      Errno.ESLURM_USER_ID_MISSING, f"#/job/{key}/") from None  # fmt: skip


def _flags(desc: Desc) -> int:
    flags = 0
    for word in desc.get("flags") or ():
        flags |= _FLAG_WORDS.get(word or "", 0)
    for word in desc.get("shared") or ():
        flags |= _SHARED.get(word or "", 0)
    for key, bit in _SWITCHES.items():
        flags |= bit if desc.get(key) else 0
    for word in desc.get("open_mode") or ():
        flags |= REQ_OPEN_APPEND if word == "APPEND" else REQ_OPEN_TRUNCATE
    if desc.get("requeue") is not None:
        flags |= REQ_REQUEUE if desc["requeue"] else REQ_NO_REQUEUE
    if desc.get("kill_on_node_fail") is False:
        flags |= REQ_NO_KILL
    for word in desc.get("kill_warning_flags") or ():
        flags |= {"BATCH_JOB": REQ_SIGNAL_BATCH, "RESERVATION_JOB": REQ_SIGNAL_RESV}.get(
            word or "", 0
        )
    return flags


_READERS: tuple[Callable[[Desc, Request], None], ...] = (
    _times, _size, _memory, _resources, _others,
)  # fmt: skip
